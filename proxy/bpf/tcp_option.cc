#include "bpf/tcp_option.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <optional>

#include "base/address.h"
#include "base/linux/handle.h"
#include "bpf/self_connection.h"
#include "bpf/smc_option.h"

namespace fairlead::bpf {
namespace {

using Bytes = std::span<const std::byte>;

constexpr std::array<std::uint8_t, 4> kMagic = {
    FAIRLEAD_TCP_OPTION_MAGIC_0, FAIRLEAD_TCP_OPTION_MAGIC_1, FAIRLEAD_TCP_OPTION_MAGIC_2,
    FAIRLEAD_TCP_OPTION_MAGIC_3};
constexpr std::array<std::uint8_t, 4> kFramesMagic = {
    FAIRLEAD_FRAMES_MAGIC_0, FAIRLEAD_FRAMES_MAGIC_1, FAIRLEAD_FRAMES_MAGIC_2,
    FAIRLEAD_FRAMES_MAGIC_3_SYN};

constexpr std::size_t kIpv4HeaderBytes = 20;
constexpr std::size_t kIpv6HeaderBytes = 40;
constexpr std::size_t kTcpHeaderBytes = 20;
constexpr std::uint8_t kTcpFlagSyn = 0x02;
constexpr std::uint8_t kEndOfOptions = 0;
constexpr std::uint8_t kNoOperation = 1;

std::uint8_t at(Bytes bytes, std::size_t index) { return static_cast<std::uint8_t>(bytes[index]); }

std::optional<Bytes> tcp_in_ipv4(Bytes packet) {
  if (packet.size() < kIpv4HeaderBytes || at(packet, 9) != IPPROTO_TCP) return std::nullopt;
  std::size_t header = 4U * (at(packet, 0) & 0x0f);
  if (header < kIpv4HeaderBytes || header > packet.size()) return std::nullopt;
  return packet.subspan(header);
}

// Steps over extension headers (RFC 8200, section 4), whose first byte says what follows and whose
// second, fragment headers apart, how long they are.
std::optional<Bytes> tcp_in_ipv6(Bytes packet) {
  if (packet.size() < kIpv6HeaderBytes) return std::nullopt;
  std::uint8_t next = at(packet, 6);
  Bytes rest = packet.subspan(kIpv6HeaderBytes);
  for (std::size_t seen = 0; seen <= kExtensionHeadersMax; ++seen) {
    if (next == IPPROTO_TCP) return rest;
    if (rest.size() < 2) return std::nullopt;
    std::size_t length = 0;
    switch (next) {
      case IPPROTO_HOPOPTS:
      case IPPROTO_ROUTING:
      case IPPROTO_DSTOPTS:
        length = 8U * (at(rest, 1) + 1U);
        break;
      case IPPROTO_FRAGMENT:
        length = 8;
        break;
      case IPPROTO_AH:
        length = 4U * (at(rest, 1) + 2U);
        break;
      default:
        return std::nullopt;
    }
    if (length > rest.size()) return std::nullopt;
    next = at(rest, 0);
    rest = rest.subspan(length);
  }
  return std::nullopt;
}

std::optional<Bytes> options_of_syn(Bytes tcp) {
  if (tcp.size() < kTcpHeaderBytes) return std::nullopt;
  std::size_t header = 4U * (at(tcp, 12) >> 4);
  if (header < kTcpHeaderBytes || header > tcp.size()) return std::nullopt;
  if ((at(tcp, 13) & kTcpFlagSyn) == 0) return std::nullopt;
  return tcp.subspan(kTcpHeaderBytes, header - kTcpHeaderBytes);
}

// The length of the first option with our kind and magic, or 0. That option decides, as in the
// option program: both must tell the same of one SYN, or client and server part ways.
std::size_t find_option(Bytes options, const std::array<std::uint8_t, 4>& magic) {
  while (!options.empty()) {
    std::uint8_t kind = at(options, 0);
    if (kind == kEndOfOptions) return 0;
    if (kind == kNoOperation) {
      options = options.subspan(1);
      continue;
    }
    if (options.size() < 2) return 0;
    std::size_t length = at(options, 1);
    if (length < 2 || length > options.size()) return 0;
    if (kind == FAIRLEAD_TCP_OPTION_KIND && length >= FAIRLEAD_TCP_OPTION_BYTES) {
      bool ours = true;
      for (std::size_t i = 0; i < magic.size(); ++i) ours &= at(options, 2 + i) == magic[i];
      if (ours) return length;
    }
    options = options.subspan(length);
  }
  return 0;
}

void set_priority(int fd, int priority) {
  (void)::setsockopt(fd, SOL_SOCKET, SO_PRIORITY, &priority, sizeof priority);
}

}  // namespace

Announced announced_in_syn(std::span<const std::byte> ip_and_tcp_headers) {
  if (ip_and_tcp_headers.empty()) return Announced::kNothing;
  std::optional<Bytes> tcp;
  switch (at(ip_and_tcp_headers, 0) >> 4) {
    case 4:
      tcp = tcp_in_ipv4(ip_and_tcp_headers);
      break;
    case 6:
      tcp = tcp_in_ipv6(ip_and_tcp_headers);
      break;
    default:
      break;
  }
  if (!tcp) return Announced::kNothing;
  const auto options = options_of_syn(*tcp);
  if (!options) return Announced::kNothing;
  const std::size_t smc = find_option(*options, kMagic);
  if (smc == 0 || smc % 2 != 0) return Announced::kNothing;
  const bool frames = find_option(*options, kFramesMagic) == FAIRLEAD_TCP_OPTION_BYTES;
  return frames ? Announced::kFrames : Announced::kSmc;
}

void ask_for_frames(int fd) { set_priority(fd, FAIRLEAD_PRIORITY_WINDOWS_WANTED); }
void stop_asking_for_frames(int listener_fd) { set_priority(listener_fd, 0); }

namespace {

// Of no listener.
constexpr std::uint32_t kMomentaryAddress = 0x7f534d43;  // 127.83.77.67

Result<void> listen_for_a_moment(const SocketAddress& address, bool announce,
                                 const std::function<Result<void>(int fd)>& request) {
  const FileDescriptor socket(
      ::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return system_error("socket", errno);
  const int on = 1;
  (void)::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) != 0)
    return system_error("SO_REUSEPORT", errno);
  if (request) SMC_TRY(request(socket.get()));
  if (announce) ask_for_frames(socket.get());
  if (::bind(socket.get(), address.data(), address.size()) != 0) return system_error("bind", errno);
  if (::listen(socket.get(), 1) != 0) return system_error("listen", errno);
  return {};
}

}  // namespace

