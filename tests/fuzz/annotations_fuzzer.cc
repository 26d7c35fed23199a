// The annotations of a pod and the settings of an installation, on their way to a sidecar. The
// input is JSON: {"annotations": {...}, "settings": {...}}. Properties: an error names the key, the
// value and what is allowed; no output has control characters. What the injector accepts, the CNI
// plugin accepts too, and the proxy accepts the environment that the sidecar gets.
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/kubernetes_names.h"
#include "base/node_annotations.h"
#include "cni/plugin/pod_plan.h"
#include "cni/plugin/wishes.h"
#include "config/load.h"
#include "fuzz/reached.h"
#include "injector/annotations.h"
#include "injector/bounded_json.h"
#include "injector/decision.h"
#include "injector/settings.h"

namespace {

using namespace fairlead;
using injector::Json;
using injector::member;

void check_errors(const injector::AnnotationReport& report) {
  SMC_ASSERT(report.errors.size() <= injector::kFindingsMax);
  SMC_ASSERT(report.warnings.size() <= injector::kFindingsMax);
  for (const std::string& error : report.errors) {
    fuzz::check_printable(error, 1024);
    SMC_ASSERT(error.find("\" is not allowed; allowed: ") != std::string::npos);
    fuzz::reached_refusal(error);
  }
  for (const std::string& warning : report.warnings) {
    fuzz::check_printable(warning, 512);
    fuzz::reached(warning.find("did you mean") == std::string::npos ? "unknown key"
                                                                    : "misspelt key");
  }
  for (const auto& [name, value] : report.wishes) {
    const injector::AnnotationInfo* info = injector::find_annotation(name);
    SMC_ASSERT(info != nullptr && info->is_allowed(value));
    fuzz::reached("accepted: " + name);
  }
}

// The injector decides hours before the plugin sees the pod.
void check_plugin(const injector::AnnotationReport& report, const cni::StringMap& annotations) {
  const auto wishes = cni::read_wishes(annotations);
  if (wishes) return;
  fuzz::check_printable(wishes.error().message, 1024);
  fuzz::reached("the plugin refuses");
  SMC_ASSERT(!report.errors.empty());
}

void check_proxy(const Json& container, const injector::Settings& settings) {
  std::vector<std::string> texts;
  for (const Json& variable : member(container, "env"))
    texts.push_back(injector::text_of(member(variable, "name")) + "=" +
                    injector::text_of(member(variable, "value")));
  std::vector<const char*> environment;
  for (const std::string& text : texts) environment.push_back(text.c_str());
  environment.push_back(nullptr);
  static const std::string kFile = FAIRLEAD_SOURCE_DIR "/config/pod.yaml";
  const auto loaded =
      config::load({kFile, config::overrides_from_environment(environment.data()).overrides});
  if (loaded) return fuzz::reached("the proxy starts");
  for (const config::ConfigError& error : loaded.error()) fuzz::check_printable(to_string(error));
  // Variables of the installation are passed on as they are.
  SMC_ASSERT(!settings.variables.empty());
  fuzz::reached("the proxy refuses a variable of the installation");
}

void check_decision(const cni::StringMap& annotations, const injector::Settings& settings) {
  Json pod = {{"metadata", {{"annotations", annotations}}},
              {"spec", {{"containers", {{{"name", "app"}, {"image", "app"}}}}}}};
  const injector::Decision decision = injector::decide(pod, settings, true);
  fuzz::reached("decided: " + std::string(injector::to_string(decision.outcome)));
  for (const std::string& warning : decision.warnings) fuzz::check_printable(warning, 1024);
  if (decision.patch.empty()) return fuzz::check_printable(decision.explanation, 1024);
  const Json patched = pod.patch(decision.patch);
  bool found = false;
  for (const char* list : {"initContainers", "containers"})
    for (const Json& container : injector::items_of(member(member(patched, "spec"), list)))
      if (injector::text_of(member(container, "name")) == kubernetes::kSidecarName) {
        found = true;
        check_proxy(container, settings);
      }
  SMC_ASSERT(found);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto input = injector::parse_bounded_json({reinterpret_cast<const char*>(data), size});
  if (!input) return 0;
  const Json& settings_json = member(*input, "settings");
  injector::Settings settings;
  settings.image = "i";
  if (!settings_json.is_null()) {
    auto parsed = injector::parse_settings(
        settings_json.is_string() ? injector::text_of(settings_json) : settings_json.dump());
    if (parsed) {
      fuzz::reached("settings accepted");
      settings = std::move(*parsed);
    } else {
      fuzz::check_printable(parsed.error());
      fuzz::reached_refusal("settings: " + parsed.error().substr(0, parsed.error().find(':')));
    }
  }
  const auto annotations = injector::strings_of(member(*input, "annotations"));
  const injector::AnnotationReport report = injector::read_annotations(annotations);
  check_errors(report);
  check_plugin(report, annotations);
  check_decision(annotations, settings);
  (void)cni::opted_in(annotations);
  return 0;
}
