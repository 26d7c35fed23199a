// A decoder of the wire. FAIRLEAD_CHECK is the function of its properties.
#include <cstdint>

#include "fuzz/properties.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fairlead::wire::fuzz::FAIRLEAD_CHECK(std::as_bytes(std::span(data, size)));
  return 0;
}
