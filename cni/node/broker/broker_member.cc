#include "cni/node/broker/broker_member.h"

#include <fcntl.h>

#include <cerrno>
#include <utility>

namespace fairlead::cni::node {

using broker::Message;

Result<std::unique_ptr<BrokerMember>> BrokerMember::create(FileDescriptor socket, std::string pod,
                                                           BrokerUnread& unread, unsigned index,
                                                           std::uint64_t instance) {
  std::unique_ptr<BrokerMember> member(
      new BrokerMember(std::move(socket), std::move(pod), unread, index, instance));
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
  if (bells && !unread_.may_send(pod_)) return Error{Errc::kWouldBlock, "unread channel records"};
  SMC_TRY(broker::send(socket_.get(), message, fds));
  if (bells) unread_.sent(pod_, socket_.get());
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
  waiting_descriptors_ += waiting.fds.size();
  outbox_.push_back(std::move(waiting));
  return {};
}

std::vector<FileDescriptor> BrokerMember::take_descriptors() {
  std::vector<FileDescriptor> taken;
  for (auto& [number, buffer] : buffers) taken.push_back(std::move(buffer.memory));
  for (Waiting& waiting : outbox_)
    for (FileDescriptor& fd : waiting.fds) taken.push_back(std::move(fd));
  return taken;
}

Result<void> BrokerMember::flush() {
  while (!outbox_.empty()) {
    std::vector<int> fds;
    for (const FileDescriptor& fd : outbox_.front().fds) fds.push_back(fd.get());
    const auto sent = send_now(outbox_.front().message, fds);
    if (!sent && sent.error().code == Errc::kWouldBlock) return {};
    if (!sent) return sent;
    waiting_descriptors_ -= outbox_.front().fds.size();
    outbox_.pop_front();
  }
  return {};
}

}  // namespace fairlead::cni::node
