#include "rdma/shm/queue/shm_queue_pair.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/assert.h"
#include "rdma/shm/queue/shm_receive_queue.h"
#include "rdma/shm/shm_device.h"
#include "rdma/shm/shm_gid.h"

namespace fairlead::rdma::shm {
namespace {

ShmDomain& domain_of(const QueuePairOptions& options) {
  return static_cast<ShmDomain&>(*options.domain);
}

}  // namespace

ShmQueuePair::ShmQueuePair(ShmDevice& device, const QueuePairOptions& options, PacketSeq first_psn)
    : device_(&device), options_(options), first_psn_(first_psn), sent_(options.send_requests) {}

ShmQueuePair::~ShmQueuePair() {
  break_down(CompletionStatus::kFlushed, false);
  if (number_.value != 0) device_->remove(*this);
  detach_incoming();
  if (out_ != nullptr) device_->release(*out_, number_);
}

ShmReceiveQueue& ShmQueuePair::receive_queue() const {
  return static_cast<ShmReceiveQueue&>(*options_.receive_queue);
}

Result<void> ShmQueuePair::connect(const PeerEndpoint& peer) {
  if (state_ != State::kUnconnected) return Error{Errc::kWrongState, "queue pair is connected"};
  const auto gid = parse_gid(peer.gid);
  if (!gid || gid->fabric != device_->parts().channels.connector().id())
    return Error{Errc::kPeerGone, "GID of another fabric"};
  if (device_->parts().ports.state(options_.port) != PortState::kActive)
    return Error{Errc::kPeerGone, "own port is down"};
  out_ = SMC_TRY(device_->channel_to(gid->peer));
  out_->add_user();
  state_ = State::kReady;
  peer_ = gid->peer;
  peer_number_ = peer.queue_pair;
  out_->add_sender(*this);
  device_->parts().send(*out_, ControlMessage{.kind = ControlMessage::Kind::kQueuePairReady,
                                              .source = number_,
                                              .destination = peer_number_,
                                              .source_port = options_.port,
                                              .destination_port = gid->port,
                                              .domain = domain_of(options_).id()});
  domain_of(options_).join(*out_);
  if (in_ != nullptr && (in_->peer() != peer_ || announced_ != peer_number_)) detach_incoming();
  device_->parts().resume(*this);
  if (out_->state() == Channel::State::kOpen) return {};
  break_down(CompletionStatus::kFlushed, false);
  return Error{Errc::kPeerGone, "channel closed by the peer"};
}

bool ShmQueuePair::may_face(PeerId peer, QpNumber source) const {
  if (state_ == State::kUnconnected) return options_.peer.is_zero() || options_.peer == peer;
  return state_ == State::kReady && peer_ == peer && peer_number_ == source;
}

void ShmQueuePair::attach_incoming(Channel& channel, QpNumber source, DomainId remote_domain) {
  if (in_ != nullptr) return;
  in_ = &channel;
  in_->add_user();
  announced_ = source;
  remote_domain_ = remote_domain;
}

void ShmQueuePair::detach_incoming() {
  if (in_ == nullptr) return;
  in_->remote().depart(announced_);
  device_->release(*std::exchange(in_, nullptr), number_);
}

bool ShmQueuePair::has_room(std::size_t requests, std::uint64_t slots) {
  if (!out_->control_flushed()) return false;
  const auto fits = [&] {
    return requests <= sent_.room() && slots <= out_->producer().free_slots();
  };
  if (fits()) return true;
  if (!out_->producer().refresh()) {
    device_->parts().kill(*out_, Error{Errc::kMalformed, "head of the ring"});
    return false;
  }
  while (!sent_.empty() && !sent_.front().signaled &&
         sent_.front().position <= out_->producer().head())
    (void)sent_.pop();
  return fits();
}

// The caller will wait for room, so arm() has to ask for being woken when there is some.
void ShmQueuePair::note_blocked() const {
  out_->note_blocked();
  device_->parts().scheduler.note_posted(*out_);
}

std::uint32_t ShmQueuePair::send_room() const {
  if (state_ != State::kReady) return 0;
  const bool writes = !device_->parts().addressable;
  // What post() would learn: a write to memory that is on its way finds no room.
  if (writes) check_control();
  if (state_ != State::kReady) return 0;
  const bool unknown = writes && awaits_grant();
  if (!out_->control_flushed() || unknown) {
    note_blocked();
    return 0;
  }
  // A message of full size always fits beside the short ones.
  constexpr std::uint64_t kSetAside = kSlotsPerMessageMax - 1;
  std::uint64_t slots = out_->producer().free_slots();
  if (slots < kSetAside + sent_.room() && out_->producer().refresh())
    slots = out_->producer().free_slots();
  const std::uint64_t messages = slots > kSetAside ? slots - kSetAside : 0;
  const std::uint64_t room = std::min<std::uint64_t>(messages, sent_.room());
  if (room == 0) note_blocked();
  return static_cast<std::uint32_t>(room);
}

Result<void> ShmQueuePair::post(std::span<const WorkRequest> requests) {
  if (state_ != State::kReady) return Error{Errc::kWrongState, "queue pair is not connected"};
  std::uint64_t slots = 0;
  bool writes = false;
  for (const WorkRequest& request : requests) {
    if (request.kind == WorkRequest::Kind::kWrite) {
      writes = true;
      continue;
    }
    if (request.message.empty() || request.message.size() > kMessageBytesMax)
      return Error{Errc::kMalformed, "length of a message to send"};
    slots += slots_for(request.message.size());
  }
  // What the peer withdrew, or that it left, is learnt before the first request takes effect.
  if (writes) check_control();
  // A key that is not found may be one whose memory is on its way.
  const bool known = !writes || !awaits_grant() ||
                     std::all_of(requests.begin(), requests.end(), [this](const auto& request) {
                       return request.kind != WorkRequest::Kind::kWrite || target_of(request);
                     });
  const bool room = known && state_ == State::kReady && has_room(requests.size(), slots);
  if (state_ != State::kReady) return Error{Errc::kWrongState, "queue pair is in error"};
  if (!room) {
    note_blocked();
    return Error{Errc::kExhausted, "send queue"};
  }
  CompletionStatus failure = CompletionStatus::kSuccess;
  for (const WorkRequest& request : requests) {
    if (failure == CompletionStatus::kSuccess && request.kind == WorkRequest::Kind::kWrite)
      failure = write(request);
    else if (failure == CompletionStatus::kSuccess)
      out_->producer().push(
          {peer_number_, number_, static_cast<std::uint32_t>(request.message.size())},
          request.message);
    else
      failure = CompletionStatus::kFlushed;
    sent_.push({request.id, out_->producer().tail(), request.signaled, failure});
    if (!request.signaled) continue;
    ++signaled_;
    out_->note_signaled();
    if (out_->producer().tail() == out_->producer().head()) out_->set_completions_due(true);
  }
  if (slots != 0) {
    out_->producer().publish();
    out_->note_posted();
  }
  device_->parts().scheduler.note_posted(*out_);
  if (failure != CompletionStatus::kSuccess) break_down(CompletionStatus::kFlushed, true);
  return {};
}

// Null if it is not known.
std::byte* ShmQueuePair::target_of(const WorkRequest& request) const {
  if (in_ == nullptr) return nullptr;
  return in_->remote().find(remote_domain_, request.to.rkey, request.to.address,
                            request.from.length_bytes);
}

CompletionStatus ShmQueuePair::write(const WorkRequest& request) {
  const LocalSlice& from = request.from;
  const auto* source = static_cast<const ShmBuffer*>(from.buffer);
  SMC_ASSERT(source != nullptr);
  const std::span<std::byte> bytes = source->bytes();
  if (&source->domain() != options_.domain || from.offset > bytes.size() ||
      from.length_bytes > bytes.size() - from.offset)
    return CompletionStatus::kLocalError;
  std::byte* const to = target_of(request);
  if (to == nullptr) return CompletionStatus::kRemoteAccessError;
  std::memcpy(to, bytes.data() + from.offset, from.length_bytes);
  return CompletionStatus::kSuccess;
}

void ShmQueuePair::check_control() const {
  if (in_ == nullptr || in_->control_waiting()) device_->drain(peer_);
}

Result<std::span<std::byte>> ShmQueuePair::remote_memory(const RemoteSlice& slice,
                                                         std::size_t length_bytes) {
  if (!device_->parts().addressable) return Error{Errc::kUnsupported, "remote memory"};
  if (state_ == State::kReady) check_control();
  if (state_ != State::kReady) return Error{Errc::kWrongState, "queue pair is not connected"};
  std::byte* at = in_ == nullptr ? nullptr
                                 : in_->remote().find_view(remote_domain_, slice.rkey,
                                                           slice.address, length_bytes, number_);
  // A peer announces its queue pair first and its buffers next, on the same control ring.
  if (at == nullptr && (in_ == nullptr || awaits_grant()))
    return Error{Errc::kWouldBlock, "memory of the peer"};
  if (at == nullptr) return Error{Errc::kNotFound, "remote key or range"};
  return std::span<std::byte>(at, length_bytes);
}

void ShmQueuePair::release_remote_memory(RemoteKey key) {
  if (in_ != nullptr) in_->remote().forget_views(number_, key);
}

void ShmQueuePair::break_down(CompletionStatus first, bool report) {
  if (state_ == State::kError) return;
  const bool connected = state_ == State::kReady;
  state_ = State::kError;
  first_failure_ = first;
  if (connected) {
    (void)out_->producer().refresh();  // a lie keeps what was true before
    if (!peer_left()) settled_ = out_->producer().head();
    out_->remove_sender(*this, signaled_);
    domain_of(options_).leave(*out_);
    device_->parts().send(*out_, ControlMessage{.kind = ControlMessage::Kind::kQueuePairGone,
                                                .source = number_,
                                                .destination = peer_number_});
  }
  device_->queue_pair_broken(*this, report, !sent_.empty());
}

std::size_t ShmQueuePair::reap(std::span<Completion> into, bool& more) {
  const bool broken = state_ == State::kError;
  const std::uint64_t done_to = broken || peer_left() ? settled_ : out_->producer().head();
  std::size_t count = 0;
  while (!sent_.empty()) {
    const Sent& oldest = sent_.front();
    CompletionStatus status = oldest.status;
    const bool done = status == CompletionStatus::kSuccess && oldest.position <= done_to;
    if (!done && !broken) break;
    if (!done || oldest.signaled) {
      if (count == into.size()) {
        more = true;
        break;
      }
      if (!done && status == CompletionStatus::kSuccess)
        status = std::exchange(first_failure_, CompletionStatus::kFlushed);
      into[count++] = {.kind = Completion::Kind::kSend,
                       .status = status,
                       .id = oldest.id,
                       .queue_pair = number_};
    }
    if (oldest.signaled) {
      --signaled_;
      if (!broken) out_->note_completed();
    }
    (void)sent_.pop();
  }
  return count;
}

}  // namespace fairlead::rdma::shm
