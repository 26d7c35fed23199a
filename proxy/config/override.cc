// The environment and flags as sources of values (load.h).
#include <algorithm>
#include <cstring>

#include "base/pod_settings.h"
#include "base/result.h"
#include "config/key.h"
#include "config/load.h"

namespace fairlead::config {
namespace {

constexpr std::string_view kPrefix = "FAIRLEAD_";
constexpr std::string_view kPnetVariable = "SMC_PNET_ID";

// A misspelt name is worth a warning only where it is close to a known one. Others belong to other
// programs, like the variables that Kubernetes makes of every Service
// ("FAIRLEAD_INJECTOR_SERVICE_HOST").
constexpr std::size_t kSlipLettersMax = 2;

void warn_of_slip(std::string_view name, std::vector<std::string>& warnings) {
  for (const Key<Config>& key : config_keys()) {
    const std::string meant = variable_of(key.path);
    if (edit_distance(name, meant) > kSlipLettersMax) continue;
    warnings.push_back(std::string(name) + " names no key and is ignored, did you mean " + meant +
                       "?");
    return;
  }
}

}  // namespace

EnvironmentOverrides overrides_from_environment(const char* const* environment) {
  EnvironmentOverrides found;
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    const std::string_view entry = *environment;
    const std::size_t equals = entry.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view name = entry.substr(0, equals);
    const std::string_view value = entry.substr(equals + 1);
    const bool is_pnet = name == kPnetVariable;
    if (!is_pnet && !name.starts_with(kPrefix)) continue;
    const auto keys = config_keys();
    const auto key = std::find_if(keys.begin(), keys.end(), [&](const Key<Config>& k) {
      return is_pnet ? k.path == "pnet.id" : variable_of(k.path) == name;
    });
    if (key == keys.end()) {
      warn_of_slip(name, found.warnings);
      continue;
    }
    if (value.empty() && key->shape != KeyShape::kSingleOrNone) continue;
    Override change{key->path, std::string(value), "environment " + std::string(name)};
    // Later ones win, so the weaker name goes first.
    found.overrides.insert(is_pnet ? found.overrides.begin() : found.overrides.end(),
                           std::move(change));
  }
  return found;
}

Result<Override, ConfigError> override_from_flag(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0)
    return tl::unexpected(ConfigError{"flag --set", 0, 0, "",
                                      in_quotes(text) +
                                          " names no value; allowed: key=value, as in "
                                          "log.level=debug"});
  return Override{std::string(text.substr(0, equals)), std::string(text.substr(equals + 1)),
                  "flag --set"};
}

}  // namespace fairlead::config
