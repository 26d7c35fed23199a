#include "cni/node/agent/agent_pods.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/assert.h"
#include "base/linux/wait.h"
#include "base/log.h"
#include "cni/state/state.h"

namespace fairlead::cni::node {
namespace {

constexpr const char* kLogger = "node";
// wait_for_events() takes kWaitedMax descriptors, and one is the thread's own.
constexpr std::size_t kDutiesMax = kWaitedMax - 1;

TimePoint now_() { return std::chrono::steady_clock::now(); }

std::string name_of(const std::string& run_dir, const std::string& container) {
  const auto state = peek_state(run_dir, container);
  return state ? name_of(*state) : container;
}

void serve(const AgentPods::Duties& duties, PodThread::Here& here) {
  SMC_ASSERT(duties.size() <= kDutiesMax, duties.size());
  std::vector<pollfd> waiting(duties.size());
  for (;;) {
    TimePoint until = TimePoint::max();
    for (std::size_t i = 0; i < duties.size(); ++i) {
      waiting[i] = duties[i]->waits_for();
      until = std::min(until, duties[i]->due());
    }
    if (!here.wait(waiting, until)) return;
    for (std::size_t i = 0; i < duties.size(); ++i) {
      const TimePoint now = now_();
      if (waiting[i].revents != 0 || duties[i]->due() <= now) duties[i]->act(now);
      if (here.stopped()) return;
    }
  }
}

}  // namespace

AgentPods::AgentPods(std::string run_dir, PodWatch watch, MakeDuties make_duties)
    : run_dir_(std::move(run_dir)),
      watch_(std::move(watch)),
      make_duties_(std::move(make_duties)) {}

AgentPods::~AgentPods() = default;

Outcome<std::unique_ptr<AgentPods>> AgentPods::create(const std::string& run_dir,
                                                      MakeDuties make_duties) {
  auto watch = SMC_TRY(PodWatch::of_states(run_dir));
  return std::unique_ptr<AgentPods>(
      new AgentPods(run_dir, std::move(watch), std::move(make_duties)));
}

void AgentPods::run() {
  TimePoint next_look{};
  for (;;) {
    if (now_() >= next_look) {
      look();
      next_look = now_() + (counts_.refused == 0 ? Duration(kAgentPodsLook) : kAgentPodsRetry);
    }
    reap();
    TimePoint until = next_look;
    if (!ending_.empty()) until = std::min<TimePoint>(until, now_() + kPodKickInterval);
    pollfd waiting{watch_.descriptor(), POLLIN, 0};
    if (!thread_.wait({&waiting, 1}, until)) break;
    if (waiting.revents != 0) next_look = {};
  }
  for (auto& [container, pod] : pods_) end(std::move(pod.thread));
  pods_.clear();
  const TimePoint last = now_() + kAgentPodsEnd;
  for (reap(); !ending_.empty() && now_() < last; reap())
    (void)wait_for_events({}, static_cast<int>(kPodKickInterval.count()));
}

void AgentPods::look() {
  const WatchedPods& seen = watch_.look();
  for (auto at = pods_.begin(); at != pods_.end();) {
    const auto still = seen.find(at->first);
    if (still != seen.end() && still->second == at->second.place) {
      ++at;
      continue;
    }
    end(std::move(at->second.thread));
    at = pods_.erase(at);
  }
  for (const auto& [container, place] : seen) {
    Pod& pod = pods_.try_emplace(container, Pod{place, nullptr}).first->second;
    if (!pod.thread) begin(container, pod);
  }
}

// Updates the counters that are visible from outside.
void AgentPods::count() {
  const std::size_t served = running();
  counts_.running = served;
  counts_.refused = pods_.size() - served;
  counts_.ending = ending_.size();
}

std::size_t AgentPods::running() const {
  return static_cast<std::size_t>(std::count_if(
      pods_.begin(), pods_.end(), [](const auto& one) { return one.second.thread != nullptr; }));
}

void AgentPods::begin(const std::string& container, Pod& pod) {
  const auto refuse = [&](const std::string& what) {
    lines_.write(LogLevel::kWarn, kLogger, "pod_refused", now_(), [&](LogEvent& line) {
      line.field("pod", name_of(run_dir_, container))
          .field("what", what)
          .field("hint",
                 "its connections end with its sidecar, and applications do not see "
                 "clients' addresses");
    });
  };
  // Threads of pods that have gone count as well: their descriptors are still there.
  if (running() + ending_.size() >= kAgentPodsMax)
    return refuse("the agent serves " + std::to_string(kAgentPodsMax) + " pods");
  auto thread = PodThread::start(
      [make = make_duties_, own = AgentPod{container, name_of(run_dir_, container), pod.place}](
          PodThread::Here& here) { serve(make(own, here), here); });
  if (!thread) return refuse(to_string(thread.error()));
  pod.thread = std::move(*thread);
}

void AgentPods::end(std::unique_ptr<PodThread> thread) {
  if (!thread) return;
  thread->stop();
  ending_.push_back(std::move(thread));
}

void AgentPods::reap() {
  std::erase_if(ending_, [](const std::unique_ptr<PodThread>& thread) {
    if (thread->ended()) return true;
    thread->kick();
    return false;
  });
  count();
}

}  // namespace fairlead::cni::node
