#include "ctl/http_client.h"

#include <poll.h>
#include <strings.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <optional>

#include "base/linux/handle.h"
#include "ctl/timed_socket.h"

namespace fairlead::ctl {
namespace {

constexpr std::string_view kLineEnd = "\r\n";
constexpr std::string_view kHeadEnd = "\r\n\r\n";

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

// Header names are compared without case.
std::optional<std::string_view> header(std::string_view head, std::string_view name) {
  while (!head.empty()) {
    const std::size_t end = head.find(kLineEnd);
    std::string_view line = head.substr(0, end);
    head = end == std::string_view::npos ? std::string_view() : head.substr(end + kLineEnd.size());
    if (line.size() <= name.size() || line[name.size()] != ':') continue;
    if (::strncasecmp(line.data(), name.data(), name.size()) != 0) continue;
    line.remove_prefix(name.size() + 1);
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    return line;
  }
  return std::nullopt;
}

template <class Number>
bool parse_number(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size();
}

}  // namespace

Result<HttpReply> parse_reply(const std::string& bytes) {
  constexpr Error kNoHttp{Errc::kMalformed, "what answers there is not a proxy", 0};
  constexpr std::size_t kStatusAt = 9;  // behind "HTTP/1.1 "
  constexpr std::size_t kStatusDigits = 3;
  const std::size_t head_end = bytes.find(kHeadEnd);
  if (bytes.empty()) return Error{Errc::kPeerGone, "the proxy closed the connection", 0};
  if (!bytes.starts_with("HTTP/1.") || head_end == std::string::npos ||
      head_end < kStatusAt + kStatusDigits)
    return kNoHttp;
  HttpReply reply;
  const std::string_view head = std::string_view(bytes).substr(0, head_end);
  if (!parse_number(head.substr(kStatusAt, kStatusDigits), reply.status)) return kNoHttp;
  if (header(head, "Transfer-Encoding"))
    return Error{Errc::kUnsupported, "the answer has a transfer encoding", 0};
  const auto length = header(head, "Content-Length");
  std::size_t body_bytes = bytes.size() - head_end - kHeadEnd.size();
  if (length) {
    std::size_t announced = 0;
    if (!parse_number(*length, announced)) return kNoHttp;
    if (body_bytes < announced) return Error{Errc::kTruncated, "the answer ended early", 0};
    body_bytes = announced;
  }
  reply.body = bytes.substr(head_end + kHeadEnd.size(), body_bytes);
  return reply;
}

Result<HttpReply> http_request(const event::HttpEndpoint& endpoint, std::string_view method,
                               std::string_view target, Duration timeout) {
  const TimePoint deadline = now() + timeout;
  const FileDescriptor fd = SMC_TRY(connect_to(endpoint.data(), endpoint.size(), deadline, kLate));
  std::string request;
  request.append(method).append(" ").append(target);
  request.append(" HTTP/1.1\r\nHost: fairlead\r\nConnection: close\r\n");
  // Without it, libevent reads the body of a POST until the connection ends.
  request.append("Content-Length: 0\r\n\r\n");
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(request.data());
  SMC_TRY(send_all(fd.get(), {bytes, request.size()}, deadline, kLate));
  return parse_reply(SMC_TRY(receive_all(fd.get(), deadline)));
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
