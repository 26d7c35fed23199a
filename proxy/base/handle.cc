#include "base/handle.h"

#include <cstdio>

namespace fairlead {

void report_failed_destroy(const char* what, int rc) noexcept {
  std::fprintf(stderr, "destroy failed with %d in %s\n", rc, what);
}

}  // namespace fairlead
