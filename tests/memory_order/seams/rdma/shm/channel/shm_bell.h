// Stands for the header of this name in the memory_order test: bells are numbers of the explorer.
#pragma once

#include "base/result.h"
#include "base/time.h"
#include "explorer.h"

namespace fairlead::rdma::shm {

class ChannelBell {
 public:
  ChannelBell() = default;
  static Result<ChannelBell> adopt(int ring, int watch) { return ChannelBell(ring, watch); }
  Duration ring() {
    if (ring_ >= 0) explore::Explorer::get().ring(static_cast<unsigned>(ring_));
    return {};
  }
  bool peer_alive() { return watch_ >= 0; }
  int descriptor() const { return watch_; }
  void close() { ring_ = watch_ = -1; }

 private:
  ChannelBell(int ring, int watch) : ring_(ring), watch_(watch) {}
  int ring_ = -1;
  int watch_ = -1;
};

}  // namespace fairlead::rdma::shm
