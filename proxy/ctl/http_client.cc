#include "ctl/http_client.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>

#include "base/linux/handle.h"
#include "ctl/timed_socket.h"

namespace fairlead::ctl {
namespace {

constexpr const char* kLate = "the proxy did not answer in time";

TimePoint now() { return std::chrono::steady_clock::now(); }

Result<std::string> receive_all(int fd, TimePoint deadline) {
  std::string bytes;
  std::array<char, 16 * 1024> chunk;
  for (;;) {
    const ssize_t received = ::recv(fd, chunk.data(), chunk.size(), 0);
    if (received == 0) return bytes;
    if (received > 0) {
      bytes.append(chunk.data(), static_cast<std::size_t>(received));
      if (bytes.size() > kReplyBytesMax)
        return Error{Errc::kExhausted, "the answer is too long", 0};
    } else if (errno == EAGAIN) {
      SMC_TRY(wait_for(fd, POLLIN, deadline, kLate));
    } else if (errno != EINTR) {
      return system_error("recv", errno);
    }
  }
}

}  // namespace

Result<event::HttpReply> http_request(const event::HttpEndpoint& endpoint, std::string_view method,
                                      std::string_view target, Duration timeout) {
  const TimePoint deadline = now() + timeout;
  const FileDescriptor fd = SMC_TRY(connect_to(endpoint.data(), endpoint.size(), deadline, kLate));
  const std::string request = event::http_request_text(method, target);
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(request.data());
  SMC_TRY(send_all(fd.get(), {bytes, request.size()}, deadline, kLate));
  return event::parse_http_reply(SMC_TRY(receive_all(fd.get(), deadline)));
}

std::string percent_encoded(std::string_view text) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  constexpr std::string_view kPlain = "-._~:";
  std::string encoded;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                          (c >= 'A' && c <= 'Z') || kPlain.find(c) != std::string_view::npos;
    if (is_plain) {
      encoded += c;
    } else {
      encoded += '%';
      encoded += kDigits[byte >> 4];
      encoded += kDigits[byte & 0xfU];
    }
  }
  return encoded;
}

}  // namespace fairlead::ctl
