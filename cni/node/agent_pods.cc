#include "cni/node/agent_pods.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/assert.h"
#include "base/log.h"
#include "base/wait.h"
#include "cni/state.h"

namespace fairlead::cni::node {
namespace {

constexpr const char* kLogger = "node";
// wait_for_events() takes so many, and one is the thread's own.
constexpr std::size_t kDutiesMax = kWaitedMax - 1;

TimePoint now_() { return std::chrono::steady_clock::now(); }

std::string name_of(const std::string& run_dir, const std::string& container) {
  const auto state = peek_state(run_dir, container);
  if (!state || state->pod_name.empty()) return container;
  return state->pod_namespace + "/" + state->pod_name;
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

AgentPods::AgentPods(std::string run_dir, PodWatch watch, MakeDuties make_duties,
                     FileDescriptor stop_event)
    : run_dir_(std::move(run_dir)),
      watch_(std::move(watch)),
      make_duties_(std::move(make_duties)),
      stop_event_(std::move(stop_event)) {}

AgentPods::~AgentPods() = default;

Outcome<std::unique_ptr<AgentPods>> AgentPods::create(const std::string& run_dir,
                                                      MakeDuties make_duties) {
  auto watch = PodWatch::open(run_dir);
  if (!watch) return tl::unexpected(watch.error());
  FileDescriptor stop(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop) return fail(Code::kState, to_string(system_error("eventfd", errno)));
  return std::unique_ptr<AgentPods>(
      new AgentPods(run_dir, std::move(*watch), std::move(make_duties), std::move(stop)));
}

void AgentPods::stop() {
  const std::uint64_t one = 1;
  (void)!::write(stop_event_.get(), &one, sizeof one);
}

void AgentPods::run() {
  for (;;) {
    look();
    const TimePoint next =
        now_() + (counts_.refused == 0 ? Duration(kAgentPodsLook) : Duration(kAgentPodsRetry));
    for (;;) {
      reap();
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - now_()).count();
      if (left <= 0) break;
      const auto wait =
          ending_.empty() ? left : std::min<std::int64_t>(left, kPodKickInterval.count());
      std::array<pollfd, 2> waiting = {pollfd{stop_event_.get(), POLLIN, 0},
                                       pollfd{watch_.descriptor(), POLLIN, 0}};
      (void)wait_for_events(waiting, static_cast<int>(wait));
      if (waiting[0].revents != 0) {
        for (auto& [container, pod] : pods_) end(std::move(pod.thread));
        pods_.clear();
        const TimePoint last = now_() + kAgentPodsEnd;
        for (reap(); !ending_.empty() && now_() < last; reap())
          (void)wait_for_events({}, static_cast<int>(kPodKickInterval.count()));
        return;
      }
      if (waiting[1].revents != 0) break;
    }
  }
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
    // One that has ended by itself could not be given what it needs.
    if (pod.thread && pod.thread->ended()) end(std::move(pod.thread));
    if (!pod.thread) begin(container, pod);
  }
  std::uint64_t running = 0;
  for (const auto& [container, pod] : pods_) running += pod.thread ? 1U : 0U;
  counts_.running = running;
  counts_.refused = pods_.size() - running;
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
  if (counts_.running + ending_.size() >= kAgentPodsMax)
    return refuse("the agent serves " + std::to_string(kAgentPodsMax) + " pods");
  auto thread = PodThread::start(
      [make = make_duties_, own = AgentPod{container, name_of(run_dir_, container), pod.place}](
          PodThread::Here& here) { serve(make(own, here), here); });
  if (!thread) return refuse(to_string(thread.error()));
  pod.thread = std::move(*thread);
  ++counts_.running;
}

void AgentPods::end(std::unique_ptr<PodThread> thread) {
  if (!thread) return;
  thread->stop();
  ending_.push_back(std::move(thread));
  --counts_.running;
  ++counts_.ending;
}

void AgentPods::reap() {
  std::erase_if(ending_, [](const std::unique_ptr<PodThread>& thread) {
    if (thread->ended()) return true;
    thread->kick();
    return false;
  });
  counts_.ending = ending_.size();
}

}  // namespace fairlead::cni::node
