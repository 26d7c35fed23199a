// docs: the reference pages that are made from the tables in the code. Hidden, because it is for
// those who change the tables; a test compares what it prints with the files in docs/.
#include <span>
#include <string>

#include "admin/code_text.h"
#include "admin/metric_catalog.h"
#include "base/fallback.h"
#include "base/pod_settings.h"
#include "cni/node/agent/agent_metric_table.h"
#include "ctl/commands.h"
#include "ctl/json_value.h"
#include "injector/annotations.h"
#include "injector/injector_metrics.h"

namespace fairlead::ctl {
namespace {

constexpr const char* kNotice =
    "<!-- Made by `fairleadctl docs %PAGE%`. Change the table in the code, then run it again. "
    "-->\n\n";

std::string notice(const std::string& page) {
  std::string text = kNotice;
  return text.replace(text.find("%PAGE%"), 6, page);
}

template <class Metric>
std::string rows(std::span<const exposition::MetricInfo<Metric>> table) {
  std::string text = "| metric | type | labels | meaning |\n|---|---|---|---|\n";
  for (const auto& info : table)
    text += "| `" + std::string(info.name) + "` | " + std::string(to_string(info.type)) + " | " +
            std::string(info.labels) + " | " + std::string(info.help) + " |\n";
  return text;
}

std::string metrics_page() {
  std::string page =
      "# Metrics\n\n" + notice("metrics") +
      "The proxy serves these at `/metrics` of its admin endpoint, in the text format of "
      "Prometheus. Labels are\nclosed sets, or names of the node's own devices and "
      "networks: no label holds an address of a peer. Counters are\nsums over the "
      "workers.\n\n" +
      rows(admin::metric_catalog());
  page += "\n## Injector\n\n`fairlead-injector` serves these at `/metrics` of its admin port.\n\n" +
          rows(injector::injector_metric_table());
  page += "\n## Node\n\n`fairlead-node` serves these at `/metrics` of its port.\n\n" +
          rows(cni::node::agent_metric_table());
  return page;
}

const char* reader_text(injector::Reader reader) {
  switch (reader) {
    case injector::Reader::kInjector:
      return "injection";
    case injector::Reader::kSidecar:
      return "sidecar";
    case injector::Reader::kNode:
      return "node";
  }
  return "";
}

std::string annotations_page() {
  std::string page =
      "# Annotations\n\n" + notice("annotations") +
      "They stand on pods, which for a Deployment means in its pod template, and take effect when "
      "a pod is made. A value that\nis not allowed leaves the pod without sidecar, with a warning "
      "and an Event that name it; a key under `fairlead.io/`\nthat is not in this table is warned "
      "about. A namespace is opted in by the *label* `fairlead.io/inject=enabled`.\n\n"
      "| annotation | acted on by | allowed | meaning | example |\n|---|---|---|---|---|\n";
  for (const injector::AnnotationInfo& info : injector::annotation_table()) {
    page += "| `fairlead.io/" + std::string(info.name) + "` | " + reader_text(info.reader) + " | " +
            info.allowed() + " | " + std::string(info.meaning) + " | `" +
            std::string(info.example) + "` |\n";
  }
  page +=
      "\n`fairlead.io/status` is written by the injection: version, revision and the containers "
      "that were added.\n";
  return page;
}

std::string reasons_page() {
  std::string page =
      "# Reasons for TCP\n\n" + notice("reasons") +
      "Every connection that could not become SMC-R has one of these reasons: in the log line "
      "`event=fallback`, in the\nmetric `fairlead_fallback_total`, and in `fairleadctl fallbacks` "
      "and `fairleadctl why`.\n\n"
      "Codes below 0x0f000000 are those of the protocol, as smcss prints them. The others are "
      "Fairlead's own and never leave\nthe host: a peer is told the code in the column \"on the "
      "wire\" instead. Expected reasons are ordinary life, and are logged at\ndebug after the "
      "first "
      "time. A reason that lasts is met by the next connection, too, which therefore goes past the "
      "sidecar\n([cni.md](cni.md#connections-that-go-past-the-sidecar)).\n\n"
      "| reason | code | on the wire | given by | expected | lasts | what happened | what to do |\n"
      "|---|---|---|---|---|---|---|---|\n";
  for (const FallbackInfo& info : fallback_table()) {
    page += "| `" + std::string(info.name) + "` | " + admin::code_text(info.code) + " | " +
            admin::code_text(info.wire_code) + " | " + (info.peer_only ? "peer" : "either side") +
            " | " + (info.expected ? "yes" : "no") + " | " + (info.lasts ? "yes" : "no") + " | " +
            std::string(info.sentence) + " | " + std::string(info.hint) + " |\n";
  }
  return page;
}

const char* alarm_text(FallbackReason reason) {
  switch (fallback_alarm(reason)) {
    case FallbackAlarm::kNone:
      return "- No alert counts it.\n";
    case FallbackAlarm::kMeant:
      return "- FairleadAllTrafficFallback counts it, where an RNIC was meant to be there; "
             "FairleadFallbackRateHigh does not.\n";
    case FallbackAlarm::kShare:
      break;
  }
  return "- FairleadFallbackRateHigh and FairleadAllTrafficFallback count it.\n";
}

// What to look at depends on who decided, and on whether the reason is one to act on.
std::string runbook_page() {
  std::string page =
      "# Runbook: reasons for TCP\n\n" + notice("runbook") +
      "A section for each reason why a connection is TCP and not SMC-R, with its code. The "
      "connection works; this page is about\nmaking it SMC-R. `fairleadctl why PEER:PORT` tells "
      "the "
      "reason of one connection, step by step; with `side=peer` the other\nside decided, and its "
      "log "
      "says more. Alerts are in [alerts.md](alerts.md).\n";
  for (const FallbackInfo& info : fallback_table()) {
    const std::string name(info.name);
    page += "\n## " + name + "\n\nCode " + admin::code_text(info.code) + ": " +
            std::string(info.sentence) + ".\n\n- What to do: " + std::string(info.hint) + ".\n";
    if (info.expected) page += "- It is expected, and logged once for each peer.\n";
    page += alarm_text(info.reason);
    if (info.peer_only) page += "- Only a peer gives it, in its Decline: `side=peer`.\n";
    page +=
        "- How often, and who decided: `sum by (namespace, pod, side, direction) "
        "(increase(fairlead_fallback_total{reason=\"" +
        name + "\"}[1h])) > 0`\n";
    page += info.code == info.wire_code
                ? "- A Linux peer shows the same code in `smcss -a`, in the column of the mode.\n"
                : "- The code never leaves the host; the peer is told " +
                      admin::code_text(info.wire_code) + ".\n";
  }
  return page;
}

// For scripts/settings.py: a row a line.
std::string settings_page() {
  std::string page;
  for (const PodSetting& row : kPodSettings) {
    Json choices = Json::array();
    for (const std::string_view choice : row.choices)
      if (!choice.empty()) choices.push_back(choice);
    const Json object = {{"key", row.key},
                         {"variable", variable_of(row.key)},
                         {"value", row.value},
                         {"annotation", row.annotation},
                         {"min", row.limits.min},
                         {"max", row.limits.max},
                         {"doubling", row.limits.doubling},
                         {"zero", row.limits.zero},
                         {"choices", std::move(choices)},
                         {"default", row.usual},
                         {"allowed", allowed_text(row)}};
    page += (page.empty() ? "[\n" : ",\n") + object.dump();
  }
  return page + "\n]\n";
}

std::string page_named(const std::string& name) {
  if (name == "metrics") return metrics_page();
  if (name == "annotations") return annotations_page();
  if (name == "settings") return settings_page();
  return name == "runbook" ? runbook_page() : reasons_page();
}

}  // namespace

void add_docs_command(CLI::App& app, Console& console) {
  CLI::App* docs = app.add_subcommand("docs", "Prints a page of the reference");
  docs->group("");
  docs->add_option("PAGE", "annotations, metrics, reasons, runbook or settings")
      ->required()
      ->check(CLI::IsMember({"annotations", "metrics", "reasons", "runbook", "settings"}));
  docs->callback(
      [&console, docs] { console.print_exactly(page_named((*docs)["PAGE"]->as<std::string>())); });
}

}  // namespace fairlead::ctl
