#include "ctl/console.h"

#include <cstdlib>
#include <iterator>
#include <ostream>

#include "ctl/table.h"

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

std::optional<HttpReply> Console::try_request(const char* method, const std::string& target,
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

std::optional<std::string> Console::request(const char* method, const std::string& target) {
  std::string reason;
  const auto reply = try_request(method, target, reason);
  if (!reply) {
    err_ << "fairleadctl: no proxy answers: " << reason << '\n';
    exit = Exit::kFail;
    return std::nullopt;
  }
  if (reply->status < 200 || reply->status > 299) {
    const std::string error = text(parse_json(reply->body), "error");
    err_ << "fairleadctl: the proxy answered " << reply->status
         << (error.empty() ? "" : ": " + printable(error)) << '\n';
    exit = Exit::kFail;
    return std::nullopt;
  }
  return reply->body;
}

void Console::print(const std::string& text) { out_ << text; }

void Console::note_silent_workers(const Json& reply) {
  for (const Json& worker : list(reply, "silent_workers")) {
    err_ << "fairleadctl: worker " << worker.dump() << " did not answer; its rows are missing\n";
    exit = Exit::kWarn;
  }
}

}  // namespace fairlead::ctl
