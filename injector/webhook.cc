#include "injector/webhook.h"

#include <utility>

#include "base/log.h"
#include "event/http/http_status.h"

namespace fairlead::injector {
namespace {

using event::HttpResponse;

constexpr const char* kPodsPath = "/mutate/pods";
constexpr const char* kNamespacesPath = "/mutate/namespaces";
constexpr const char* kEventReason = "FairleadNotInjected";

HttpResponse text(int status, std::string body) {
  HttpResponse response;
  response.status = status;
  response.body = std::move(body) + "\n";
  return response;
}

}  // namespace

void Webhook::handle(event::HttpExchange exchange) {
  const TimePoint begin = std::chrono::steady_clock::now();
  const HttpResponse response = answer(exchange.request());
  if (response.status == http_status::kNotFound ||
      response.status == http_status::kMethodNotAllowed)
    exchange.note_refusal(event::HttpRefusal::kNotServed, "no such path or method");
  exchange.respond(response);
  metrics_.observe(std::chrono::steady_clock::now() - begin);
}

HttpResponse Webhook::answer(const event::HttpRequest& request) {
  const bool by_namespace = request.path == kNamespacesPath;
  if (!by_namespace && request.path != kPodsPath)
    return text(http_status::kNotFound,
                "no such path; allowed: " + std::string(kPodsPath) + ", " + kNamespacesPath);
  if (request.method != "POST") return text(http_status::kMethodNotAllowed, "allowed: POST");
  const auto review = decode_review(request.body);
  if (!review) {
    metrics_.count_malformed();
    lines_.write(LogLevel::kWarn, "injector", "malformed_review", std::chrono::steady_clock::now(),
                 [&](LogEvent& line) { line.field("what", review.error()); });
    return text(http_status::kBadRequest, review.error());
  }
  const Decision decision = decide(review->pod, settings_, by_namespace);
  metrics_.count(decision.outcome);
  report(*review, decision);
  HttpResponse response;
  response.content_type = "application/json";
  response.body = encode_answer(*review, decision);
  return response;
}

void Webhook::report(const Review& review, const Decision& decision) {
  const bool is_trouble = is_worth_a_warning(decision.outcome);
  if (!is_trouble && !log_enabled(LogLevel::kDebug)) return;
  Subject subject = subject_of(review);
  lines_.write(is_trouble ? LogLevel::kWarn : LogLevel::kDebug, "injector",
               is_trouble ? "not_injected" : "reviewed", std::chrono::steady_clock::now(),
               [&](LogEvent& line) {
                 line.field("outcome", to_string(decision.outcome))
                     .field("namespace", review.name_space)
                     .field("kind", subject.kind.empty() ? "-" : subject.kind)
                     .field("name", subject.name.empty() ? "-" : subject.name)
                     .field("what", decision.warnings.empty() ? decision.explanation
                                                              : decision.warnings.back());
               });
  if (!is_trouble || review.dry_run) return;
  std::string message;
  for (const std::string& warning : decision.warnings)
    message += (message.empty() ? "" : "; ") + warning;
  order_event_({review.name_space, std::move(subject), kEventReason, std::move(message)});
}

void AdminPages::handle(event::HttpExchange exchange) const {
  const std::string& path = exchange.request().path;
  if (path == "/livez") return exchange.respond(text(http_status::kOk, "ok"));
  if (path == "/readyz")
    return exchange.respond(
        is_ready_.load() ? text(http_status::kOk, "ok")
                         : text(http_status::kServiceUnavailable, "there is no certificate yet"));
  if (path != "/metrics") {
    exchange.note_refusal(event::HttpRefusal::kNotServed, "no such path");
    return exchange.respond(
        text(http_status::kNotFound, "no such path; allowed: /livez, /readyz, /metrics"));
  }
  HttpResponse response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = metrics_.text();
  exchange.respond(response);
}

}  // namespace fairlead::injector
