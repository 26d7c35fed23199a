#include "rdma/verbs/verbs_completions.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/assert.h"
#include "rdma/verbs/verbs_queue_pair.h"
#include "rdma/verbs/verbs_receive_queue.h"
#include "rdma/verbs/verbs_status.h"

namespace fairlead::rdma::verbs {
namespace {

constexpr std::uint32_t kEntriesAtFirst = 1024;
constexpr std::size_t kFetchBatch = 32;
constexpr std::uint32_t kSerialMask = 0x7fffffff;
constexpr std::uint32_t kReceiveQueuesMax = 0x7fff;
constexpr std::uint64_t kWorkIdMask = (std::uint64_t{1} << 48) - 1;

}  // namespace

Result<std::unique_ptr<CompletionQueue>> CompletionQueue::create(ibv_context& context,
                                                                 std::uint32_t entries_max) {
  ChannelHandle channel(ibv_create_comp_channel(&context));
  if (channel == nullptr) return system_error("ibv_create_comp_channel", errno);
  const int flags = ::fcntl(channel->fd, F_GETFL);
  if (flags < 0 || ::fcntl(channel->fd, F_SETFL, flags | O_NONBLOCK) != 0)
    return system_error("fcntl of the completion channel", errno);
  const std::uint32_t entries = std::min(kEntriesAtFirst, entries_max);
  CompletionQueueHandle queue(
      ibv_create_cq(&context, static_cast<int>(entries), nullptr, channel.get(), 0));
  if (queue == nullptr) return system_error("ibv_create_cq", errno);
  return std::unique_ptr<CompletionQueue>(
      new CompletionQueue(std::move(channel), std::move(queue), entries_max));
}

CompletionQueue::~CompletionQueue() { take_notices(); }

Result<void> CompletionQueue::reserve(std::uint32_t entries) {
  const std::uint32_t wanted = reserved_ + entries;
  if (wanted > entries_max_ || wanted < entries)
    return Error{Errc::kExhausted, "completion queue entries of the device"};
  if (const auto have = static_cast<std::uint32_t>(queue_->cqe); wanted > have) {
    const std::uint32_t size = std::min(entries_max_, std::max(wanted, 2 * have));
    if (const int error = ibv_resize_cq(queue_.get(), static_cast<int>(size)); error != 0)
      return Error{Errc::kExhausted, "ibv_resize_cq", error};
  }
  reserved_ = wanted;
  return {};
}

std::uint32_t CompletionQueue::add(VerbsQueuePair& queue_pair) {
  do queue_pair_serial_ = (queue_pair_serial_ + 1) & kSerialMask;
  while (queue_pair_serial_ == 0 || queue_pairs_.contains(queue_pair_serial_));
  queue_pairs_.emplace(queue_pair_serial_, &queue_pair);
  return queue_pair_serial_;
}

Result<std::uint32_t> CompletionQueue::add(VerbsReceiveQueue& receive_queue) {
  if (receive_queues_.size() >= kReceiveQueuesMax)
    return Error{Errc::kExhausted, "receive queues of a device"};
  do receive_queue_serial_ = (receive_queue_serial_ + 1) & kReceiveQueuesMax;
  while (receive_queue_serial_ == 0 || receive_queues_.contains(receive_queue_serial_));
  receive_queues_.emplace(receive_queue_serial_, &receive_queue);
  return receive_queue_serial_;
}

void CompletionQueue::remove(VerbsQueuePair& queue_pair, std::uint32_t serial) {
  while (fetch()) {
  }
  queue_pairs_.erase(serial);
  std::erase_if(waiting_, [&](const Completion& completion) {
    return completion.kind == Completion::Kind::kSend &&
           completion.queue_pair == queue_pair.number();
  });
}

std::uint64_t CompletionQueue::receive_id(std::uint32_t serial, WorkId id) {
  const auto value = static_cast<std::uint64_t>(id);
  SMC_ASSERT(value <= kWorkIdMask, value);
  return std::uint64_t{serial} << 48 | value;
}

bool CompletionQueue::translate(const ibv_wc& from, Completion& to) const {
  to = {};
  to.queue_pair = QpNumber{from.qp_num};
  if (from.wr_id >> 63 != 0) {
    const auto found =
        queue_pairs_.find(static_cast<std::uint32_t>(from.wr_id >> 32) & kSerialMask);
    if (found == queue_pairs_.end()) return false;
    to.status = status_of(from.status, Completion::Kind::kSend);
    const std::optional<WorkId> id =
        found->second->take_done(static_cast<std::uint32_t>(from.wr_id), to.status);
    if (!id) return false;
    to.id = *id;
    return true;
  }
  to.kind = Completion::Kind::kReceive;
  to.status = status_of(from.status, Completion::Kind::kReceive);
  to.id = WorkId{from.wr_id & kWorkIdMask};
  if (from.status == IBV_WC_SUCCESS) to.length_bytes = from.byte_len;
  const auto found = receive_queues_.find(static_cast<std::uint32_t>(from.wr_id >> 48));
  if (found == receive_queues_.end()) return false;
  VerbsReceiveQueue& queue = *found->second;
  const bool low = queue.note_taken();
  if (queue.shared()) return true;
  if (from.status == IBV_WC_SUCCESS) {
    if (low) events_.push_back({AsyncEvent::Kind::kReceiveLimit, {}, {}});
    return true;
  }
  // In error, a queue pair gives back the requests of its own queue, which end with it.
  if (VerbsQueuePair* queue_pair = queue.served();
      queue_pair != nullptr && queue_pair->note_fatal())
    events_.push_back(
        {AsyncEvent::Kind::kQueuePairError, queue_pair->port(), queue_pair->number()});
  return from.status != IBV_WC_WR_FLUSH_ERR;
}

bool CompletionQueue::fetch() const {
  std::array<ibv_wc, kFetchBatch> batch;
  const int count = ibv_poll_cq(queue_.get(), static_cast<int>(batch.size()), batch.data());
  for (int i = 0; i < count; ++i) {
    Completion completion;
    if (translate(batch[static_cast<std::size_t>(i)], completion)) waiting_.push_back(completion);
  }
  return count > 0;
}

std::size_t CompletionQueue::poll(std::span<Completion> completions) {
  std::size_t count = 0;
  while (count < completions.size()) {
    if (waiting_.empty() && !fetch()) break;
    for (; !waiting_.empty() && count < completions.size(); waiting_.pop_front())
      completions[count++] = waiting_.front();
  }
  return count;
}

std::optional<AsyncEvent> CompletionQueue::take_event() {
  if (events_.empty()) return std::nullopt;
  const AsyncEvent event = events_.front();
  events_.pop_front();
  return event;
}

bool CompletionQueue::pending() const noexcept {
  if (waiting_.empty()) (void)fetch();
  return !waiting_.empty() || !events_.empty();
}

bool CompletionQueue::arm() {
  if (pending()) return false;
  if (armed_) return true;
  // For all completions, not only solicited ones: a poster may wait for the room that a send frees.
  armed_ = ibv_req_notify_cq(queue_.get(), 0) == 0;
  // A completion that came before this request raises no event, so look once more.
  return armed_ && !pending();
}

void CompletionQueue::take_notices() {
  unsigned count = 0;
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  while (ibv_get_cq_event(channel_.get(), &queue, &context) == 0) ++count;
  if (count == 0) return;
  ibv_ack_cq_events(queue_.get(), count);
  armed_ = false;
}

}  // namespace fairlead::rdma::verbs
