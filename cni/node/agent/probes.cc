#include "cni/node/agent/probes.h"

#include <utility>

#include "base/log.h"
#include "event/http/http_status.h"

namespace fairlead::cni::node {

Outcome<std::unique_ptr<Probes>> Probes::start(const std::string& listen, ProbeAnswers answers) {
  const auto endpoint = event::HttpEndpoint::parse(listen);
  if (!endpoint)
    return fail(Code::kConfig, "listen: " + listen +
                                   " is not allowed; "
                                   "allowed: an address and port like 0.0.0.0:4591");
  event::HttpRefusals* refusals = answers.refusals;
  auto created = event::HttpServer::create(
      {},
      [answers = std::move(answers)](event::HttpExchange exchange) {
        const std::string& path = exchange.request().path;
        if (path == "/metrics")
          return exchange.respond({http_status::kOk,
                                   "text/plain; version=0.0.4; charset=utf-8",
                                   answers.metrics(),
                                   {}});
        if (path != "/livez" && path != "/readyz") {
          exchange.note_refusal(event::HttpRefusal::kNotServed, "no such path");
          return exchange.respond(
              {http_status::kNotFound, "text/plain", "/metrics, /readyz, /livez\n", {}});
        }
        const std::string trouble = path == "/readyz" ? answers.not_ready() : std::string();
        if (trouble.empty()) return exchange.respond({http_status::kOk, "text/plain", "ok\n", {}});
        exchange.respond({http_status::kServiceUnavailable, "text/plain", trouble + "\n", {}});
      },
      {}, refusals);
  if (!created) return fail(Code::kState, to_string(created.error()));
  std::unique_ptr<Probes> made(new Probes);
  made->server_ = std::move(*created);
  const auto bound = made->server_->listen(*endpoint);
  if (!bound) return fail(Code::kState, listen + ": " + to_string(bound.error()));
  LogEvent(LogLevel::kInfo, "node", "listening").field("address", to_string(*bound));
  if (const auto started = made->server_->start("fairlead-probes"); !started)
    return fail(Code::kState, to_string(started.error()));
  return made;
}

}  // namespace fairlead::cni::node
