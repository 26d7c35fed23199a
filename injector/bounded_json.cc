#include "injector/bounded_json.h"

namespace fairlead::injector {

tl::expected<Json, std::string> parse_bounded_json(std::string_view text) {
  return json::parse(text, {kJsonBytesMax, kJsonDepthMax, kJsonValuesMax});
}

}  // namespace fairlead::injector
