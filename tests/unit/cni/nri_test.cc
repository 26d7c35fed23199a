// Goal: the bytes that a container runtime reads and writes, and the decision which container gets
// an RNIC. Method: vectors that a real runtime's library accepted; messages cut at every place;
// each refusal separately.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cni/node/nri/framing.h"
#include "cni/node/nri/plugin_session.h"
#include "cni/node/nri/rnic_adjustment.h"
#include "nri.pb.h"

namespace fairlead::cni::node::nri {
namespace {

namespace messages = fairlead::nri;

std::string from_hex(std::string_view text) {
  std::string bytes;
  std::string digits;
  for (const char c : text) {
    if (c == ' ') continue;
    digits.push_back(c);
    if (digits.size() < 2) continue;
    bytes.push_back(static_cast<char>(std::stoi(digits, nullptr, 16)));
    digits.clear();
  }
  return bytes;
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

// Gives the sidecar one device, and remembers what existed before.
class FixedHandler : public ContainerHandler {
 public:
  void create_container(const messages::PodSandbox&, const messages::Container& container,
                        messages::ContainerAdjustment& adjustment) override {
    if (container.name() != "fairlead-proxy") return;
    auto& device = *adjustment.mutable_linux_container()->add_devices();
    device.set_path("/dev/infiniband/uverbs0");
    device.set_type("c");
    device.set_major(231);
    device.set_minor(192);
    device.mutable_file_mode()->set_value(0600);
    device.mutable_uid()->set_value(2201);
    device.mutable_gid()->set_value(2201);
    auto& limit = *adjustment.add_rlimits();
    limit.set_type("RLIMIT_MEMLOCK");
    limit.set_hard(~std::uint64_t{0});
    limit.set_soft(~std::uint64_t{0});
  }
  void existing_container(const messages::PodSandbox& pod,
                          const messages::Container& container) override {
    existing.push_back(pod.name() + "/" + container.name());
  }
  std::vector<std::string> existing;
};

std::string message(std::uint32_t connection, std::uint32_t stream, MessageType type,
                    const std::string& payload) {
  std::string out;
  append_message({connection, stream, type, payload}, out);
  return out;
}

std::string call(std::string_view method, const std::string& payload, std::uint32_t stream) {
  messages::Request request;
  request.set_service("nri.pkg.api.v1alpha1.Plugin");
  request.set_method(std::string(method));
  request.set_payload(payload);
  return message(kPluginConnection, stream, MessageType::kRequest, request.SerializeAsString());
}

std::string create_container(const std::string& name) {
  messages::CreateContainerRequest request;
  request.mutable_pod()->set_id("sandbox");
  request.mutable_container()->set_name(name);
  return request.SerializeAsString();
}

const std::string kRegistration = from_hex(
    "000000020000004f 0000004500000001 0100 0a1c "
    "6e72692e706b672e6170692e7631616c706861312e52756e74696d65"
    "120e 5265676973746572506c7567696e 1a15 0a08 666169726c656164 1202 3930 1a05 302e382e30");
const std::string kConfigured = from_hex("000000010000000e 0000000400000001 0200 1202 1008");
const std::string kNoAdjustment = from_hex("000000010000000a 0000000000000003 0200");
const std::string kDeviceAndMemlock = from_hex(
    "000000010000006b 0000006100000005 0200 125f 0a5d 3233 0a31 0a17"
    "2f6465762f696e66696e6962616e642f75766572627330 1201 63 18e701 20c001"
    "2a03 088003 3203 089911 3a03 089911 3a26 0a0e 524c494d49545f4d454d4c4f434b"
    "10ffffffffffffffffff01 18ffffffffffffffffff01");

class NriPluginSession : public testing::Test {
 protected:
  std::string taken() { return std::exchange(session.output(), {}); }
  Result<void> feed(const std::string& bytes) { return session.handle_bytes(bytes_of(bytes)); }

  FixedHandler handler;
  PluginSession session{handler};
};

TEST_F(NriPluginSession, IsRegisteredOnceTheRuntimeSaysSo) {
  EXPECT_EQ(session.state(), PluginSession::State::kRegistering);
  ASSERT_TRUE(feed(message(kRuntimeConnection, 1, MessageType::kResponse, "")));
  EXPECT_EQ(session.state(), PluginSession::State::kRegistered);
}

TEST_F(NriPluginSession, ReportsARefusedRegistration) {
  messages::Response refusal;
  refusal.mutable_status()->set_code(2);
  const auto result =
      feed(message(kRuntimeConnection, 1, MessageType::kResponse, refusal.SerializeAsString()));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Errc::kPermission);
}

TEST_F(NriPluginSession, WritesTheBytesThatRuntimesTakeToMessagesCutAnywhere) {
  const std::string calls = call("Configure", "", 1) +
                            call("CreateContainer", create_container("app"), 3) +
                            call("CreateContainer", create_container("fairlead-proxy"), 5);
  for (std::size_t part = 1; part <= calls.size(); ++part) {
    PluginSession fresh(handler);
    EXPECT_EQ(std::exchange(fresh.output(), {}), kRegistration);
    for (std::size_t at = 0; at < calls.size(); at += part)
      ASSERT_TRUE(fresh.handle_bytes(bytes_of(calls.substr(at, part))));
    ASSERT_EQ(fresh.output(), kConfigured + kNoAdjustment + kDeviceAndMemlock) << part;
  }
}

TEST_F(NriPluginSession, NeverAnswersAnUnreadableRequestWithAnError) {
  (void)taken();
  for (const std::string payload : {"\xff\xff", "\x0a\x7f", "x"})
    ASSERT_TRUE(feed(call("CreateContainer", payload, 3)));
  EXPECT_EQ(taken(), kNoAdjustment + kNoAdjustment + kNoAdjustment);
  ASSERT_TRUE(feed(message(kPluginConnection, 3, MessageType::kRequest, "\xff\xff")));
  EXPECT_EQ(taken(), kNoAdjustment);
}

TEST_F(NriPluginSession, SaysOfUnknownCallsThatTheyAreNotImplemented) {
  (void)taken();
  ASSERT_TRUE(feed(call("ValidateContainerAdjustment", "", 7)));
  MessageReader reader;
  std::vector<RpcMessage> answers;
  ASSERT_TRUE(reader.feed(bytes_of(taken()), answers));
  ASSERT_EQ(answers.size(), 1u);
  messages::Response response;
  ASSERT_TRUE(response.ParseFromString(answers[0].payload));
  EXPECT_EQ(response.status().code(), 12);
  EXPECT_EQ(answers[0].stream, 7u);
}

TEST_F(NriPluginSession, FindsPodsOfASplitSynchronisation) {
  messages::SynchronizeRequest first, second;
  first.add_pods()->set_id("p1");
  first.mutable_pods(0)->set_name("web");
  first.set_more(true);
  auto& container = *second.add_containers();
  container.set_pod_sandbox_id("p1");
  container.set_name("fairlead-proxy");
  ASSERT_TRUE(feed(call("Synchronize", first.SerializeAsString(), 1)));
  EXPECT_TRUE(handler.existing.empty());
  ASSERT_TRUE(feed(call("Synchronize", second.SerializeAsString(), 3)));
  EXPECT_EQ(handler.existing, std::vector<std::string>{"web/fairlead-proxy"});
}

TEST(NriFraming, SendsFramesThatRuntimesTake) {
  const std::string out =
      message(kPluginConnection, 9, MessageType::kResponse, std::string(20'000, 'x'));
  std::size_t frames = 0;
  for (std::size_t at = 0; at < out.size(); ++frames) {
    const auto byte = [&](std::size_t i) {
      return static_cast<std::size_t>(static_cast<std::uint8_t>(out[at + i]));
    };
    const std::size_t length = byte(4) << 24 | byte(5) << 16 | byte(6) << 8 | byte(7);
    EXPECT_LE(length, kFrameBytesMax);
    at += kMuxHeaderBytes + length;
  }
  EXPECT_EQ(frames, 5u);
  MessageReader reader;
  std::vector<RpcMessage> read;
  ASSERT_TRUE(reader.feed(bytes_of(out), read));
  ASSERT_EQ(read.size(), 1u);
  EXPECT_EQ(read[0].payload.size(), 20'000u);
}

TEST(NriFraming, RefusesLengthsAndNumbersOutOfRange) {
  const auto refused = [](std::string_view hex) {
    MessageReader reader;
    std::vector<RpcMessage> read;
    const auto result = reader.feed(bytes_of(from_hex(hex)), read);
    return result ? Errc::kWouldBlock : result.error().code;
  };
  EXPECT_EQ(refused("00000000 00000001 00"), Errc::kMalformed);
  EXPECT_EQ(refused("00000003 00000001 00"), Errc::kMalformed);
  EXPECT_EQ(refused("00000001 ffffffff"), Errc::kExhausted);
  EXPECT_EQ(refused("00000001 0000000a ffffffff 00000001 0100"), Errc::kExhausted);
  EXPECT_EQ(refused("00000001 0000000a 00000001 00000001 0900"), Errc::kMalformed);
  EXPECT_EQ(refused("00000001 0000000a 00000001 00000001 01"), Errc::kWouldBlock);
}

class RnicAdjustmentTest : public testing::Test {
 protected:
  RnicAdjustmentTest() {
    container.container_name = "fairlead-proxy";
    container.pod_namespace = "shop";
    container.pod_annotations = {{"fairlead.io/status", "{}"}, {"fairlead.io/inject", "enabled"}};
    policy.sidecar_uid = 2201;
    policy.memlock.bytes = 1 << 28;
  }
  RnicAdjustment adjust() const {
    return adjust_rnics(container, policy, exclusive, {rnics, pnet_denied}, uverbs);
  }

  ContainerFacts container;
  RnicAccessPolicy policy;
  bool exclusive = false, pnet_denied = false;
  std::vector<std::string> rnics = {"mlx5_0", "mlx5_1"};
  std::vector<UverbsDevice> uverbs = {
      {"mlx5_0", 0, 231, 192}, {"mlx5_1", 1, 231, 193}, {"mlx5_2", 2, 231, 194}};
};

TEST_F(RnicAdjustmentTest, GivesTheSidecarTheDevicesOfItsPnet) {
  const RnicAdjustment made = adjust();
  EXPECT_EQ(made.access, RnicAccess::kGranted);
  EXPECT_EQ(made.devices, (std::vector<UverbsDevice>{uverbs[0], uverbs[1]}));
  EXPECT_EQ(made.memlock_bytes, 1u << 28);
  EXPECT_EQ(device_path(made.devices[1]), "/dev/infiniband/uverbs1");
}

TEST_F(RnicAdjustmentTest, GivesNothingToAnybodyElse) {
  container.container_name = "app";
  EXPECT_EQ(adjust().access, RnicAccess::kNotSidecar);
  container.container_name = "fairlead-proxy";
  container.pod_annotations.erase("fairlead.io/status");
  EXPECT_EQ(adjust().access, RnicAccess::kNotSidecar);
  EXPECT_TRUE(adjust().devices.empty());
  EXPECT_FALSE(adjust().memlock_bytes);
}

TEST_F(RnicAdjustmentTest, ObeysNamespaceUserAndSwitches) {
  policy.namespaces = {"prod"};
  EXPECT_EQ(adjust().access, RnicAccess::kNamespace);
  policy.namespaces = {"prod", "shop"};
  EXPECT_EQ(adjust().access, RnicAccess::kGranted);
  container.uid = 0;
  EXPECT_EQ(adjust().access, RnicAccess::kWrongUser);
  container.uid = 2201;
  exclusive = true;
  EXPECT_EQ(adjust().access, RnicAccess::kExclusiveMode);
  exclusive = false;
  policy.enabled = false;
  EXPECT_EQ(adjust().access, RnicAccess::kDisabled);
  policy.enabled = true;
  container.pod_annotations["fairlead.io/rnic-access"] = "none";
  EXPECT_EQ(adjust().access, RnicAccess::kDisabled);
}

TEST_F(RnicAdjustmentTest, GivesNothingToAContainerThatOnlyHasTheSidecarsName) {
  container.program.args = {"/bin/sh"};
  RnicAdjustment made = adjust();
  EXPECT_EQ(made.access, RnicAccess::kForeign);
  EXPECT_EQ(to_string(made.access), "foreign");
  ASSERT_TRUE(made.finding);
  EXPECT_EQ(made.finding->value, "/bin/sh");
  EXPECT_TRUE(made.devices.empty());
  EXPECT_FALSE(made.memlock_bytes);
  container.program = {};
  container.program.namespaces = {{"network", ""}};
  made = adjust();
  EXPECT_EQ(made.access, RnicAccess::kSharedProcesses);
  EXPECT_EQ(to_string(made.access), "shared_processes");
  EXPECT_TRUE(made.devices.empty());
  container.program = {};
  container.program.env = {"COMPANY_ZONE=a"};
  EXPECT_EQ(adjust().access, RnicAccess::kForeign);
  policy.env_names = {"COMPANY_ZONE"};
  EXPECT_EQ(adjust().access, RnicAccess::kGranted);
}

TEST_F(RnicAdjustmentTest, SaysThatTheNodeHasNoRnic) {
  rnics = {"mlx5_7"};
  EXPECT_EQ(adjust().access, RnicAccess::kNoRnic);
  EXPECT_FALSE(adjust().memlock_bytes);
  rnics.clear();
  EXPECT_EQ(adjust().access, RnicAccess::kNoRnic);
  pnet_denied = true;
  EXPECT_EQ(adjust().access, RnicAccess::kPnetNamespace);
  EXPECT_EQ(to_string(adjust().access), "pnet_namespace");
}

// A runtime that may not raise the limit that far would not start the container.
TEST_F(RnicAdjustmentTest, SetsNoLimitThatTheRuntimeCannotSetAndFitsItToThatOfMemory) {
  policy.memlock.ceiling_bytes = 1 << 20;
  EXPECT_EQ(adjust().access, RnicAccess::kGranted);
  EXPECT_FALSE(adjust().memlock_bytes);
  policy.memlock.bytes = 1 << 20;
  EXPECT_EQ(adjust().memlock_bytes, 1u << 20);
  policy.memlock = {};
  EXPECT_EQ(adjust().memlock_bytes, RLIM_INFINITY);
  container.memory_limit_bytes = 512 << 20;
  EXPECT_EQ(adjust().memlock_bytes, 512u << 20);
}

// If two plugins set one path or one limit, the container does not start.
TEST_F(RnicAdjustmentTest, LeavesAloneWhatAnotherPluginSet) {
  container.has_memlock_limit = true;
  container.devices = {{"/dev/infiniband/uverbs0", 2201, 0600},
                       {"/dev/infiniband/uverbs1", 0, 0600}};
  RnicAdjustment made = adjust();
  EXPECT_EQ(made.devices, std::vector<UverbsDevice>{uverbs[1]});
  EXPECT_FALSE(made.memlock_bytes);
  container.devices[1].mode = 0666;
  made = adjust();
  EXPECT_EQ(made.access, RnicAccess::kAlreadyGranted);
  EXPECT_TRUE(made.devices.empty());
}

}  // namespace
}  // namespace fairlead::cni::node::nri
