// How the devices of one fabric get a socket to each other. Two ways: a directory that all of them
// see (shm_fabric.h), and a broker that passes each of two devices its end (shm_broker_link.h).
#pragma once

#include "base/handle.h"
#include "base/ids.h"
#include "base/result.h"

namespace fairlead::rdma::shm {

// A socket that has come, or will never come.
struct Arrival {
  FileDescriptor socket;  // non-blocking; none when what was asked for is refused
  PeerId peer;            // vouched for; zero when only the other side's Hello will tell
  bool asked = false;     // the answer to a dial(), not a visitor
};

class Rendezvous {
 public:
  virtual ~Rendezvous() = default;

  virtual FabricId id() const = 0;
  // Readable while accept() has something; -1 for none. Another one only after reconnect().
  virtual int descriptor() const = 0;
  // A connected, non-blocking socket to that device, or none when it will come by accept().
  // Errors: kPeerGone when it cannot be reached, kExhausted at a limit, others.
  virtual Result<FileDescriptor> dial(PeerId peer) = 0;
  // False when dial() would be in vain. Costs a system call at most.
  virtual bool may_reach(PeerId peer) const = 0;
  // Errors: kWouldBlock when there is nothing, kPermission and kExhausted for one that is lost,
  // while others may follow; kPeerGone when no more will come until reconnect().
  virtual Result<Arrival> accept() = 0;
  // Tries again after a loss. The descriptor changes: nobody may watch it during the call. Nothing
  // by default, because most cannot be lost.
  virtual void reconnect() {}
};

}  // namespace fairlead::rdma::shm
