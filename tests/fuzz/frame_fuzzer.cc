#include <cstdint>

#include "fuzz/properties.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fairlead::wire::fuzz::check_frame_header(std::as_bytes(std::span(data, size)));
  return 0;
}
