// One side's part in the bells of a channel: the end that wakes the peer, and the end that wakes
// us. docs/shm.md, "Sleeping and waking".
#pragma once

#include <utility>

#include "base/linux/descriptor_closer.h"
#include "base/result.h"
#include "base/time.h"

namespace fairlead::rdma::shm {

class ChannelBell {
 public:
  ChannelBell() = default;
  // Errors: kMalformed when an end is not a Unix socket of type SOCK_SEQPACKET.
  static Result<ChannelBell> adopt(ForeignDescriptor ring, ForeignDescriptor watch);

  // Wakes the peer. Never blocks, but takes the longer the more watchers the peer has added to its
  // end. Returns the processor time that it took, or 0 where it was short or has not been measured.
  Duration ring();
  // False when the peer has closed its end, or has tampered with it. A close is known as soon as
  // its event has come.
  bool peer_alive();
  int descriptor() const { return watch_.get(); }  // to be watched edge-triggered; -1 for none
  void close() {
    ring_.reset();
    watch_.reset();
  }

 private:
  ChannelBell(ForeignDescriptor ring, ForeignDescriptor watch)
      : ring_(std::move(ring)), watch_(std::move(watch)) {}

  ForeignDescriptor ring_;
  ForeignDescriptor watch_;
  bool peer_gone_ = false;
  bool measured_ = false;  // the last ring took long, for whatever reason
};

}  // namespace fairlead::rdma::shm
