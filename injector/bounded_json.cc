#include "injector/bounded_json.h"

#include "base/result.h"

namespace fairlead::injector {

Result<Json, std::string> parse_bounded_json(std::string_view text) {
  return json::parse(text, {kJsonBytesMax, kJsonDepthMax, kJsonValuesMax});
}

}  // namespace fairlead::injector
