#include "base/linux/handle.h"

#include <algorithm>
#include <cstdio>

#include "base/linux/stderr_line.h"

namespace fairlead {

void report_failed_destroy(const char* what, int rc) noexcept {
  char line[256];
  const int length = std::snprintf(line, sizeof line, "destroy failed with %d in %s\n", rc, what);
  if (length > 0)
    write_stderr_line({line, std::min(static_cast<std::size_t>(length), sizeof line - 1)});
}

}  // namespace fairlead
