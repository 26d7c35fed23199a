#include "cni/node/broker/broker_member.h"

#include <fcntl.h>

#include <cerrno>
#include <utility>

namespace fairlead::cni::node {

using broker::BufferId;
using broker::Message;

Result<std::unique_ptr<BrokerMember>> BrokerMember::create(FileDescriptor socket, BrokerPod& pod,
                                                           unsigned index, std::uint64_t instance) {
  std::unique_ptr<BrokerMember> member(new BrokerMember(std::move(socket), pod, index, instance));
  const FileDescriptor memory =
      SMC_TRY(broker::make_memory("fairlead-requests", broker::kRequestRingBytes));
  member->ring_ = SMC_TRY(broker::map_request_ring(memory.get()));
  member->requests_ = std::make_unique<broker::RequestReader>(*member->ring_);
  const int fd = memory.get();
  SMC_TRY(broker::send(member->socket_.get(),
                       {.kind = Message::Kind::kRequestRing, .buffer = {instance, 0}},
                       std::span(&fd, 1)));
  return member;
}

Result<void> BrokerMember::send_now(const Message& message, std::span<const int> fds) {
  const bool bells = message.kind == Message::Kind::kChannel;
  if (bells && !pod_.unread().may_send()) return Error{Errc::kWouldBlock, "unread channel records"};
  SMC_TRY(broker::send(socket_.get(), message, fds));
  if (bells) pod_.unread().sent(socket_.get());
  return {};
}

Result<void> BrokerMember::send(const Message& message, std::span<const int> fds) {
  if (outbox_.empty()) {
    const auto sent = send_now(message, fds);
    if (sent || sent.error().code != Errc::kWouldBlock) return sent;
  }
  if (outbox_.size() >= kOutboxMax)
    return Error{Errc::kExhausted, "records that a device does not read"};
  Waiting waiting{message, {}};
  for (const int fd : fds) {
    FileDescriptor copy(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (!copy) return Error{Errc::kExhausted, "descriptors", errno};
    waiting.fds.push_back(std::move(copy));
  }
  pod_.share().add_waiting(waiting.fds.size());
  outbox_.push_back(std::move(waiting));
  return {};
}

Result<void> BrokerMember::flush() {
  while (!outbox_.empty()) {
    std::vector<int> fds;
    for (const FileDescriptor& fd : outbox_.front().fds) fds.push_back(fd.get());
    const auto sent = send_now(outbox_.front().message, fds);
    if (!sent && sent.error().code == Errc::kWouldBlock) return {};
    if (!sent) return sent;
    pod_.share().remove_waiting(outbox_.front().fds.size());
    outbox_.pop_front();
  }
  return {};
}

bool BrokerMember::wants_room() const {
  return has_waiting() || (pod_.records_wait() && pod_.unread().has_unread(socket_.get()));
}

bool BrokerMember::may_have_buffer() const {
  return buffers_.size() < kBuffersPerDeviceMax && pod_.share().may_have_buffer();
}

BufferId BrokerMember::add_blank(std::uint64_t number, FileDescriptor memory) {
  buffers_[number].memory = std::move(memory);
  ++blanks_;
  pod_.share().buffer_made();
  return {instance_, number};
}

std::optional<int> BrokerMember::memory_of(const BufferId& buffer) const {
  const auto found = buffers_.find(buffer.number);
  if (buffer.instance != instance_ || found == buffers_.end()) return std::nullopt;
  return found->second.memory.get();
}

bool BrokerMember::take(const BufferId& buffer) {
  if (!memory_of(buffer) || !std::exchange(buffers_.at(buffer.number).blank, false)) return false;
  --blanks_;
  return true;
}

FileDescriptor BrokerMember::remove(const BufferId& buffer) {
  if (!memory_of(buffer)) return {};
  const auto found = buffers_.find(buffer.number);
  if (found->second.blank) --blanks_;
  FileDescriptor memory = std::move(found->second.memory);
  buffers_.erase(found);
  pod_.share().buffers_gone(1);
  return memory;
}

std::vector<FileDescriptor> BrokerMember::take_descriptors() {
  std::vector<FileDescriptor> taken;
  for (auto& [number, buffer] : buffers_) taken.push_back(std::move(buffer.memory));
  pod_.share().buffers_gone(std::exchange(buffers_, {}).size());
  for (Waiting& waiting : outbox_) {
    pod_.share().remove_waiting(waiting.fds.size());
    for (FileDescriptor& fd : waiting.fds) taken.push_back(std::move(fd));
  }
  outbox_.clear();
  return taken;
}

}  // namespace fairlead::cni::node
