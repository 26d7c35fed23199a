// From a file, the environment and flags to a Config that obeys every range of config.h. All that
// is wrong is reported at once, each with its place and what would be right. Nothing throws. For
// the start of a program; not thread-safe against changes of the environment.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "config/config.h"
#include "config/error.h"

namespace fairlead::config {

// One value that replaces what the file says. The text of a single value is taken as it is, without
// quotes or escapes. That of a list is YAML, "[a, b]", or for a list of single values also "a, b".
struct Override {
  std::string key;  // "smc.max_links"
  std::string text;
  std::string origin;  // for the error: "environment FAIRLEAD_SMC_MAX_LINKS", "flag --set"
};

struct Sources {
  std::optional<std::string> file;  // path; without it the defaults are what the overrides change
  std::vector<Override> overrides;  // later ones win
};

// At most kErrorsMax errors, never none.
using LoadResult = Result<Config, std::vector<ConfigError>>;

LoadResult load(const Sources& sources);
LoadResult load_file(const std::string& path);
// `name` stands for the file in errors.
LoadResult load_text(std::string_view text, const std::string& name);

// Changes one key of a valid Config; on error the Config is as before. The first error only.
Result<void, ConfigError> apply_override(Config& config, const Override& change);

// Every key, in the order of config/proxy.yaml; those of list items are "listeners[].name".
std::vector<std::string> known_keys();

struct EnvironmentOverrides {
  std::vector<Override> overrides;
  // Variables that begin with FAIRLEAD_ but name no key, with the key that was probably meant. Not
  // errors, because a cluster puts variables of its own making there.
  std::vector<std::string> warnings;
};

// FAIRLEAD_ and the key in capitals, with "_" for ".": FAIRLEAD_SMC_MAX_LINKS. SMC_PNET_ID is
// pnet.id too, and loses against FAIRLEAD_PNET_ID. An empty variable counts only where an empty
// value has a meaning (admin.listen, admin.socket, smc.host_name, pnet.id).
EnvironmentOverrides overrides_from_environment(const char* const* environment);

// "smc.max_links=2", as it follows --set.
Result<Override, ConfigError> override_from_flag(std::string_view text);

}  // namespace fairlead::config
