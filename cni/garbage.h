// Attachments whose pod has gone without a DEL, as after a crash of the runtime, which then never
// asks for GC either.
#pragma once

#include <cstddef>
#include <string>

namespace fairlead::cni {

struct GarbageCount {
  std::size_t kept = 0;
  std::size_t collected = 0;
};

// Collects those whose network namespace is not at its path any more.
GarbageCount collect_dead(const std::string& run_dir);

}  // namespace fairlead::cni
