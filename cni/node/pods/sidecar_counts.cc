#include "cni/node/pods/sidecar_counts.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

#include "base/linux/descriptor_closer.h"
#include "base/linux/record_socket.h"
#include "cni/node/pods/sidecar_socket.h"
#include "cni/plugin/json_text.h"
#include "event/http/http_reply.h"
#include "event/http/http_status.h"

namespace fairlead::cni::node {
namespace {

constexpr const char* kAdminSocket = "@fairlead-admin";
constexpr Error kNoSidecar{Errc::kMalformed, "answer of a sidecar", 0};

Result<std::string> receive_all(int fd) {
  DescriptorCloser closer([] { return false; });
  const TimePoint deadline = std::chrono::steady_clock::now() + kSidecarAnswerMax;
  std::string bytes;
  std::array<std::byte, 16 * 1024> chunk;
  for (;;) {
    const auto received = receive_record(fd, chunk, closer);
    if (received && received->descriptors != 0)
      return Error{Errc::kMalformed, "descriptors in the answer of a sidecar", 0};
    if (received) {
      bytes.append(reinterpret_cast<const char*>(chunk.data()), received->size_bytes);
      if (bytes.size() > kSidecarAnswerBytesMax) return Error{Errc::kExhausted, "answer", 0};
    } else if (received.error().code == Errc::kPeerGone) {
      return bytes;
    } else if (received.error().code != Errc::kWouldBlock) {
      return received.error();
    }
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd waiting{fd, POLLIN, 0};
    if (left.count() <= 0 || ::poll(&waiting, 1, static_cast<int>(left.count())) == 0)
      return Error{Errc::kTimedOut, "answer of a sidecar", 0};
  }
}

// The body of the answer to a GET.
Result<std::string> get(const std::string& netns, const NetnsIdentity& identity, std::uint32_t uid,
                        std::string_view path) {
  const FileDescriptor fd =
      SMC_TRY(make_socket_in({netns, identity}, Hears::kEverything, SOCK_STREAM));
  refuse_descriptors(fd.get());
  SMC_TRY(connect_to_sidecar(fd.get(), kAdminSocket, uid));
  const std::string request = event::http_request_text("GET", path);
  // Shorter than any socket buffer.
  if (::send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(request.size()))
    return system_error("send", errno);
  const std::string answer = SMC_TRY(receive_all(fd.get()));
  event::HttpReply reply = SMC_TRY(event::parse_http_reply(answer));
  if (reply.status != http_status::kOk) return kNoSidecar;
  return std::move(reply.body);
}

std::uint64_t number_of(const Json& object, std::string_view name) {
  const Json& value = member(object, name);
  return value.is_number_unsigned() ? value.get<std::uint64_t>() : 0;
}

// True for a name of docs/reasons.md. Other texts must not get into a report.
bool is_reason(const std::string& text) {
  constexpr std::size_t kReasonCharsMax = 32;
  return !text.empty() && text.size() <= kReasonCharsMax &&
         text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string::npos;
}

}  // namespace

Result<SidecarCounts> parse_sidecar_counts(const std::string& stats, const std::string& fallbacks) {
  const auto total = parse_json(stats, kSidecarAnswerBytesMax);
  const auto list = parse_json(fallbacks, kSidecarAnswerBytesMax);
  if (!total || !list || !member(*total, "total").is_object()) return kNoSidecar;
  SidecarCounts counts;
  const Json& connections = member(*total, "total", "connections");
  for (const char* direction : {"outbound", "inbound"}) {
    counts.smcr += number_of(member(connections, direction, "smcr"), "total");
    counts.tcp += number_of(member(connections, direction, "tcp"), "total");
    counts.brief += number_of(member(connections, direction, "short"), "total");
  }
  counts.hand_over = {number_of(connections, "taken_back"),
                      number_of(connections, "taken_back_lost"),
                      number_of(connections, "parked_nanoseconds")};
  counts.links = number_of(member(*total, "total", "links"), "active");
  for (const Json& row : json::items_of(member(*list, "fallbacks"))) {
    const std::string reason = text_of(member(row, "reason"));
    if (!is_reason(reason)) continue;
    if (counts.reasons.size() == kSidecarReasonsMax && !counts.reasons.contains(reason)) continue;
    counts.reasons[reason] += number_of(row, "count");
  }
  return counts;
}

Result<SidecarCounts> ask_sidecar(const std::string& netns, const NetnsIdentity& identity,
                                  std::uint32_t uid) {
  const std::string stats = SMC_TRY(get(netns, identity, uid, "/stats?format=json"));
  const std::string fallbacks = SMC_TRY(get(netns, identity, uid, "/fallbacks"));
  return parse_sidecar_counts(stats, fallbacks);
}

Result<void> ask_readiness(const std::string& netns, const NetnsIdentity& identity,
                           std::uint32_t uid) {
  SMC_TRY(get(netns, identity, uid, "/readyz"));
  return {};
}

}  // namespace fairlead::cni::node
