#include "rdma/verbs/verbs_queue_pair.h"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/assert.h"
#include "rdma/verbs/qp_attributes.h"
#include "rdma/verbs/verbs_receive_queue.h"
#include "rdma/verbs/verbs_status.h"

namespace fairlead::rdma::verbs {
namespace {

constexpr std::uint32_t kPsnMask = 0xffffff;
constexpr std::size_t kShortSlotBytes = 64;
static_assert(kShortSlotBytes >= kShortMessageBytes);

bool is_long_message(const WorkRequest& request) {
  return request.kind == WorkRequest::Kind::kSend && request.message.size() > kShortMessageBytes;
}

}  // namespace

VerbsQueuePair::VerbsQueuePair(CompletionQueue& completions, const VerbsPort& port,
                               const QueuePairOptions& options)
    : completions_(completions),
      port_(port),
      gid_(options.gid.is_zero() ? port.port.gid : options.gid),
      prefer_roce_v1_(options.prefer_roce_v1),
      sent_(options.send_requests),
      requests_(options.send_requests),
      pieces_(options.send_requests) {}

Result<std::unique_ptr<VerbsQueuePair>> VerbsQueuePair::create(CompletionQueue& completions,
                                                               MemlockAccount& memlock,
                                                               const VerbsPort& port,
                                                               const QueuePairOptions& options) {
  std::unique_ptr<VerbsQueuePair> made(new VerbsQueuePair(completions, port, options));
  SMC_TRY(made->open(memlock, options));
  return made;
}

Result<void> VerbsQueuePair::open(MemlockAccount& memlock, const QueuePairOptions& options) {
  std::uint32_t random = 0;
  if (::getrandom(&random, sizeof random, 0) != sizeof random)
    return system_error("getrandom", errno);
  first_psn_ = PacketSeq{random & kPsnMask};
  SMC_TRY(completions_.reserve(options.send_requests));
  reserved_ = options.send_requests;
  Result<ibv_qp*> made = create_with_inline(options, kShortSlotBytes);
  if (!made) made = create_with_inline(options, 0);
  queue_pair_.reset(SMC_TRY(std::move(made)));
  serial_ = completions_.add(*this);
  const std::size_t short_slots = inline_bytes_ >= kShortMessageBytes ? 0 : options.send_requests;
  messages_ = SMC_TRY(VerbsBuffer::create(
      static_cast<VerbsDomain&>(*options.domain), memlock,
      kLongMessagesMax * kMessageBytesMax + short_slots * kShortSlotBytes, BufferUse::kMessages));
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.pkey_index = port_.partition_index;
  attributes.port_num = options.port.value;
  attributes.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  constexpr int kMask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  if (const int error = ibv_modify_qp(queue_pair_.get(), &attributes, kMask); error != 0)
    return system_error("ibv_modify_qp to INIT", error);
  auto& receives = static_cast<VerbsReceiveQueue&>(*options.receive_queue);
  if (receives.shared()) return {};
  own_receives_ = &receives;
  return receives.attach(*queue_pair_);
}

Result<ibv_qp*> VerbsQueuePair::create_with_inline(const QueuePairOptions& options,
                                                   std::uint32_t inline_bytes) {
  ibv_qp_init_attr wanted{};
  wanted.qp_context = this;
  wanted.send_cq = completions_.get();
  wanted.recv_cq = completions_.get();
  const auto& receives = static_cast<VerbsReceiveQueue&>(*options.receive_queue);
  wanted.srq = receives.get();
  if (!receives.shared()) {
    wanted.cap.max_recv_wr = receives.requests_max();
    wanted.cap.max_recv_sge = 1;
  }
  wanted.cap.max_send_wr = options.send_requests;
  wanted.cap.max_send_sge = 1;
  wanted.cap.max_inline_data = inline_bytes;
  wanted.qp_type = IBV_QPT_RC;
  wanted.sq_sig_all = 0;
  ibv_qp* made = ibv_create_qp(static_cast<VerbsDomain&>(*options.domain).get(), &wanted);
  if (made == nullptr) return system_error("ibv_create_qp", errno);
  inline_bytes_ = wanted.cap.max_inline_data;
  return made;
}

VerbsQueuePair::~VerbsQueuePair() {
  if (serial_ != 0) {
    fail();
    completions_.remove(*this, serial_);
  }
  if (own_receives_ != nullptr) own_receives_->detach();
  queue_pair_.reset();
  completions_.give_back(reserved_);
}

Result<void> VerbsQueuePair::connect(const PeerEndpoint& peer) {
  if (state_ != State::kUnconnected) return Error{Errc::kWrongState, "connect"};
  if (port_.port.state != PortState::kActive) return Error{Errc::kWrongState, "the port is down"};
  Result<void> done = ready_to_receive(peer);
  if (done) done = ready_to_send();
  if (!done) fail();
  if (done) state_ = State::kReady;
  return done;
}

Result<void> VerbsQueuePair::ready_to_receive(const PeerEndpoint& peer) {
  const std::optional<GidEntry> source = find_gid(port_.gids, gid_, prefer_roce_v1_);
  if (!source) return Error{Errc::kNotFound, "our GID has left the port"};
  QpStep step = SMC_TRY(ready_to_receive_step(port_, *source, peer));
  if (const int error = ibv_modify_qp(queue_pair_.get(), &step.attributes, step.mask); error != 0)
    return connect_error("ibv_modify_qp to RTR", error);
  return {};
}

Result<void> VerbsQueuePair::ready_to_send() {
  QpStep step = ready_to_send_step(port_.path, first_psn_);
  if (const int error = ibv_modify_qp(queue_pair_.get(), &step.attributes, step.mask); error != 0)
    return connect_error("ibv_modify_qp to RTS", error);
  return {};
}

Result<void> VerbsQueuePair::check(std::span<const WorkRequest> requests) const {
  if (state_ != State::kReady) return Error{Errc::kWrongState, "post"};
  if (requests.size() > sent_.room()) return Error{Errc::kExhausted, "room of the send queue"};
  std::uint32_t long_messages = long_messages_;
  for (const WorkRequest& request : requests) {
    if (request.kind != WorkRequest::Kind::kSend) continue;
    if (request.message.empty() || request.message.size() > kMessageBytesMax)
      return Error{Errc::kMalformed, "message size"};
    if (request.message.size() > kShortMessageBytes && ++long_messages > kLongMessagesMax)
      return Error{Errc::kExhausted, "long messages on their way"};
  }
  return {};
}

std::byte* VerbsQueuePair::message_slot(std::size_t index, bool is_long,
                                        std::uint32_t long_messages) {
  std::byte* memory = messages_->bytes().data();
  if (is_long)
    return memory + std::size_t{(next_long_ + long_messages) % kLongMessagesMax} * kMessageBytesMax;
  // Requests leave sent_ in the order posted, so the slot of one that left so long ago is free.
  const std::size_t slot = (next_request_ + index) % sent_.capacity();
  return memory + kLongMessagesMax * kMessageBytesMax + slot * kShortSlotBytes;
}

void VerbsQueuePair::fill(std::size_t index, const WorkRequest& request,
                          std::uint32_t& long_messages) {
  ibv_send_wr& to = requests_[index];
  ibv_sge& piece = pieces_[index];
  to = {};
  to.wr_id = CompletionQueue::send_id(serial_, next_request_ + static_cast<std::uint32_t>(index));
  to.sg_list = &piece;
  to.num_sge = 1;
  const bool is_long = is_long_message(request);
  // Only a completion gives room back. If the poster has signaled nothing for long, or the request
  // is of the scarce long kind, one is requested here that the poster does not hear of.
  const bool signaled = request.signaled || is_long || 4 * ++unsignaled_ >= sent_.capacity();
  if (signaled) unsignaled_ = 0;
  to.send_flags = signaled ? unsigned{IBV_SEND_SIGNALED} : 0U;
  if (request.kind == WorkRequest::Kind::kWrite) {
    to.opcode = IBV_WR_RDMA_WRITE;
    to.wr.rdma.remote_addr = request.to.address.value;
    to.wr.rdma.rkey = request.to.rkey.value;
    const LocalSlice& from = request.from;
    piece = {reinterpret_cast<std::uintptr_t>(from.buffer->bytes().data()) + from.offset,
             from.length_bytes, from.buffer->lkey().value};
    return;
  }
  to.opcode = IBV_WR_SEND;
  to.send_flags |= unsigned{IBV_SEND_SOLICITED};
  const std::size_t size = request.message.size();
  piece.length = static_cast<std::uint32_t>(size);
  if (!is_long && size <= inline_bytes_) {
    to.send_flags |= unsigned{IBV_SEND_INLINE};
    piece.addr = reinterpret_cast<std::uintptr_t>(request.message.data());
    return;
  }
  std::byte* slot = message_slot(index, is_long, long_messages);
  if (is_long) ++long_messages;
  std::memcpy(slot, request.message.data(), size);
  piece.addr = reinterpret_cast<std::uintptr_t>(slot);
  piece.lkey = messages_->lkey().value;
}

Result<void> VerbsQueuePair::post(std::span<const WorkRequest> requests) {
  SMC_TRY(check(requests));
  if (requests.empty()) return {};
  std::uint32_t long_messages = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    fill(i, requests[i], long_messages);
    requests_[i].next = i + 1 < requests.size() ? &requests_[i + 1] : nullptr;
  }
  ibv_send_wr* refused = nullptr;
  const int error = ibv_post_send(queue_pair_.get(), requests_.data(), &refused);
  const std::size_t taken =
      error == 0 ? requests.size() : static_cast<std::size_t>(refused - requests_.data());
  for (std::size_t i = 0; i < taken; ++i) {
    const bool is_long = is_long_message(requests[i]);
    sent_.push({requests[i].id, is_long, requests[i].signaled});
    if (!is_long) continue;
    ++long_messages_;
    next_long_ = (next_long_ + 1) % kLongMessagesMax;
  }
  next_request_ += static_cast<std::uint32_t>(taken);
  if (error == 0) return {};
  // Part of the chain was posted. The queue pair fails, so that the peer does not take it for all.
  if (taken != 0) fail();
  return system_error("ibv_post_send", error);
}

