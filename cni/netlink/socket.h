// A netlink socket. It stays in the network namespace in which it was opened, also if its thread
// enters another one later. One thread.
#pragma once

#include <cstdint>
#include <vector>

#include "base/linux/handle.h"
#include "base/result.h"
#include "cni/netlink/message.h"

namespace fairlead::cni::netlink {

// Far more than any table that is read.
inline constexpr std::size_t kAnswerBytesMax = 8 << 20;

// The errors of one request, by the sequence number of the message that was refused.
struct Refusal {
  std::uint32_t sequence = 0;
  int error_number = 0;  // errno
};

class Socket {
 public:
  // `protocol`: NETLINK_ROUTE and the like. Errors: kUnsupported when the kernel has no such
  // family, kSystem.
  static Result<Socket> open(int protocol);

  // Sends all messages at once, and reads the answer, which is complete when send(2) returns.
  // Returns the first refusal, or error_number 0 if every message with NLM_F_ACK was accepted;
  // there are `acknowledged` of them. Errors: those of the socket, kTruncated if acknowledgements
  // are missing.
  Result<Refusal> transact(const Writer& request, unsigned acknowledged);

  // Sends one request for a dump, or for one object, and returns all bytes of the answer: the
  // messages without NLMSG_DONE. Errors: those of the socket and of the kernel; kExhausted as soon
  // as more than `bytes_max` have arrived.
  Result<std::vector<std::byte>> query(const Writer& request,
                                       std::size_t bytes_max = kAnswerBytesMax);

 private:
  explicit Socket(FileDescriptor fd) : fd_(std::move(fd)) {}
  Result<void> send(const Writer& request);
  FileDescriptor fd_;
};

}  // namespace fairlead::cni::netlink
