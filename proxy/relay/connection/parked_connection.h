// A connection whose proxy ends before it does: its two streams, and what the next process of the
// pod must know in addition to the kernel's state of the sockets. See docs/hand-over.md.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/address.h"
#include "base/client_address.h"
#include "base/fallback.h"
#include "base/time.h"
#include "event/stream.h"
#include "event/tcp_stream.h"
#include "relay/connection/session_resources.h"
#include "relay/pipes/parked_mode.h"

namespace fairlead::relay {

struct ParkedConnection {
  Direction direction = Direction::kOutbound;
  SocketAddress destination;
  Arrival arrival = Arrival::kAtListener;
  Duration age{};
  std::uint64_t tx = 0, rx = 0, framed_tx = 0;  // bytes, as SessionReport counts them
  std::optional<FallbackReason> reason;         // why it is TCP
  std::optional<ClientAddress> client_address;  // whether the application sees the client's address
  std::optional<std::uint32_t> client_slot;     // the slot that holds it
  ParkedMode mode;
  std::unique_ptr<event::Stream> app;  // null if it must still be dialled
  std::unique_ptr<event::Stream> net;  // likewise
};

// A connection whose streams have left their event loop. `state` has no streams.
struct ParkedSockets {
  ParkedConnection state;
  std::optional<event::ParkedStream> app, net;
  unsigned worker = 0;  // the previous owner; not described to another process
};

struct ParkedListener {
  SocketAddress address;
  FileDescriptor socket;
};

}  // namespace fairlead::relay
