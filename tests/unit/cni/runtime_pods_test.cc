// Goal: the table of the pods that the runtime names has a limit, and keeps no pod that has ended.
// Method: a thread with a network namespace of its own, which all pods have.
#include "cni/node/nri/runtime_pods.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <future>
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

void add(RuntimePods& pods, const messages::PodSandbox& pod) {
  messages::Container container;
  container.set_name("fairlead-proxy");
  pods.existing_container(pod, container);
}

TEST(RuntimePods, KeepsAsManyAsItsLimit) {
  const OwnNetwork network;
  if (network.path().empty()) GTEST_SKIP() << "no network namespaces here";
  RuntimePods pods;
  pods.connected(1);
  for (std::size_t i = 0; i < kRuntimePodsMax + 3; ++i) add(pods, pod_at(network.path(), i));
  EXPECT_EQ(pods.list().size(), kRuntimePodsMax);
  // A known one may be named again.
  add(pods, pod_at(network.path(), 0));
  const auto all = pods.list();
  ASSERT_EQ(all.size(), kRuntimePodsMax);
  EXPECT_EQ(all[0].annotations.size(), 2u);
  EXPECT_EQ(all[0].annotations.at("fairlead.io/pnet-id").size(), kAnnotationBytesMax);
}

TEST(RuntimePods, ForgetsWhatTheRuntimeDoesNotNameAfterANewConnection) {
  const OwnNetwork network;
  if (network.path().empty()) GTEST_SKIP() << "no network namespaces here";
  RuntimePods pods;
  pods.connected(1);
  for (std::size_t i = 0; i < 3; ++i) add(pods, pod_at(network.path(), i));
  pods.synchronized();
  EXPECT_EQ(pods.list().size(), 3u);
  pods.connected(1);
  EXPECT_EQ(pods.list().size(), 3u);
  add(pods, pod_at(network.path(), 1));
  pods.synchronized();
  ASSERT_EQ(pods.list().size(), 1u);
  EXPECT_EQ(pods.list()[0].uid, "u-1");
}

TEST(RuntimePods, ForgetsAPodWhoseNetworkIsGone) {
  RuntimePods pods;
  pods.connected(1);
  {
    const OwnNetwork network;
    if (network.path().empty()) GTEST_SKIP() << "no network namespaces here";
    add(pods, pod_at(network.path(), 0));
    EXPECT_EQ(pods.list().size(), 1u);
  }
  EXPECT_TRUE(pods.list().empty());
  add(pods, pod_at("/proc/self/ns/net", 0));  // the node's own
  EXPECT_TRUE(pods.list().empty());
}

}  // namespace
}  // namespace fairlead::cni::node::nri
