#include "cni/node/agent/withdraw.h"

#include <algorithm>
#include <thread>

#include "base/log.h"
#include "base/time.h"
#include "cni/plugin/json_text.h"
#include "event/http/http_status.h"

namespace fairlead::cni::node {
namespace {

constexpr const char* kLogger = "node";

enum class State : std::uint8_t { kUntold, kTold, kLeft };

struct Target {
  std::string name;
  State state = State::kUntold;
  Rollout rollout;
  std::string trouble;
};

std::int64_t number_in(const Json& object, const char* name) {
  const Json& found = member(object, name);
  return found.is_number_integer() ? found.get<std::int64_t>() : 0;
}

// Makes one call: first the patch, later a query of the progress.
void advance(const event::ApiServer& server, const std::string& name_space, Target& target) {
  const std::string path = "/apis/apps/v1/namespaces/" + name_space + "/daemonsets/" + target.name;
  const bool told = target.state == State::kTold;
  const auto reply = server.send(
      told ? event::HttpsRequest{"GET", path, "", "", ""}
           : event::HttpsRequest{"PATCH", path, "", "application/strategic-merge-patch+json",
                                 leave_patch()});
  target.trouble.clear();
  if (!reply) {
    target.trouble = reply.error();
  } else if (reply->status == http_status::kNotFound) {
    target.state = State::kLeft;
  } else if (reply->status != http_status::kOk) {
    target.trouble = path + ": status " + std::to_string(reply->status);
  } else {
    target.rollout = read_rollout(reply->body);
    target.state = told && target.rollout.complete() ? State::kLeft : State::kTold;
  }
}

void report(const Target& target) {
  const bool left = target.state == State::kLeft;
  LogEvent(left ? LogLevel::kInfo : LogLevel::kWarn, kLogger, left ? "all_left" : "not_all_left")
      .field("daemonset", target.name)
      .field("nodes", static_cast<std::uint64_t>(std::max<std::int64_t>(target.rollout.wanted, 0)))
      .field("left", static_cast<std::uint64_t>(std::max<std::int64_t>(target.rollout.done, 0)))
      .field("what", target.trouble);
}

}  // namespace

Rollout read_rollout(std::string_view daemonset) {
  const auto json = parse_json(daemonset);
  if (!json) return {};
  const Json& status = member(*json, "status");
  const std::int64_t generation = number_in(member(*json, "metadata"), "generation");
  Rollout rollout;
  rollout.wanted = number_in(status, "desiredNumberScheduled");
  // Each node has one pod. If all pods have the present template and all are ready, the updated
  // ones are ready.
  rollout.done =
      std::min(number_in(status, "updatedNumberScheduled"), number_in(status, "numberReady"));
  rollout.known = generation > 0 && number_in(status, "observedGeneration") >= generation;
  return rollout;
}

std::string leave_patch() {
  const Json variables = Json::array({{{"name", kLeaveVariable}, {"value", "true"}}});
  const Json containers = Json::array({{{"name", "node"}, {"env", variables}}});
  return to_text(Json{{"spec",
                       {{"updateStrategy", {{"rollingUpdate", {{"maxUnavailable", "100%"}}}}},
                        {"template", {{"spec", {{"containers", containers}}}}}}}});
}

bool withdraw(const event::ApiServer& server, const WithdrawSettings& settings) {
  std::vector<Target> targets;
  for (const std::string& name : settings.daemonsets) targets.push_back({name, {}, {}, {}});
  const auto waits = [](const Target& target) { return target.state != State::kLeft; };
  const auto end = std::chrono::steady_clock::now() + settings.timeout;
  for (;;) {
    for (Target& target : targets) {
      if (!waits(target)) continue;
      advance(server, settings.name_space, target);
      if (!waits(target)) report(target);
    }
    const bool done = std::none_of(targets.begin(), targets.end(), waits);
    if (done || std::chrono::steady_clock::now() >= end) break;
    std::this_thread::sleep_for(settings.interval);
  }
  for (const Target& target : targets)
    if (waits(target)) report(target);
  return std::none_of(targets.begin(), targets.end(), waits);
}

}  // namespace fairlead::cni::node
