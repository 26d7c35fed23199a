#include "cni/node/nri/access_delivery.h"

#include <utility>

#include "base/hand_over.h"
#include "base/log.h"
#include "cni/link_alias.h"
#include "cni/netns.h"
#include "cni/state.h"

namespace fairlead::cni::node::nri {
namespace {

constexpr const char* kLogger = "nri";

// A pod that the plugin has not been called for has no note to add to.
Result<void> hand_over(const std::string& run_dir, const std::string& pod_id, RnicAccess access) {
  const auto state = is_container_id(pod_id) ? peek_state(run_dir, pod_id) : std::nullopt;
  if (!state) return Error{Errc::kNotFound, "state of the pod"};
  const Netns netns = SMC_TRY(Netns::open(state->netns));
  if (netns.identity() != state->identity)
    return Error{Errc::kNotFound, "network namespace of the pod"};
  const NetnsVisit visit = SMC_TRY(NetnsVisit::enter(netns));
  const std::string before = SMC_TRY(read_loopback_alias());
  if (!before.starts_with(kAliasPrefix)) return Error{Errc::kNotFound, "note of the plugin"};
  const std::string alias = with_access(before, to_string(access));
  return alias == before ? Result<void>() : write_loopback_alias(alias);
}

}  // namespace

AccessDelivery::AccessDelivery(std::string run_dir, LatePlaces places)
    : run_dir_(std::move(run_dir)), places_(std::move(places)), thread_([this] { run(); }) {}

AccessDelivery::~AccessDelivery() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void AccessDelivery::add(Delivery delivery) {
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() >= kDeliveriesMax) {
      ++counts_.dropped;
      return;
    }
    waiting_.push_back(std::move(delivery));
  }
  changed_.notify_one();
}

void AccessDelivery::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopped_ || !waiting_.empty(); });
    if (stopped_) return;
    Delivery delivery = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    deliver(delivery);
    lock.lock();
  }
}

void AccessDelivery::deliver(Delivery& delivery) {
  if (delivery.late) {
    const Result<void> given = give_late(*delivery.late, places_);
    ++(given ? counts_.late_given : counts_.late_failed);
    if (!given) delivery.access = RnicAccess::kLateFailed;
    LogEvent(given ? LogLevel::kInfo : LogLevel::kWarn, kLogger,
             given ? "rnic_given_late" : "rnic_not_given_late")
        .field("pod", delivery.pod)
        .field("what", given ? "" : to_string(given.error()))
        .field("hint", given ? "" : "restart the pod to give its sidecar the RNIC");
  }
  const Result<void> told = hand_over(run_dir_, delivery.pod_id, delivery.access);
  if (!told && told.error().code != Errc::kNotFound)
    LogEvent(LogLevel::kWarn, kLogger, "rnic_access_not_told")
        .field("pod", delivery.pod)
        .field("what", to_string(told.error()));
}

}  // namespace fairlead::cni::node::nri
