#include "cni/netlink/socket.h"

#include <linux/netlink.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <array>
#include <cerrno>
#include <optional>

namespace fairlead::cni::netlink {
namespace {

// The kernel makes messages of a dump as long as the reader's buffer, up to 32 KiB.
constexpr std::size_t kReadBytes = 32768;
constexpr timeval kAnswerTime = {5, 0};

// NLMSG_ERROR with 0 is an acknowledgement.
std::optional<int> error_of(const Message& message) {
  if (message.header.nlmsg_type != NLMSG_ERROR || message.body.size() < sizeof(int))
    return std::nullopt;
  int number = 0;
  std::memcpy(&number, message.body.data(), sizeof number);
  return -number;
}

}  // namespace

Result<Socket> Socket::open(int protocol) {
  FileDescriptor fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol));
  if (!fd && errno == EPROTONOSUPPORT)
    return Error{Errc::kUnsupported, "netlink family", EPROTONOSUPPORT};
  if (!fd) return system_error("netlink socket", errno);
  if (::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &kAnswerTime, sizeof kAnswerTime) != 0)
    return system_error("netlink SO_RCVTIMEO", errno);
  // Acknowledgements need not repeat the whole request.
  const int on = 1;
  (void)::setsockopt(fd.get(), SOL_NETLINK, NETLINK_CAP_ACK, &on, sizeof on);
  return Socket(std::move(fd));
}

Result<void> Socket::send(const Writer& request) {
  const sockaddr_nl kernel = {.nl_family = AF_NETLINK};
  const Bytes bytes = request.bytes();
  for (;;) {
    const ssize_t sent = ::sendto(fd_.get(), bytes.data(), bytes.size(), 0,
                                  reinterpret_cast<const sockaddr*>(&kernel), sizeof kernel);
    if (sent == static_cast<ssize_t>(bytes.size())) return {};
    if (sent >= 0) return Error{Errc::kTruncated, "netlink request"};
    if (errno != EINTR) return system_error("netlink request", errno);
  }
}

Result<Refusal> Socket::transact(const Writer& request, unsigned acknowledged) {
  SMC_TRY(send(request));
  Refusal first;
  std::array<std::byte, kReadBytes> buffer;
  unsigned accepted = 0;
  for (;;) {
    const ssize_t count = ::recv(fd_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) break;
    if (count < 0) return system_error("netlink answer", errno);
    Bytes rest(buffer.data(), static_cast<std::size_t>(count));
    Message message;
    while (next(rest, message)) {
      const std::optional<int> error = error_of(message);
      if (error && *error == 0) ++accepted;
      if (error && *error != 0 && first.error_number == 0)
        first = {message.header.nlmsg_seq, *error};
    }
  }
  if (first.error_number == 0 && accepted != acknowledged)
    return Error{Errc::kTruncated, "netlink acknowledgements"};
  return first;
}

Result<std::vector<std::byte>> Socket::query(const Writer& request, std::size_t bytes_max) {
  SMC_TRY(send(request));
  std::vector<std::byte> answer;
  std::array<std::byte, kReadBytes> buffer;
  for (;;) {
    const ssize_t count = ::recv(fd_.get(), buffer.data(), buffer.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_error("netlink answer", errno);
    Bytes rest(buffer.data(), static_cast<std::size_t>(count));
    const Bytes all = rest;
    Message message;
    bool done = false;
    while (next(rest, message)) {
      const std::optional<int> error = error_of(message);
      if (error && *error != 0) return system_error("netlink query", *error);
      // A dump ends with DONE; a single object is one message without MULTI.
      done = error || message.header.nlmsg_type == NLMSG_DONE ||
             (message.header.nlmsg_flags & NLM_F_MULTI) == 0;
    }
    answer.insert(answer.end(), all.begin(), all.end());
    if (answer.size() > bytes_max) return Error{Errc::kExhausted, "netlink answer"};
    if (done) return answer;
  }
}

}  // namespace fairlead::cni::netlink
