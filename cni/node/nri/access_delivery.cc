#include "cni/node/nri/access_delivery.h"

#include <algorithm>
#include <utility>

#include "base/hand_over.h"
#include "cni/redirect/link_alias.h"
#include "cni/redirect/netns.h"
#include "cni/state/state.h"

namespace fairlead::cni::node::nri {
namespace {

constexpr const char* kLogger = "nri";

constexpr Error kTooSlow{Errc::kTimedOut, "the pod makes the call slow"};

TimePoint now_() { return std::chrono::steady_clock::now(); }

// A container that was created but not started has no process of its own. Its process is the
// runtime's, which runs as root and has another /dev until it becomes the sidecar.
bool may_be_starting(const Error& error) {
  return error.code == Errc::kNotFound || error.code == Errc::kWrongState;
}

// The call may also still be running, for example on a busy node.
bool may_come(const Error& error) {
  return may_be_starting(error) || error.code == Errc::kTimedOut;
}

// A pod for which the plugin was not called has no note to extend.
Result<void> hand_over(const std::string& run_dir, const std::string& pod_id, RnicAccess access) {
  const auto state = is_container_id(pod_id) ? peek_state(run_dir, pod_id) : std::nullopt;
  if (!state) return Error{Errc::kNotFound, "state of the pod"};
  const Netns netns = SMC_TRY(Netns::open(state->netns));
  if (netns.identity() != state->identity)
    return Error{Errc::kNotFound, "network namespace of the pod"};
  const NetnsVisit visit = SMC_TRY(NetnsVisit::enter(netns));
  SMC_TRY(change_note(
      [access](const std::string& note) { return with_access(note, to_string(access)); }));
  return {};
}

}  // namespace

void AccessDelivery::add(Delivery delivery) {
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() >= kDeliveriesMax) {
      ++counts_.dropped;
      return;
    }
    waiting_.push_back(std::move(delivery));
  }
  thread_.wake();
}

std::optional<Delivery> AccessDelivery::take_due() {
  const auto now = std::chrono::steady_clock::now();
  const auto found = std::find_if(waiting_.begin(), waiting_.end(),
                                  [&](const Delivery& one) { return one.due <= now; });
  if (found == waiting_.end()) return std::nullopt;
  Delivery delivery = std::move(*found);
  waiting_.erase(found);
  return delivery;
}

void AccessDelivery::run() {
  while (!thread_.is_stopping()) {
    std::unique_lock lock(mutex_);
    std::optional<Delivery> delivery = take_due();
    const TimePoint until = waiting_.empty() ? TimePoint::max() : now_() + kLateRetryInterval;
    lock.unlock();
    if (!delivery) {
      (void)thread_.wait_until(until);
      continue;
    }
    if (deliver(*delivery)) continue;
    lock.lock();
    if (waiting_.size() >= kDeliveriesMax) continue;
    delivery->due = now_() + kLateRetryInterval;
    waiting_.push_back(std::move(*delivery));
  }
}

bool AccessDelivery::deliver_late(Delivery& delivery) {
  const auto asked =
      calls_.ask(delivery.pod_id, kDeliveryCallMax,
                 [late = *delivery.late, places = places_] { return give_late(late, places); });
  const Result<void> given = asked.value_or(kTooSlow);
  if (!given && may_come(given.error()) && ++delivery.tries < kLateTriesMax) {
    ++counts_.late_retries;
    return false;
  }
  ++(given ? counts_.late_given : counts_.late_failed);
  if (!given) delivery.access = RnicAccess::kLateFailed;
  lines_.write(given ? LogLevel::kInfo : LogLevel::kWarn, kLogger,
               given ? "rnic_given_late" : "rnic_not_given_late", now_(), [&](LogEvent& line) {
                 line.field("pod", delivery.pod);
                 if (given) return;
                 line.field("what", to_string(given.error()))
                     .field("hint", "restart the pod to give its sidecar the RNIC");
               });
  return true;
}

bool AccessDelivery::deliver(Delivery& delivery) {
  if (delivery.late && !deliver_late(delivery)) return false;
  const auto asked =
      calls_.ask(delivery.pod_id, kDeliveryCallMax,
                 [run_dir = run_dir_, pod_id = delivery.pod_id, access = delivery.access] {
                   return hand_over(run_dir, pod_id, access);
                 });
  const Result<void> told = asked.value_or(kTooSlow);
  if (!asked && ++delivery.tries < kLateTriesMax) {
    delivery.late.reset();  // already given
    return false;
  }
  if (!told && told.error().code != Errc::kNotFound)
    lines_.write(LogLevel::kWarn, kLogger, "rnic_access_not_told", now_(), [&](LogEvent& line) {
      line.field("pod", delivery.pod).field("what", to_string(told.error()));
    });
  return true;
}

}  // namespace fairlead::cni::node::nri
