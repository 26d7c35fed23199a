// The seam to everything outside that is not a device: dialling, the SMC option of a connection,
// the clock. SocketNetwork is the real one; a simulation brings its own.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "base/address.h"
#include "base/client_address.h"
#include "base/clock.h"
#include "base/result.h"
#include "bpf/client_address_slots.h"
#include "bpf/tcp_option.h"
#include "event/stream.h"

namespace fairlead::relay {

// A connection to the application beside us.
struct ApplicationLeg {
  std::unique_ptr<event::Stream> stream;
  ClientAddress client_address = ClientAddress::kUnavailable;
  bpf::ClientAddressLease slot;  // to be kept as long as the stream, where the address is shown
};

class Network : public Clock {
 public:
  virtual ~Network() = default;
  // Wall clock, for people.
  virtual std::chrono::system_clock::time_point wall_now() const = 0;

  // Begins to connect to the application beside us, for a connection that `client` made.
  // `memory_level`: of the socket's buffers, chosen before a window is announced. From
  // kApplicationLevel on they are the kernel's (relay/connection/socket_memory.h).
  virtual Result<ApplicationLeg> dial_application(const SocketAddress& to,
                                                  const SocketAddress& client,
                                                  unsigned memory_level) = 0;
  // Begins to connect to a host that may have a proxy. The SYN says `announce` if the kernel side
  // is there to add it. `client`: the application whose connection was redirected here, or null;
  // the peer sees its address, but not its port, if it is one of this host.
  virtual Result<std::unique_ptr<event::Stream>> dial_peer(const SocketAddress& to,
                                                           bpf::Announced announce,
                                                           const SocketAddress* client,
                                                           unsigned memory_level) = 0;

  // The slot of a connection to the application that another process has made: no other one gets
  // it as long as this process lives.
  virtual void keep_client_slot(std::uint32_t) {}

  // Makes the kernel probe the host of a dialled stream while it is silent (tcp.keepalive_*). Apart
  // from dialling, so that a short connection need not pay for it. Accepted streams are probed.
  virtual void probe_peer(event::Stream& dialled) = 0;

  // True when something writes the option for our sockets at all.
  virtual bool option_available() const = 0;
  // Dialled stream, once, when connected: what the SYN/ACK said.
  virtual bpf::Announced option_answered(event::Stream& stream) = 0;
  // Accepted stream, once: what the SYN said, and our SYN/ACK too.
  virtual bpf::Announced option_requested(event::Stream& stream) = 0;
};

}  // namespace fairlead::relay
