// Goal: the table of the pods that the runtime names has a limit, and keeps no pod that has ended.
// Method: a thread with a network namespace of its own, which all pods have.
#include "cni/node/nri/runtime_pods.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <future>
#include <optional>
#include <string>
#include <thread>

#include "nri.pb.h"

namespace fairlead::cni::node::nri {
namespace {

namespace messages = fairlead::nri;

// Its path ends with the object.
class OwnNetwork {
 public:
  OwnNetwork() {
    std::promise<std::string> path;
    auto made = path.get_future();
    thread_ = std::thread([&path, ended = end_.get_future()] {
      const bool good = ::unshare(CLONE_NEWNET) == 0;
      path.set_value(good ? "/proc/self/task/" + std::to_string(::gettid()) + "/ns/net" : "");
      ended.wait();
    });
    path_ = made.get();
  }
  ~OwnNetwork() {
    end_.set_value();
    thread_.join();
  }
  const std::string& path() const { return path_; }

 private:
  std::promise<void> end_;
  std::thread thread_;
  std::string path_;
};

messages::PodSandbox pod_at(const std::string& path, std::size_t number) {
  messages::PodSandbox pod;
  pod.set_id("sandbox" + std::to_string(number));
  pod.set_name("web-" + std::to_string(number));
  pod.set_namespace_("shop");
  pod.set_uid("u-" + std::to_string(number));
  (*pod.mutable_annotations())["fairlead.io/status"] = "{}";
  (*pod.mutable_annotations())["fairlead.io/pnet-id"] = std::string(3 * kAnnotationBytesMax, 'A');
  (*pod.mutable_annotations())["other"] = "x";
  auto& network = *pod.mutable_linux_pod()->add_namespaces();
  network.set_type("network");
  network.set_path(path);
  return pod;
}

class RuntimePodsTest : public testing::Test {
 protected:
  void SetUp() override {
    network.emplace();
    if (network->path().empty()) GTEST_SKIP() << "no network namespaces here";
    pods.connected(1);
  }
  void add(std::size_t number) { add(number, network->path()); }
  void add(std::size_t number, const std::string& path) {
    messages::Container container;
    container.set_name("fairlead-proxy");
    pods.existing_container(pod_at(path, number), container);
  }

  std::optional<OwnNetwork> network;
  RuntimePods pods;
};

TEST_F(RuntimePodsTest, KeepsAsManyAsItsLimit) {
  for (std::size_t i = 0; i < kRuntimePodsMax + 3; ++i) add(i);
  EXPECT_EQ(pods.list().size(), kRuntimePodsMax);
  // A known one may be named again.
  add(0);
  const auto all = pods.list();
  ASSERT_EQ(all.size(), kRuntimePodsMax);
  EXPECT_EQ(all[0].annotations.size(), 2u);
  EXPECT_EQ(all[0].annotations.at("fairlead.io/pnet-id").size(), kAnnotationBytesMax);
}

TEST_F(RuntimePodsTest, ForgetsWhatTheRuntimeDoesNotNameAfterANewConnection) {
  for (std::size_t i = 0; i < 3; ++i) add(i);
  pods.synchronized();
  EXPECT_EQ(pods.list().size(), 3u);
  pods.connected(1);
  EXPECT_EQ(pods.list().size(), 3u);
  add(1);
  pods.synchronized();
  ASSERT_EQ(pods.list().size(), 1u);
  EXPECT_EQ(pods.list()[0].uid, "u-1");
}

TEST_F(RuntimePodsTest, ForgetsAPodWhoseNetworkIsGone) {
  add(0);
  EXPECT_EQ(pods.list().size(), 1u);
  network.reset();
  EXPECT_TRUE(pods.list().empty());
  add(0, "/proc/self/ns/net");  // the node's own
  EXPECT_TRUE(pods.list().empty());
}

}  // namespace
}  // namespace fairlead::cni::node::nri
