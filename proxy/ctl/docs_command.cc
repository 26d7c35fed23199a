// docs: the reference pages that are made from the tables in the code. Hidden, because it is for
// those who change the tables; a test compares what it prints with the files in docs/.
#include <string>

#include "admin/code_text.h"
#include "admin/metric_catalog.h"
#include "base/fallback.h"
#include "ctl/commands.h"

namespace fairlead::ctl {
namespace {

constexpr const char* kNotice =
    "<!-- Made by `fairleadctl docs %PAGE%`. Change the table in the code, then run it again. "
    "-->\n\n";

std::string notice(const std::string& page) {
  std::string text = kNotice;
  return text.replace(text.find("%PAGE%"), 6, page);
}

std::string metrics_page() {
  std::string page =
      "# Metrics\n\n" + notice("metrics") +
      "The proxy serves these at `/metrics` of its admin endpoint, in the text format of "
      "Prometheus. Labels are\nclosed sets, or names of the node's own devices and "
      "networks: no label holds an address of a peer. Counters are\nsums over the "
      "workers.\n\n"
      "| metric | type | labels | meaning |\n|---|---|---|---|\n";
  for (const admin::MetricInfo& info : admin::metric_catalog()) {
    page += "| `" + std::string(info.name) + "` | " + std::string(to_string(info.type)) + " | " +
            std::string(info.labels) + " | " + std::string(info.help) + " |\n";
  }
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
      "time.\n\n"
      "| reason | code | on the wire | expected | what happened | what to do |\n"
      "|---|---|---|---|---|---|\n";
  for (const FallbackInfo& info : fallback_table()) {
    page += "| `" + std::string(info.name) + "` | " + admin::code_text(info.code) + " | " +
            admin::code_text(info.wire_code) + " | " + (info.expected ? "yes" : "no") + " | " +
            std::string(info.sentence) + " | " + std::string(info.hint) + " |\n";
  }
  return page;
}

}  // namespace

void add_docs_command(CLI::App& app, Console& console) {
  CLI::App* docs = app.add_subcommand("docs", "Prints a page of the reference");
  docs->group("");
  docs->add_option("PAGE", "metrics or reasons")
      ->required()
      ->check(CLI::IsMember({"metrics", "reasons"}));
  docs->callback([&console, docs] {
    console.print((*docs)["PAGE"]->as<std::string>() == "metrics" ? metrics_page()
                                                                  : reasons_page());
  });
}

}  // namespace fairlead::ctl
