// The proxy's configuration: its document and what overrides it. Lines "--set key=value" in front
// of the document are flags. Properties: an error has a place, a sentence of bounded length and no
// character for a terminal; there are at most kErrorsMax. What is accepted prints as a document
// that loads to an equal Config. A refused flag changes nothing.
#include <cstdint>
#include <string_view>
#include <vector>

#include "config/dump.h"
#include "config/load.h"
#include "fuzz/reached.h"

namespace {

using namespace fairlead;
using namespace fairlead::config;

constexpr std::string_view kFlag = "--set ";

void check_error(const ConfigError& error, std::string_view file) {
  SMC_ASSERT(error.file == file && error.line >= 0 && error.column >= 0);
  fuzz::check_printable(error.message);
  fuzz::check_printable(to_string(error));
  fuzz::reached_refusal(error.message);
}

void check_flags(const std::vector<std::string_view>& flags, Config& config) {
  for (const std::string_view flag : flags) {
    const auto change = override_from_flag(flag);
    if (!change) {
      check_error(change.error(), "flag --set");
      continue;
    }
    const Config before = config;
    const auto applied = apply_override(config, *change);
    if (applied) {
      fuzz::reached("flag accepted: " + change->key);
    } else {
      check_error(applied.error(), "flag --set");
      SMC_ASSERT(config == before);
    }
  }
}

void check_round_trip(const Config& config) {
  const std::string text = to_yaml(config);
  const LoadResult again = load_text(text, "f");
  SMC_ASSERT(again.has_value() && *again == config);
  SMC_ASSERT(to_yaml(*again) == text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  std::vector<std::string_view> flags;
  while (text.starts_with(kFlag)) {
    const std::string_view line = text.substr(0, text.find('\n'));
    flags.push_back(line.substr(kFlag.size()));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  LoadResult loaded = load_text(text, "f");
  if (!loaded) {
    SMC_ASSERT(!loaded.error().empty() && loaded.error().size() <= kErrorsMax);
    for (const ConfigError& error : loaded.error()) check_error(error, "f");
    return 0;
  }
  fuzz::reached("accepted");
  check_round_trip(*loaded);
  check_flags(flags, *loaded);
  check_round_trip(*loaded);
  return 0;
}