Result<void> announce_frames(std::uint16_t port, bool announce,
                             const std::function<Result<void>(int fd)>& request) {
  in_addr v4{};
  v4.s_addr = htonl(kMomentaryAddress);
  const Result<void> done = listen_for_a_moment(SocketAddress(v4, port), announce, request);
  if (done || (done.error().system != EADDRNOTAVAIL && done.error().system != EAFNOSUPPORT))
    return done;
  // A host may do without IPv4, loopback included.
  return listen_for_a_moment(SocketAddress(in6addr_loopback, port), announce, request);
}

Announced peer_answered_option(int connected_fd) {
  int priority = 0;
  socklen_t length = sizeof priority;
  if (::getsockopt(connected_fd, SOL_SOCKET, SO_PRIORITY, &priority, &length) != 0)
    return Announced::kNothing;
  // The answers stay where they are: they name no class and no band of their own.
  if (priority == FAIRLEAD_PRIORITY_ANSWERED) return Announced::kSmc;
  if (priority == FAIRLEAD_PRIORITY_FRAMES_ANSWERED) return Announced::kFrames;
  if (priority == FAIRLEAD_PRIORITY_WINDOWS_ANSWERED) return Announced::kFramesWithWindows;
  if (priority == FAIRLEAD_PRIORITY_WINDOWS_WANTED) set_priority(connected_fd, 0);
  return Announced::kNothing;
}

Result<void> save_syn(int listener_fd) {
  int on = 1;
  if (::setsockopt(listener_fd, IPPROTO_TCP, TCP_SAVE_SYN, &on, sizeof on) != 0)
    return system_error("TCP_SAVE_SYN", errno);
  return {};
}

Result<Announced> syn_carried_option(int accepted_fd) {
  std::array<std::byte, kSavedSynBytesMax> headers;
  socklen_t length = headers.size();
  if (::getsockopt(accepted_fd, IPPROTO_TCP, TCP_SAVED_SYN, headers.data(), &length) != 0) {
    // The kernel says EINVAL and the length that it wants; the SYN stays saved then.
    if (errno == EINVAL && length > headers.size())
      return Error{Errc::kExhausted, "headers of the client's SYN", EINVAL};
    return system_error("TCP_SAVED_SYN", errno);
  }
  return announced_in_syn(Bytes(headers).first(length));
}

Result<bool> probe_external(Duration deadline) {
  TimePoint until =
      std::chrono::time_point_cast<Duration>(std::chrono::steady_clock::now()) + deadline;
  const SelfConnectionSteps steps{.before_listen = save_syn, .before_connect = nullptr};
  in_addr v4{};
  v4.s_addr = htonl(INADDR_LOOPBACK);
  auto self = connect_to_self(SocketAddress(v4, 0), until, steps);
  // A host may do without IPv4, loopback included.
  if (!self && self.error().code != Errc::kTimedOut)
    self = connect_to_self(SocketAddress(in6addr_loopback, 0), until, steps);
  if (!self) return Error(self.error());
  const Announced carried = SMC_TRY(syn_carried_option(self->accepted.get()));
  return carried != Announced::kNothing &&
         peer_answered_option(self->client.get()) != Announced::kNothing;
}

}  // namespace fairlead::bpf
