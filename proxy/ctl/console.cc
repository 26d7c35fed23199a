#include "ctl/console.h"

#include <cstdlib>
#include <iterator>
#include <ostream>
#include <utility>

#include "base/command_words.h"
#include "ctl/table.h"
#include "event/http/http_status.h"

namespace fairlead::ctl {
namespace {

Duration to_duration(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

std::vector<std::string> Console::endpoint_names() const {
  if (!admin.empty()) return {admin};
  const char* variable = std::getenv(kEndpointVariable);
  if (variable != nullptr && *variable != '\0') return {variable};
  return {std::begin(kDefaultEndpoints), std::end(kDefaultEndpoints)};
}

std::optional<event::HttpReply> Console::try_request(const char* method, const std::string& target,
                                                     std::string& reason) {
  reason.clear();
  for (const std::string& name : endpoint_names()) {
    if (!reason.empty()) reason += "; ";
    reason += name + ": ";
    const auto endpoint = event::HttpEndpoint::parse(name);
    if (!endpoint) {
      reason += to_string(endpoint.error());
      continue;
    }
    auto reply = http_request(*endpoint, method, target, to_duration(timeout_seconds));
    if (reply) return *reply;
    reason += to_string(reply.error());
  }
  return std::nullopt;
}

std::optional<Console::Answer> Console::request(const char* method, const std::string& target) {
  std::string reason;
  const auto reply = try_request(method, target, reason);
  if (!reply) {
    complain("no proxy answers: " + reason);
    exit = Exit::kFail;
    return std::nullopt;
  }
  if (!http_status::is_success(reply->status)) {
    const std::string error = text(parse_json(reply->body), "error");
    complain("the proxy answered " + std::to_string(reply->status) +
             (error.empty() ? "" : ": " + error));
    exit = Exit::kFail;
    return std::nullopt;
  }
  auto json = read_json(reply->body);
  if (!json) {
    complain("the answer of the proxy is " + json.error());
    exit = Exit::kFail;
    return std::nullopt;
  }
  return Answer{reply->body, std::move(*json)};
}

void Console::print(std::string_view text) { out_ << printable_lines(text); }
void Console::print_json(std::string_view json) { out_ << escaped_json(json); }
void Console::print_exactly(std::string_view text) { out_ << text; }
void Console::note(std::string_view text) { err_ << printable(text) << '\n'; }
void Console::complain(const std::string& text) { note("fairleadctl: " + shown_message(text)); }
void Console::flush() { out_ << std::flush; }

void Console::note_silent_workers(const Json& reply) {
  for (const Json& worker : list(reply, "silent_workers")) {
    if (!worker.is_number_unsigned()) continue;
    complain("worker " + worker.dump() + " did not answer; its rows are missing");
    exit = Exit::kWarn;
  }
}

}  // namespace fairlead::ctl
