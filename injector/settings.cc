#include "injector/settings.h"

#include <algorithm>
#include <optional>

#include "base/result.h"
#include "injector/annotation_values.h"
#include "injector/annotations.h"
#include "injector/bounded_json.h"

namespace fairlead::injector {
namespace {

constexpr unsigned kConcurrencyMax = 64;
constexpr std::size_t kLabelCharsMax = 63;

bool is_label(std::string_view value) {
  return !value.empty() && value.size() <= kLabelCharsMax &&
         std::all_of(value.begin(), value.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                  c == '.' || c == '-' || c == '_' || c == '+';
         });
}

bool is_pull_policy(std::string_view value) {
  return value == "Always" || value == "IfNotPresent" || value == "Never";
}

struct TextField {
  std::string_view name;
  std::string Settings::*member;
  bool (*is_allowed)(std::string_view);
  std::string_view allowed;
  bool may_be_empty;
  std::string_view annotation = "";  // whose rule holds instead
};

const TextField kTextFields[] = {
    {"version", &Settings::version, is_label, "1 to 63 of A-Z, a-z, 0-9, . - _ +", false},
    {"revision", &Settings::revision, is_label, "1 to 63 of A-Z, a-z, 0-9, . - _ +", false},
    {"image", &Settings::image, is_image, "an image reference", false},
    {"imagePullPolicy", &Settings::image_pull_policy, is_pull_policy, "Always, IfNotPresent, Never",
     false},
    {"clientAddress", &Settings::client_address, nullptr, "", false, "client-address"},
    {"sharedMemory", &Settings::shared_memory, nullptr, "", false, "shared-memory"},
    {"shutdownGracePeriod", &Settings::grace_period, nullptr, "", false, "shutdown-grace-period"},
    {"seccompProfile", &Settings::seccomp_profile, is_seccomp_profile,
     "RuntimeDefault or Localhost", false},
    {"cpuRequest", &Settings::cpu_request, is_cpu, "a CPU quantity, or \"\"", true},
    {"memoryRequest", &Settings::memory_request, is_memory,
     "a whole number with Ki, Mi or Gi, or \"\"", true},
    {"cpuLimit", &Settings::cpu_limit, is_cpu, "a CPU quantity, or \"\"", true},
    {"memoryLimit", &Settings::memory_limit, is_memory_limit,
     "a whole number with Ki, Mi or Gi, from 32Mi to 2048Gi, or \"\"", true},
    {"rnicResource", &Settings::rnic_resource, is_rnic_resource, "a resource name, or \"\"", true},
    {"rnicClaimTemplate", &Settings::rnic_claim_template, is_rnic_claim_template,
     "the name of a ResourceClaimTemplate, or \"\"", true},
    {"memlock", &Settings::memlock, is_memory, "a whole number with Ki, Mi or Gi, or \"\"", true},
    {"pnetId", &Settings::pnet_id, is_pnet_id, "1 to 16 of A-Z, a-z and 0-9, or \"\"", true},
};

std::string refusal(std::string_view field, const Json& value, std::string_view allowed) {
  constexpr std::size_t kShownMax = 64;
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > kShownMax) text = text.substr(0, kShownMax) + "...";
  return std::string(field) + ": " + text + " is not allowed; allowed: " + std::string(allowed);
}

// A name that may be anything, cut and in ASCII.
std::string in_quotes(const std::string& name) {
  return Json(name.substr(0, kLabelCharsMax)).dump(-1, ' ', true, Json::error_handler_t::replace);
}

std::optional<std::string> read_text(const TextField& field, const Json& value,
                                     Settings& settings) {
  const std::string text = text_of(value);
  const bool is_empty_and_may = value.is_string() && text.empty() && field.may_be_empty;
  const AnnotationInfo own{.words = field.allowed, .check = field.is_allowed};
  const AnnotationInfo& rule = field.annotation.empty() ? own : *find_annotation(field.annotation);
  if (!is_empty_and_may && !(value.is_string() && rule.is_allowed(text)))
    return refusal(field.name, value, rule.allowed());
  settings.*field.member = text;
  return std::nullopt;
}

std::optional<std::string> read_number(std::string_view name, const Json& value, unsigned low,
                                       unsigned high, unsigned& into) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() < low ||
      value.get<std::uint64_t>() > high)
    return refusal(name, value,
                   "a whole number from " + std::to_string(low) + " to " + std::to_string(high));
  into = value.get<unsigned>();
  return std::nullopt;
}

