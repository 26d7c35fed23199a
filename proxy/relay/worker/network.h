// The interface to everything outside except devices: dialling, the SMC option of a connection, the
// clock. SocketNetwork is the real implementation; a simulation has its own.
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
  bpf::ClientAddressLease slot;  // if the address is shown: must be kept as long as the stream
};

class Network : public Clock {
 public:
  virtual ~Network() = default;
  // Wall clock, for logs and displays.
  virtual std::chrono::system_clock::time_point wall_now() const = 0;

  // Begins to connect to the application in our pod, for a connection from `client`. `memory_level`
  // is that of the socket's buffers, set before a window is announced. From kApplicationLevel on,
  // the kernel sizes the buffers (relay/connection/socket_memory.h).
  virtual Result<ApplicationLeg> dial_application(const SocketAddress& to,
                                                  const SocketAddress& client,
                                                  unsigned memory_level) = 0;
  // The peer of this application has been dialled. False if the application's connect(2) has waited
  // for that: then it succeeds soon, and nothing may be sent to it before application_connected().
  // An event of the stream tells of that.
  virtual bool answer_application(event::Stream&) { return true; }
  virtual bool application_connected(event::Stream&) { return true; }
  // The dial has failed. A connect(2) that waits fails with `error` once the stream is reset.
  virtual void refuse_application(event::Stream&, int /*error*/) {}

  // Begins to connect to a host that may have a proxy. The SYN carries `announce` if the kernel
  // side can add it. `client` is the application whose connection was redirected here, or null. If
  // its address is one of this host, the peer sees the address, but not the port.
  virtual Result<std::unique_ptr<event::Stream>> dial_peer(const SocketAddress& to,
                                                           bpf::Announced announce,
                                                           const SocketAddress* client,
                                                           unsigned memory_level) = 0;

  // Reserves the client address slot of a connection that another process dialled to the
  // application. Nobody else gets the slot as long as this process lives.
  virtual void keep_client_slot(std::uint32_t) {}

  // Makes the kernel probe the host of a dialled stream while it is silent (tcp.keepalive_*).
  // Separate from dialling, so that short connections do not pay for it. Accepted streams are
  // probed anyway.
  virtual void probe_peer(event::Stream& dialled) = 0;

  // True if a program writes the option for our sockets at all.
  virtual bool option_available() const = 0;
  // For a dialled stream, once, after it has connected: what the SYN/ACK announced.
  virtual bpf::Announced option_answered(event::Stream& stream) = 0;
  // For an accepted stream, once: what the SYN announced and our SYN/ACK confirmed.
  virtual bpf::Announced option_requested(event::Stream& stream) = 0;
};

}  // namespace fairlead::relay
