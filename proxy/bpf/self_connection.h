// A TCP connection of this process to itself over loopback, by which it learns what eBPF programs
// of others do to its sockets. Blocks, for a deadline at most. Thread-safe.
#pragma once

#include <functional>

#include "base/address.h"
#include "base/linux/handle.h"
#include "base/result.h"
#include "base/time.h"

namespace fairlead::bpf {

struct SelfConnection {
  FileDescriptor listener, client, accepted;
  SocketAddress accepted_peer;  // as accept(2) names it
};

struct SelfConnectionSteps {
  std::function<Result<void>(int listener)> before_listen;
  std::function<Result<void>(int client, const SocketAddress& listener)> before_connect;
};

// The client's end is closed by a reset: connections that are made again and again would fill the
// table of those in TIME_WAIT. Errors: kTimedOut when a packet filter swallows the connection, or
// those of socket calls and of the steps.
Result<SelfConnection> connect_to_self(const SocketAddress& loopback, TimePoint deadline,
                                       const SelfConnectionSteps& steps);

}  // namespace fairlead::bpf
