// Calls that a pod can make slow, for a thread that serves many pods. Each call runs on a separate
// thread (pod_thread.h). If it takes too long, the caller abandons it; until it has ended, the pod
// is not called again.
//
// All functions are for one thread, that of the owner.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/time.h"
#include "cni/node/pods/pod_thread.h"
#include "cni/redirect/netns.h"

namespace fairlead::cni::node {

// Maximum number of abandoned calls of all pods. Beyond it no pod is called.
inline constexpr std::size_t kCallsLeftMax = 256;
// How long the owner waits for all pods: this much at once, and then this part of its time. Beyond
// that, a call has kHurriedCallMax, which is enough for a pod that causes no delay.
inline constexpr Duration kCallsWaitAtOnce = std::chrono::seconds(5);
inline constexpr double kCallsWaitPerSecond = 0.2;
inline constexpr Duration kHurriedCallMax = std::chrono::milliseconds(50);

// The work and its result.
class PodCall {
 public:
  PodCall() = default;
  PodCall(const PodCall&) = delete;
  PodCall& operator=(const PodCall&) = delete;
  virtual ~PodCall() = default;
  virtual void run() = 0;
};

class PodCalls {
 public:
  // `wait_at_once` is shorter in tests.
  explicit PodCalls(Duration wait_at_once = kCallsWaitAtOnce)
      : wait_at_once_(wait_at_once), may_wait_(wait_at_once) {}

  // Returns the result of `function`, which may only refer to objects that outlive the call; empty
  // if it has not finished within `max`. `pod`: a name that no other pod has.
  template <class Function>
  auto ask(const std::string& pod, Duration max, Function function)
      -> std::optional<decltype(function())> {
    class Ask final : public PodCall {
     public:
      explicit Ask(Function asked) : function(std::move(asked)) {}
      void run() override { value.emplace(function()); }
      Function function;
      std::optional<decltype(std::declval<Function&>()())> value;
    };
    auto done = run(pod, max, std::make_unique<Ask>(std::move(function)));
    if (!done) return std::nullopt;
    return std::move(static_cast<Ask&>(*done).value);
  }

 private:
  // Returns the call if it has finished in time; else null.
  std::unique_ptr<PodCall> run(const std::string& pod, Duration max, std::unique_ptr<PodCall> call);
  Duration limit(Duration max, TimePoint now);
  void reap();

  std::map<std::string, std::unique_ptr<PodThread>> left_;  // by pod
  const Duration wait_at_once_;
  Duration may_wait_;
  TimePoint counted_at_{};
};

// A name for the pod with this network namespace.
std::string name_of_pod(const NetnsIdentity& pod);

}  // namespace fairlead::cni::node
