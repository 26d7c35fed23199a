#include "rdma/shm/shm_channel.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/assert.h"
#include "rdma/shm/shm_buffer.h"
#include "rdma/shm/shm_limits.h"

namespace fairlead::rdma::shm {

Channel::Channel(PeerId peer, Side side, FileDescriptor socket, Mapping memory,
                 const BufferTable& buffers)
    : producer(
          reinterpret_cast<ChannelMemory*>(memory.bytes().data())->rings[static_cast<int>(side)]),
      consumer(reinterpret_cast<ChannelMemory*>(memory.bytes().data())
                   ->rings[1 - static_cast<int>(side)]),
      peer_(peer),
      side_(side),
      socket_(std::move(socket)),
      mapping_(std::move(memory)),
      buffers_(&buffers) {}

Channel::Channel(PeerId peer, Segment segment, const BufferTable& buffers)
    : Channel(peer, Side::kDialler, FileDescriptor(), std::move(segment.mapping), buffers) {
  memory_ = std::move(segment.fd);
}

Result<void> Channel::attach(FileDescriptor socket, PeerId self, FabricId fabric) {
  SMC_ASSERT(awaits_socket(), state_);
  socket_ = std::move(socket);
  const ControlMessage hello{.kind = ControlMessage::Kind::kHello, .peer = self, .fabric = fabric};
  SMC_TRY(send_control(socket_.get(), hello, memory_.get()));
  memory_.reset();
  flush_control();
  return {};
}

ChannelMemory& Channel::memory() const {
  return *reinterpret_cast<ChannelMemory*>(mapping_.bytes().data());
}

Result<void> Channel::send_now(const ControlMessage& message) {
  if (!socket_) return Error{Errc::kWouldBlock, "socket is still to come"};
  int fd = -1;
  if (message.kind == ControlMessage::Kind::kAnnounce) {
    fd = buffers_->descriptor_of(message.rkey);
    if (fd < 0) return {};  // destroyed while the announcement waited
  }
  SMC_TRY(send_control(socket_.get(), message, fd));
  rings_out().control_sent.store(++control_count_, std::memory_order_release);
  return {};
}

void Channel::send(const ControlMessage& message) {
  if (state_ != State::kOpen || peer_gone_) return;
  if (control_queue_.empty()) {
    auto sent = send_now(message);
    if (sent) return;
    if (sent.error().code != Errc::kWouldBlock) return lose_peer();
  }
  if (control_queue_.size() >= kControlQueueMax) return close();
  control_queue_.push_back(message);
}

void Channel::flush_control() {
  while (!control_queue_.empty()) {
    auto sent = send_now(control_queue_.front());
    if (!sent && sent.error().code == Errc::kWouldBlock) return;
    if (!sent) return lose_peer();
    control_queue_.pop_front();
  }
}

void Channel::lose_peer() {
  peer_gone_ = true;
  control_queue_.clear();
}

Result<ReceivedControl> Channel::receive() {
  if (state_ != State::kOpen) return Error{Errc::kWouldBlock, "channel is closed"};
  if (!socket_) return Error{Errc::kWouldBlock, "socket is still to come"};
  // Loaded first: what is counted here is in the socket by now, so that finding the socket empty
  // means that all of it was read.
  const std::uint64_t announced = rings_in().control_sent.load(std::memory_order_acquire);
  auto received = receive_control(socket_.get());
  if (!received && received.error().code == Errc::kWouldBlock) {
    control_seen_ = announced;
    // A peer may shut down only the direction in which we send: that is not what a device does.
    if (peer_gone_) return Error{Errc::kPeerGone, "channel closed by the peer"};
  }
  if (received) consumed_ = true;
  return received;
}

void Channel::close() {
  if (state_ != State::kOpen) return;
  state_ = State::kClosing;
  control_queue_.clear();
}

void Channel::terminate() {
  state_ = State::kDead;
  control_queue_.clear();
  socket_.reset();
  memory_.reset();
  own_doorbell_.reset();
  peer_doorbell_.reset();
}

void Channel::ring_if_due() {
  std::uint64_t due = 0;
  // The exchanges order our index before the look at `sleeping`, as fall_asleep() orders `sleeping`
  // before its look at the index: one of the two sides sees the other.
  if (std::exchange(posted_, false)) {
    producer.publish_ordered();
    due |= kWakeOnMessage;
  }
  if (std::exchange(consumed_, false)) {
    consumer.publish_ordered();
    due |= kWakeOnProgress;
  }
  if (due == 0 || state_ != State::kOpen) return;
  SharedWord& sleeping = peer_side().sleeping;
  if ((sleeping.load(std::memory_order_seq_cst) & due) == 0) return;
  if ((sleeping.exchange(0, std::memory_order_seq_cst) & due) != 0) ring();
}

void Channel::ring() {
  if (own_doorbell_) {
    const char one = 1;
    if (::write(own_doorbell_.get(), &one, 1) == 1) return;
    if (errno == EPIPE) return;  // the peer is going; its socket says so
  }
  replace_doorbell();
}

// The message that brings the new pipe is itself what wakes the peer.
void Channel::replace_doorbell() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0) {
    FileDescriptor read_end(ends[0]);
    own_doorbell_.reset(ends[1]);
    (void)::fcntl(ends[1], F_SETPIPE_SZ, kDoorbellPipeBytes);
    const ControlMessage message{.kind = ControlMessage::Kind::kDoorbell};
    if (control_queue_.empty() && send_control(socket_.get(), message, read_end.get())) return;
    own_doorbell_.reset();
  }
  // No descriptor to be had, here or in flight. When not even this can be sent, the socket is full,
  // and the peer wakes because it is readable.
  (void)send_control(socket_.get(), ControlMessage{.kind = ControlMessage::Kind::kWake}, -1);
}

void Channel::fall_asleep() {
  std::uint64_t wish = kWakeOnMessage;
  if (signaled_outstanding != 0 || blocked || !control_queue_.empty()) wish |= kWakeOnProgress;
  own_side().sleeping.exchange(wish, std::memory_order_seq_cst);
  // Room that the peer made before it could see our wish is found here.
  flush_control();
}

bool Channel::has_work(bool ordered) const {
  if (state_ != State::kOpen) return users != 0 || state_ == State::kClosing;
  if (completions_due || failures_due || control_waiting()) return true;
  if (stalled_on == nullptr) {
    if (!consumer.empty()) return true;
    if ((ordered ? consumer.peek_tail_ordered() : consumer.peek_tail()) != consumer.tail())
      return true;
  }
  if (signaled_outstanding == 0 && !blocked) return false;
  return (ordered ? producer.peek_head_ordered() : producer.peek_head()) != reaped_head;
}

}  // namespace fairlead::rdma::shm