std::uint32_t VerbsQueuePair::send_room() const {
  if (state_ != State::kReady || long_messages_ == kLongMessagesMax) return 0;
  return static_cast<std::uint32_t>(sent_.room());
}

Result<std::span<std::byte>> VerbsQueuePair::remote_memory(const RemoteSlice&, std::size_t) {
  return Error{Errc::kUnsupported, "remote memory of an RNIC"};
}

void VerbsQueuePair::fail() {
  if (state_ == State::kError) return;
  state_ = State::kError;
  fatal_reported_ = true;  // who fails it knows
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  // If the device refuses even this, nothing more can be done.
  (void)ibv_modify_qp(queue_pair_.get(), &attributes, IBV_QP_STATE);
}

bool VerbsQueuePair::note_fatal() {
  state_ = State::kError;
  return !std::exchange(fatal_reported_, true);
}

std::optional<WorkId> VerbsQueuePair::take_done(std::uint32_t request, CompletionStatus status) {
  const std::uint32_t first = next_request_ - static_cast<std::uint32_t>(sent_.count());
  const std::uint32_t ahead = request - first;
  if (ahead >= sent_.count()) return std::nullopt;
  if (status != CompletionStatus::kSuccess) state_ = State::kError;
  for (std::uint32_t i = 0;; ++i) {
    const Sent sent = sent_.pop();
    if (sent.long_message) --long_messages_;
    if (i < ahead) continue;
    if (status == CompletionStatus::kSuccess && !sent.reported) return std::nullopt;
    return sent.id;
  }
}

}  // namespace fairlead::rdma::verbs
