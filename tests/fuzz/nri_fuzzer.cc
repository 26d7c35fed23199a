// Input of an NRI plugin from a container runtime: frames, calls, protobuf, and the descriptions of
// containers. Properties: only answers to unknown calls carry an error; a runtime accepts the
// frames of all answers; a refused connection has a reason; the result does not depend on how the
// bytes are split; nothing makes a foreign container the sidecar.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/assert.h"
#include "cni/node/nri/plugin_session.h"
#include "cni/node/nri/sidecar_program.h"
#include "fuzz/reached.h"
#include "nri.pb.h"

namespace {

using namespace fairlead;
using namespace fairlead::cni::node::nri;
namespace messages = fairlead::nri;

constexpr int kUnimplemented = 12;

// A finding has its field. A container with a finding has it whatever else is added.
void judge(const messages::Container& container) {
  ProgramFacts facts;
  facts.args = {container.args().begin(), container.args().end()};
  facts.env = {container.env().begin(), container.env().end()};
  for (const auto& mount : container.mounts())
    facts.mounts.push_back({mount.destination(), mount.type(), {}});
  for (const auto& one : container.linux_container().namespaces())
    facts.namespaces.push_back({one.type(), one.path()});
  const auto finding = judge_program(facts, {});
  SMC_ASSERT(!finding || !finding->field.empty());
  fuzz::reached(finding ? "container with a finding" : "container without a finding");
  if (!finding || finding->shared_processes) return;
  facts.env.push_back("FAIRLEAD_X=1");
  facts.mounts.push_back({"/tmp", "tmpfs", {}});
  SMC_ASSERT(judge_program(facts, {}).has_value());
}

// Gives every container a device, so that answers are long.
class Generous : public ContainerHandler {
 public:
  void create_container(const messages::PodSandbox& pod, const messages::Container& container,
                        messages::ContainerAdjustment& adjustment) override {
    auto& device = *adjustment.mutable_linux_container()->add_devices();
    device.set_path(pod.name().substr(0, 100) + container.name().substr(0, 100));
    judge(container);
  }
  void existing_container(const messages::PodSandbox& pod,
                          const messages::Container& container) override {
    fuzz::reached("existing container");
    SMC_ASSERT(pod.id() == container.pod_sandbox_id());
  }
};

std::span<const std::byte> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

void check_answers(const std::string& output) {
  for (std::size_t at = 0; at < output.size();) {
    SMC_ASSERT(output.size() - at >= kMuxHeaderBytes);
    std::size_t length = 0;
    for (std::size_t i = 4; i < kMuxHeaderBytes; ++i)
      length = length << 8 | static_cast<std::uint8_t>(output[at + i]);
    SMC_ASSERT(length != 0 && length <= kFrameBytesMax, length);
    at += kMuxHeaderBytes + length;
    SMC_ASSERT(at <= output.size());
  }
  MessageReader reader;
  std::vector<RpcMessage> answers;
  SMC_ASSERT(reader.feed(bytes_of(output), answers).has_value());
  for (const RpcMessage& answer : answers) {
    if (answer.type == MessageType::kRequest) continue;  // the registration
    messages::Response response;
    SMC_ASSERT(response.ParseFromString(answer.payload));
    const int code = response.status().code();
    fuzz::reached("answer with code " + std::to_string(code));
    SMC_ASSERT(code == 0 || code == kUnimplemented, code);
  }
}

std::string converse(std::span<const std::byte> input, std::size_t part) {
  Generous handler;
  PluginSession session(handler);
  for (std::size_t at = 0; at < input.size(); at += part) {
    const auto fed = session.handle_bytes(input.subspan(at, std::min(part, input.size() - at)));
    if (fed) continue;
    SMC_ASSERT(fed.error().what[0] != '\0');
    fuzz::reached_refusal(fed.error().what);
    break;
  }
  return session.output();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto input = std::as_bytes(std::span(data, size));
  const std::string whole = converse(input, std::max<std::size_t>(size, 1));
  check_answers(whole);
  SMC_ASSERT(converse(input, 7) == whole);
  // The same bytes as the payload of calls that are well framed.
  for (const char* method : {"Configure", "Synchronize", "CreateContainer"}) {
    messages::Request request;
    request.set_service("nri.pkg.api.v1alpha1.Plugin");
    request.set_method(method);
    request.set_payload(std::string(reinterpret_cast<const char*>(data), size));
    std::string framed;
    append_message({kPluginConnection, 1, MessageType::kRequest, request.SerializeAsString()},
                   framed);
    check_answers(converse(bytes_of(framed), framed.size()));
  }
  return 0;
}
