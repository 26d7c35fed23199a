#include "event/http/http_reply.h"

#include <strings.h>

#include <algorithm>
#include <charconv>
#include <optional>

namespace fairlead::event {
namespace {

constexpr std::string_view kLineEnd = "\r\n";
constexpr std::string_view kHeadEnd = "\r\n\r\n";

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

std::string http_request_text(std::string_view method, std::string_view target) {
  std::string request;
  request.append(method).append(" ").append(target);
  request.append(" HTTP/1.1\r\nHost: fairlead\r\nConnection: close\r\n");
  // Without it, libevent reads the body of a POST until the connection ends.
  return request.append("Content-Length: 0\r\n\r\n");
}

Result<HttpReply> parse_http_reply(const std::string& bytes) {
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

}  // namespace fairlead::event
