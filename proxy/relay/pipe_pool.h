// Pipes for splice(2), kept between uses: making one costs two descriptors and a resize.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "base/handle.h"

namespace fairlead::relay {

inline constexpr std::size_t kPipeBytesWanted = 1024 * 1024;
inline constexpr std::size_t kIdlePipesMax = 16;

struct Pipe {
  FileDescriptor read_end;
  FileDescriptor write_end;
  std::size_t capacity_bytes = 0;
};

class PipePool {
 public:
  // Nothing when descriptors are short: the caller copies instead.
  std::optional<Pipe> take();
  void give_back(Pipe pipe);  // REQUIRES: empty

 private:
  std::vector<Pipe> idle_;
};

}  // namespace fairlead::relay
