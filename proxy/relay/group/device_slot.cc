#include "relay/group/device_slot.h"

#include <algorithm>
#include <array>

#include "base/log.h"

namespace fairlead::relay {
namespace {

const char* describe(rdma::CompletionStatus status) {
  switch (status) {
    case rdma::CompletionStatus::kSuccess:
      return "success";
    case rdma::CompletionStatus::kFlushed:
      return "queue pair in error";
    case rdma::CompletionStatus::kRemoteAccessError:
      return "remote access error";
    case rdma::CompletionStatus::kRetryExceeded:
      return "peer does not answer";
    case rdma::CompletionStatus::kLocalError:
      return "local error";
  }
  return "?";
}

// The peer refused the message, or a message did not fit into the receive buffer here.
bool was_refused(const rdma::Completion& completion) {
  return completion.status == rdma::CompletionStatus::kRemoteAccessError ||
         (completion.status == rdma::CompletionStatus::kLocalError &&
          completion.kind == rdma::Completion::Kind::kReceive);
}

}  // namespace

DeviceSlot::DeviceSlot(std::unique_ptr<rdma::Device> device,
                       std::unique_ptr<Reachability> reachability, PeerTable& groups,
                       WorkerStats& stats)
    : device_(std::move(device)),
      reachability_(std::move(reachability)),
      groups_(groups),
      stats_(stats) {}

DeviceSlot::~DeviceSlot() = default;

Result<std::unique_ptr<DeviceSlot>> DeviceSlot::create(std::unique_ptr<rdma::Device> device,
                                                       std::unique_ptr<Reachability> reachability,
                                                       PeerTable& groups, WorkerStats& stats,
                                                       MemoryBudget& budget) {
  std::unique_ptr<DeviceSlot> slot(
      new DeviceSlot(std::move(device), std::move(reachability), groups, stats));
  rdma::Device& own = *slot->device_;
  slot->own_.device = &own;
  slot->own_.reachability = slot->reachability_.get();
  slot->receive_domain_ = SMC_TRY(own.create_protection_domain());
  const bool shared = own.capabilities().receive_queue_crosses_domains;
  std::unique_ptr<ReceivePool> pool = SMC_TRY(
      ReceivePool::create(slot->own_.receives, own, *slot->receive_domain_,
                          shared ? pool_of_worker(budget.limit_bytes()) : kPoolOnTrial, budget));
  // Otherwise the pool was a trial: a device on which no group could have a pool is useless.
  if (!shared) return slot;
  slot->shared_pool_ = std::move(pool);
  slot->own_.shared_pool = slot->shared_pool_.get();
  return slot;
}

bool DeviceSlot::active() const {
  return std::any_of(device_->ports().begin(), device_->ports().end(), usable);
}

bool DeviceSlot::in_network() const {
  return std::any_of(
      device_->ports().begin(), device_->ports().end(),
      [this](const rdma::Port& port) { return usable(port) && reachability_->in_network(port); });
}

bool DeviceSlot::poll(TimePoint now) {
  std::array<rdma::Completion, kCompletionsPerPoll> completions;
  bool more = false;
  for (unsigned round = 0; round < kPollsPerTurn; ++round) {
    const std::size_t count = device_->poll(completions);
    for (std::size_t i = 0; i < count; ++i) take(completions[i], now);
    if (const Result<void> posted = own_.receives.post_again(); !posted)
      write_paced(receives_pace_, LogLevel::kError, "relay.device", "receives_lost", now,
                  [&](LogEvent& line) {
                    line.field("device", device_->name()).field("what", to_string(posted.error()));
                  });
    more = count == completions.size();
    if (!more) break;
  }
  while (const std::optional<rdma::AsyncEvent> event = device_->poll_async_event())
    take(*event, now);
  while (const std::optional<rdma::PeerFault> fault = device_->poll_fault()) report(*fault, now);
  return more;
}

// A late peer may be innocent: this machine or the node agent may be slow, or the agent has ended.
void DeviceSlot::report(const rdma::PeerFault& fault, TimePoint now) {
  const bool late = fault.error.code == Errc::kTimedOut || fault.error.code == Errc::kPeerGone;
  if (!late) stats_.peer_faults.add();
  write_paced(fault_pace_, LogLevel::kWarn, "relay.device", late ? "peer_late" : "peer_fault", now,
              [&](LogEvent& line) {
                line.field("device", device_->name())
                    .field("peer_id", to_string(fault.peer))
                    .field("what", to_string(fault.error));
              });
}

void DeviceSlot::take(const rdma::Completion& completion, TimePoint now) {
  const auto found = own_.queue_pairs.find(completion.queue_pair);
  const LinkPlace* at = found == own_.queue_pairs.end() ? nullptr : &found->second;
  if (completion.kind == rdma::Completion::Kind::kReceive) {
    // If the group is gone, its link and its own pool may be gone as well.
    if (ReceivePool* pool = own_.receives.pool_of(completion)) {
      if (at && completion.status == rdma::CompletionStatus::kSuccess)
        at->group->handle_message(at->link, pool->message(completion), now);
      // A message may end the link that it arrived on, and that link's pool.
      if ((pool = own_.receives.pool_of(completion)) != nullptr) pool->take_back(completion);
    }
  }
  if (!at) return;
  // On shared memory any pod of the node can cause such a failure, and no packet is involved.
  if (was_refused(completion) && !device_->capabilities().remote_memory_addressable)
    refuse(*at, describe(completion.status), now);
  else if (completion.status != rdma::CompletionStatus::kSuccess)
    at->group->handle_link_failure(at->link, describe(completion.status), now);
  else if (completion.kind == rdma::Completion::Kind::kSend)
    at->group->sender().handle_send_done(at->link, completion.id);
}

void DeviceSlot::refuse(LinkPlace place, const char* why, TimePoint now) {
  const std::uint64_t failed = stats_.link_failed.get();
  place.group->handle_link_failure(place.link, why, now);
  // Not counted if the link had failed before, or if the peer has ended the group.
  if (stats_.link_failed.get() != failed) stats_.link_refused.add();
}

void DeviceSlot::take(const rdma::AsyncEvent& event, TimePoint now) {
  switch (event.kind) {
    case rdma::AsyncEvent::Kind::kReceiveLimit:
      stats_.receive_limit_events.add();
      own_.receives.limit_reached();
      break;
    case rdma::AsyncEvent::Kind::kQueuePairFatal:
      if (const auto at = own_.queue_pairs.find(event.queue_pair); at != own_.queue_pairs.end()) {
        const LinkPlace place = at->second;
        place.group->handle_link_failure(place.link, "the peer's queue pair has gone", now);
      }
      break;
    case rdma::AsyncEvent::Kind::kQueuePairError:
      if (const auto at = own_.queue_pairs.find(event.queue_pair); at != own_.queue_pairs.end()) {
        refuse(at->second, "the queue pair has refused a packet", now);
      }
      break;
    case rdma::AsyncEvent::Kind::kDeviceFatal:
      groups_.for_each([&](Group& group) { group.handle_device_down(own_, now); });
      break;
    case rdma::AsyncEvent::Kind::kPortDown:
    case rdma::AsyncEvent::Kind::kPortUp:
    case rdma::AsyncEvent::Kind::kGidChange:
      LogEvent(event.kind == rdma::AsyncEvent::Kind::kPortDown ? LogLevel::kWarn : LogLevel::kInfo,
               "relay.device",
               event.kind == rdma::AsyncEvent::Kind::kPortDown ? "port_down"
               : event.kind == rdma::AsyncEvent::Kind::kPortUp ? "port_up"
                                                               : "gid_change")
          .field("device", device_->name())
          .field("port", std::uint64_t{event.port.value});
      groups_.for_each([&](Group& group) {
        group.handle_port(own_, event.port,
                          event.kind == rdma::AsyncEvent::Kind::kPortDown ? Group::PortChange::kDown
                                                                          : Group::PortChange::kUp,
                          now);
      });
      break;
  }
}

}  // namespace fairlead::relay
