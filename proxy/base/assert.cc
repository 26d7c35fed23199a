#include "base/assert.h"

#include <cstdio>
#include <cstdlib>

namespace fairlead::detail {

void assertion_failed(const char* expression, const char* file, int line, const char* names,
                      const std::uint64_t* values, unsigned count) noexcept {
  std::fprintf(stderr, "%s:%d: assertion failed: %s", file, line, expression);
  if (count != 0) std::fprintf(stderr, "; (%s) are", names);
  for (unsigned i = 0; i < count; ++i)
    std::fprintf(stderr, " %llu (0x%llx)", static_cast<unsigned long long>(values[i]),
                 static_cast<unsigned long long>(values[i]));
  std::fputc('\n', stderr);
  std::abort();
}

}  // namespace fairlead::detail
