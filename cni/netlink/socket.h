// A netlink socket. It belongs to the network namespace in which it was opened, wherever its thread
// goes later. One thread.
#pragma once

#include <cstdint>
#include <vector>

#include "base/handle.h"
#include "base/result.h"
#include "cni/netlink/message.h"

namespace fairlead::cni::netlink {

// No table that is read comes near it.
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

  // Sends all messages in one piece, and reads what the kernel answers, which it has done when
  // send(2) returns. Gives the first refusal; error_number 0 when each message with NLM_F_ACK, of
  // which there are `acknowledged`, was accepted. Errors: those of the socket, kTruncated when
  // acknowledgements are missing.
  Result<Refusal> transact(const Writer& request, unsigned acknowledged);

  // Sends one request for a dump, or for one object, and gives all bytes of the answer: messages
  // one after the other, without NLMSG_DONE. Errors: those of the socket; what the kernel says;
  // kExhausted as soon as more than `bytes_max` have come.
  Result<std::vector<std::byte>> query(const Writer& request,
                                       std::size_t bytes_max = kAnswerBytesMax);

 private:
  explicit Socket(FileDescriptor fd) : fd_(std::move(fd)) {}
  Result<void> send(const Writer& request);
  FileDescriptor fd_;
};

}  // namespace fairlead::cni::netlink
