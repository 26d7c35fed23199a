#include "relay/device_slot.h"

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
                                                       PeerTable& groups, WorkerStats& stats) {
  std::unique_ptr<DeviceSlot> slot(
      new DeviceSlot(std::move(device), std::move(reachability), groups, stats));
  rdma::Device& own = *slot->device_;
  slot->domain_ = SMC_TRY(own.create_protection_domain());
  slot->receive_queue_ = SMC_TRY(own.create_shared_receive_queue(*slot->domain_, kReceiveEntries));
  slot->receive_memory_ = SMC_TRY(
      own.allocate_buffer(*slot->domain_, std::size_t{kReceiveEntries} * rdma::kMessageBytesMax));
  slot->own_ = {
      &own, slot->reachability_.get(), slot->domain_.get(), slot->receive_queue_.get(), {}};
  for (std::uint32_t i = 0; i < kReceiveEntries; ++i)
    slot->reposts_.push_back({rdma::WorkId{i}, slot->receive_memory_.get(),
                              std::size_t{i} * rdma::kMessageBytesMax, rdma::kMessageBytesMax});
  SMC_TRY(slot->post_receives());
  SMC_TRY(slot->receive_queue_->arm_limit(kReceiveLimit));
  return slot;
}

Result<void> DeviceSlot::post_receives() {
  if (reposts_.empty()) return {};
  SMC_TRY(receive_queue_->post(reposts_));
  reposts_.clear();
  if (limit_hit_) {
    limit_hit_ = false;
    SMC_TRY(receive_queue_->arm_limit(kReceiveLimit));
  }
  return {};
}

bool DeviceSlot::active() const {
  return std::any_of(device_->ports().begin(), device_->ports().end(), usable);
}

bool DeviceSlot::poll(TimePoint now) {
  std::array<rdma::Completion, kCompletionsPerPoll> completions;
  bool more = false;
  for (unsigned round = 0; round < kPollsPerTurn; ++round) {
    const std::size_t count = device_->poll(completions);
    for (std::size_t i = 0; i < count; ++i) take(completions[i], now);
    if (const Result<void> posted = post_receives(); !posted)
      LogEvent(LogLevel::kError, "relay.device", "receives_lost")
          .field("device", device_->name())
          .field("what", to_string(posted.error()));
    more = count == completions.size();
    if (!more) break;
  }
  while (const std::optional<rdma::AsyncEvent> event = device_->poll_async_event())
    take(*event, now);
  return more;
}

void DeviceSlot::take(const rdma::Completion& completion, TimePoint now) {
  const auto found = own_.queue_pairs.find(completion.queue_pair);
  const LinkPlace* at = found == own_.queue_pairs.end() ? nullptr : &found->second;
  if (completion.kind == rdma::Completion::Kind::kReceive) {
    const std::size_t index = static_cast<std::size_t>(completion.id);
    const std::size_t offset = index * rdma::kMessageBytesMax;
    if (at && completion.status == rdma::CompletionStatus::kSuccess)
      at->group->handle_message(
          at->link, receive_memory_->bytes().subspan(offset, completion.length_bytes), now);
    reposts_.push_back({completion.id, receive_memory_.get(), offset, rdma::kMessageBytesMax});
  }
  if (!at) return;
  if (completion.status != rdma::CompletionStatus::kSuccess)
    at->group->handle_link_failure(at->link, describe(completion.status), now);
  else if (completion.kind == rdma::Completion::Kind::kSend)
    at->group->handle_send_done(at->link, completion.id);
}

void DeviceSlot::take(const rdma::AsyncEvent& event, TimePoint now) {
  switch (event.kind) {
    case rdma::AsyncEvent::Kind::kReceiveLimit:
      stats_.receive_limit_events.add();
      limit_hit_ = true;
      break;
    case rdma::AsyncEvent::Kind::kQueuePairFatal:
      if (const auto at = own_.queue_pairs.find(event.queue_pair); at != own_.queue_pairs.end()) {
        const LinkPlace place = at->second;
        place.group->handle_link_failure(place.link, "the peer's queue pair has gone", now);
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
      if (event.kind == rdma::AsyncEvent::Kind::kPortDown)
        groups_.for_each([&](Group& group) { group.handle_port_down(own_, event.port, now); });
      else
        groups_.for_each([&](Group& group) { group.handle_port_up(own_, event.port, now); });
      break;
  }
}

}  // namespace fairlead::relay
