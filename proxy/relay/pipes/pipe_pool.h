// Pipes for splice(2), reused because a new one costs two descriptors and a resize.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "base/linux/handle.h"

namespace fairlead::relay {

inline constexpr std::size_t kPipeBytesWanted = 1024 * 1024;
// Beyond the user's limit (pipe-user-pages-soft, which all processes of a user on the node share)
// the kernel makes pipes of one or two pages. Copying is cheaper than those.
inline constexpr std::size_t kPipeBytesMin = 64 * 1024;
inline constexpr std::size_t kIdlePipesMax = 16;
// After such a small pipe, this many requests are refused before the kernel is asked again.
inline constexpr unsigned kPipesNotTried = 256;

struct Pipe {
  FileDescriptor read_end;
  FileDescriptor write_end;
  std::size_t capacity_bytes = 0;
};

class PipePool {
 public:
  // Empty if descriptors or pipe pages are scarce: the caller copies instead.
  std::optional<Pipe> take();
  void give_back(Pipe pipe);  // REQUIRES: the pipe is empty

 private:
  std::vector<Pipe> idle_;
  unsigned not_tried_ = 0;
};

}  // namespace fairlead::relay
