// doctor: the proxy's checks on itself, then those of the place it runs in.
#include <algorithm>
#include <string>
#include <vector>

#include "base/command_words.h"
#include "ctl/commands.h"
#include "ctl/local_checks.h"
#include "ctl/reports.h"
#include "event/http/http_status.h"

namespace fairlead::ctl {
namespace {

// The proxy's part; without a proxy, a failure in its place.
std::vector<Check> proxy_checks(Console& console, ProxyFacts& facts) {
  std::string reason;
  const auto reply = console.try_request("GET", "/doctor", reason);
  if (!reply)
    return {{"proxy", Check::Status::kFail, "no answer: " + reason,
             "is fairlead-proxy running here? see --admin"}};
  if (reply->status != http_status::kOk)
    return {{"proxy", Check::Status::kFail, "answered " + std::to_string(reply->status),
             "is another program listening there? see --admin"}};
  const Json body = parse_json(reply->body);
  const Json& build = member(body, "build");
  facts.uses_verbs = text(build, "backend").find("verbs") != std::string::npos;
  std::vector<Check> checks = checks_from(body);
  const auto is_ok = [&checks](const char* name) {
    return std::any_of(checks.begin(), checks.end(), [name](const Check& check) {
      return check.name == name && check.status == Check::Status::kOk;
    });
  };
  facts.option_program_ok = is_ok("option_program");
  const Json& redirect = member(body, "redirect");
  for (const Json& port : member(redirect, "ports"))
    if (port.is_number_unsigned()) facts.redirect_ports.push_back(port.get<std::uint16_t>());
  facts.user = static_cast<std::uint32_t>(number(redirect, "user"));
  facts.redirected = number(redirect, "connections");
  checks.insert(checks.begin(),
                {"proxy", Check::Status::kOk,
                 "version " + text(build, "version") + ", devices " + text(build, "backend"), ""});
  return checks;
}

void run_doctor(Console& console) {
  ProxyFacts proxy;
  std::vector<Check> checks = proxy_checks(console, proxy);
  for (Check& check : local_checks(read_host_facts({}), proxy)) checks.push_back(std::move(check));
  constexpr int kIndent = 2;
  if (console.wants_json())
    console.print_json(
        checks_json(checks).dump(kIndent, ' ', false, Json::error_handler_t::replace) + '\n');
  else
    console.print(checks_text(checks));
  console.exit = static_cast<Exit>(worst_of(checks));
}

}  // namespace

void add_doctor_command(CLI::App& app, Console& console) {
  CLI::App* doctor = app.add_subcommand("doctor", "Checks the proxy and where it runs");
  doctor->footer(
      "One line per check: ok, warn or fail; name; finding; -> what to do.\n"
      "Returns 0 if all is well, 1 with warnings, 2 with failures.\n"
      "Examples:\n"
      "  fairleadctl doctor\n"
      "  kubectl exec POD -c fairlead-proxy -- fairleadctl doctor");
  doctor->callback([&console] { run_doctor(console); });
}

}  // namespace fairlead::ctl
