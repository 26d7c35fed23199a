#include "relay/pipes/pipe_pool.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/linux/descriptors.h"

namespace fairlead::relay {

std::optional<Pipe> PipePool::take() {
  if (!idle_.empty()) {
    Pipe pipe = std::move(idle_.back());
    idle_.pop_back();
    return pipe;
  }
  if (not_tried_ != 0) {
    --not_tried_;
    return std::nullopt;
  }
  int ends[2];
  if (::pipe2(ends, O_NONBLOCK | O_CLOEXEC) != 0) return std::nullopt;
  Pipe pipe{FileDescriptor(ends[0]), FileDescriptor(ends[1]), 0};
  if (descriptors_scarce(pipe.write_end.get(), DescriptorUse::kNew)) {
    not_tried_ = kPipesNotTried;
    return std::nullopt;
  }
  // Refused beyond the user's limit of pipe pages; the present size may suffice.
  (void)::fcntl(pipe.write_end.get(), F_SETPIPE_SZ, static_cast<int>(kPipeBytesWanted));
  const int capacity = ::fcntl(pipe.write_end.get(), F_GETPIPE_SZ);
  if (capacity < static_cast<int>(kPipeBytesMin)) {
    not_tried_ = kPipesNotTried;
    return std::nullopt;
  }
  pipe.capacity_bytes = static_cast<std::size_t>(capacity);
  return pipe;
}

void PipePool::give_back(Pipe pipe) {
  if (idle_.size() < kIdlePipesMax) idle_.push_back(std::move(pipe));
}

}  // namespace fairlead::relay
