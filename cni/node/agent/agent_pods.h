// The pods of this node that have a sidecar, each with its thread, as long as the plugin has a
// state of the pod. Whatever the agent does with one pod is a duty on the thread of that pod.
//
// The broker is not among the duties: a channel joins two pods, so one thread serves all, and it
// receives nothing from them (broker.h).
//
// Threads: one of its own, which makes no call that a pod can make slow. counts() from any.
#pragma once

#include <poll.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/linux/handle.h"
#include "base/linux/service_thread.h"
#include "base/paced_lines.h"
#include "base/time.h"
#include "cni/node/pods/pod_thread.h"
#include "cni/node/pods/pod_watch.h"
#include "cni/plugin/plugin_error.h"

namespace fairlead::cni::node {

// Maximum number of pods with a thread. Other pods are refused, and tried again.
inline constexpr std::size_t kAgentPodsMax = 1024;
// Interval of checks for pods that ended without a DEL, and for pods without a thread.
inline constexpr std::chrono::seconds kAgentPodsLook{10};
inline constexpr std::chrono::seconds kAgentPodsRetry{1};
// How long threads may take to end with the agent. Those that take longer end with the process.
inline constexpr std::chrono::seconds kAgentPodsEnd{2};

// A pod, as its duties see it.
struct AgentPod {
  std::string container;  // id
  std::string name;       // namespace/name, for people; the id where that is not known
  WatchedPod place;
};

// One thing that the agent does for a pod, on the pod's thread, where it is made and destroyed.
class PodDuty {
 public:
  PodDuty() = default;
  PodDuty(const PodDuty&) = delete;
  PodDuty& operator=(const PodDuty&) = delete;
  virtual ~PodDuty() = default;
  // What it waits for; fd -1: only for the time.
  virtual pollfd waits_for() const = 0;
  virtual TimePoint due() const = 0;
  // What it waits for has come, or it is due.
  virtual void act(TimePoint now) = 0;
};

struct AgentPodCounts {
  std::atomic<std::uint64_t> running{0};
  std::atomic<std::uint64_t> ending{0};   // of pods that have gone
  std::atomic<std::uint64_t> refused{0};  // without a thread
};

class AgentPods {
 public:
  using Duties = std::vector<std::unique_ptr<PodDuty>>;
  // Called on the thread of each pod, which the second one outlives.
  using MakeDuties = std::function<Duties(const AgentPod&, const PodThread::Here&)>;

  // `make_duties` refers to nothing that ends before the process: see all_ended(). Errors: kState.
  static Outcome<std::unique_ptr<AgentPods>> create(const std::string& run_dir,
                                                    MakeDuties make_duties);
  ~AgentPods();
  // Errors: of ServiceThread::start().
  Result<void> start() {
    return thread_.start([this] { run(); });
  }
  // Waits for the threads, kAgentPodsEnd at most.
  void stop() { thread_.stop(); }
  // After stop(): no thread is left that refers to what the duties use.
  bool all_ended() const { return counts_.running == 0 && counts_.ending == 0; }
  const AgentPodCounts& counts() const { return counts_; }

 private:
  struct Pod {
    WatchedPod place;
    std::unique_ptr<PodThread> thread;  // null: it is refused
  };

  AgentPods(std::string run_dir, PodWatch watch, MakeDuties make_duties);
  void run();
  void look();
  void begin(const std::string& container, Pod& pod);
  void end(std::unique_ptr<PodThread> thread);
  // Wakes threads that must end, and forgets those that have ended.
  void reap();
  void count();
  std::size_t running() const;

  std::string run_dir_;
  PodWatch watch_;
  MakeDuties make_duties_;
  std::map<std::string, Pod> pods_;  // by container id
  std::vector<std::unique_ptr<PodThread>> ending_;
  PacedLines lines_;
  AgentPodCounts counts_;
  ServiceThread thread_;
};

}  // namespace fairlead::cni::node