std::optional<std::string> read_variables(const Json& value, Settings& settings) {
  constexpr std::string_view kAllowed = "at most 64 entries {name, value} of strings";
  if (!value.is_array() || value.size() > kExtraVariablesMax)
    return refusal("env", value, kAllowed);
  for (const Json& entry : value) {
    const Json& name = member(entry, "name");
    const Json& text = member(entry, "value");
    if (!name.is_string() || name.get_ref<const std::string&>().empty() || !text.is_string() ||
        entry.size() != 2)
      return refusal("env", entry, kAllowed);
    settings.variables.emplace_back(text_of(name), text_of(text));
  }
  return std::nullopt;
}

std::optional<std::string> read_smc(const Json& value, Settings& settings) {
  constexpr std::string_view kField = "smc";
  std::string names;
  for (const PodSetting& row : kPodSettings)
    if (is_smc_number(row))
      names += (names.empty() ? "" : ", ") + std::string(row.value.substr(kField.size() + 1));
  if (!value.is_object()) return refusal(kField, value, "an object of " + names);
  for (const auto& [name, number] : value.items()) {
    const std::string field = "smc." + name;
    const auto* row = std::find_if(
        kPodSettings.begin(), kPodSettings.end(),
        [&field](const PodSetting& one) { return is_smc_number(one) && one.value == field; });
    if (row == kPodSettings.end())
      return "smc: " + in_quotes(name) + " is no setting; allowed: " + names;
    if (!number.is_number_unsigned() || !allows(*row, number.dump()))
      return refusal(field, number, allowed_text(*row));
    settings.rows[field] = number.dump();
  }
  return std::nullopt;
}

std::optional<std::string> read_choice(const PodSetting& row, const Json& value,
                                       Settings& settings) {
  const std::string text = text_of(value);
  if (!value.is_string() || !allows(row, text)) return refusal(row.value, value, allowed_text(row));
  settings.rows[std::string(row.value)] = text;
  return std::nullopt;
}

std::optional<std::string> read_field(const std::string& name, const Json& value,
                                      Settings& settings) {
  for (const TextField& field : kTextFields)
    if (field.name == name) return read_text(field, value, settings);
  for (const PodSetting& row : kPodSettings)
    if (is_choice_of_pods(row) && row.value == name) return read_choice(row, value, settings);
  if (name == "concurrency")
    return read_number(name, value, 1, kConcurrencyMax, settings.concurrency);
  if (name == "smc") return read_smc(value, settings);
  if (name == "env") return read_variables(value, settings);
  if (name == "adminPort") {
    if (!value.is_number_unsigned() || !is_admin_port(value.dump()))
      return refusal(name, value, find_annotation("admin-port")->allowed());
    settings.admin_port = value.get<std::uint16_t>();
    return std::nullopt;
  }
  std::string allowed = "adminPort, concurrency, env, smc";
  for (const TextField& field : kTextFields) allowed += ", " + std::string(field.name);
  for (const PodSetting& row : kPodSettings)
    if (is_choice_of_pods(row)) allowed += ", " + std::string(row.value);
  return in_quotes(name) + " is no setting; allowed: " + allowed;
}

}  // namespace

Result<Settings, std::string> parse_settings(std::string_view json) {
  const auto parsed = SMC_TRY(parse_bounded_json(json));
  if (!parsed.is_object()) return tl::unexpected(std::string("not an object; allowed: settings"));
  Settings settings;
  for (const auto& [name, value] : parsed.items())
    if (auto error = read_field(name, value, settings)) return tl::unexpected(*error);
  if (settings.image.empty())
    return tl::unexpected(std::string("image: missing; allowed: an image reference"));
  if (!settings.rnic_claim_template.empty() && !settings.rnic_resource.empty())
    return tl::unexpected("rnicClaimTemplate: \"" + settings.rnic_claim_template +
                          "\" is not allowed with rnicResource: \"" + settings.rnic_resource +
                          "\"; allowed: one of them");
  const auto cpu = cpu_millis(settings.cpu_limit);
  const auto memory = memory_bytes(settings.memory_limit);
  if (cpu && cpu_millis(settings.cpu_request).value_or(0) > *cpu)
    return tl::unexpected("cpuRequest: \"" + settings.cpu_request +
                          "\" is not allowed; allowed: at most cpuLimit");
  if (memory && memory_bytes(settings.memory_request).value_or(0) > *memory)
    return tl::unexpected("memoryRequest: \"" + settings.memory_request +
                          "\" is not allowed; allowed: at most memoryLimit");
  return settings;
}

}  // namespace fairlead::injector
