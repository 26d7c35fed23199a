// What the stages of one session share: its two streams, the memory that it pays for, and its
// report.
//
//   app   the stream to the application in our pod
//   net   the stream to the other side. While the bytes go over SMC-R it is the CLC connection: it
//         carries nothing, and its end means that the peer has gone.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/address.h"
#include "bpf/client_address_slots.h"
#include "event/stream.h"
#include "relay/connection/close_order.h"
#include "relay/connection/connection_owner.h"
#include "relay/connection/deadlines.h"
#include "relay/connection/session_report.h"
#include "relay/connection/session_services.h"
#include "relay/connection/socket_memory.h"
#include "relay/connection/stage.h"

namespace fairlead::relay {

// Measures that cost system calls are taken only for connections that last this long after their
// negotiation: a dialled one is probed for a silent host, and if this process dies, both streams
// are reset instead of closed. For SMC-R the latter holds from the beginning.
inline constexpr Duration kLastingFrom = std::chrono::seconds(1);

// The destination of an accepted connection, as its other end believes.
enum class Arrival : std::uint8_t {
  kAtListener,  // to the address where it was accepted
  kRedirected,  // to its destination
};

// The session, as its stages see it.
class StageHost : public event::StreamHandler, public ConnectionOwner {
 public:
  // The stage runs in this turn or the next one.
  virtual void mark_ready() = 0;
};

struct SessionResources {
  SessionResources(SessionServices& own_services, StageHost& own_host, std::uint64_t own_number,
                   Direction to, const SocketAddress& where, SocketMemory paid, TimePoint now);

  bool outbound() const { return direction == Direction::kOutbound; }
  // True if the application did not choose this proxy.
  bool redirected() const { return outbound() && arrival == Arrival::kRedirected; }
  // The address of the other end of `net` in reports.
  SocketAddress peer() const { return outbound() ? destination : net->peer_address(); }
  // True if by configuration the connection is reset unless it becomes SMC-R. REQUIRES: net
  bool smc_required() const {
    return config::required(services.config, peer(), destination.port());
  }
  TimePoint now() const { return services.network.now(); }
  void note(const char* step) { report.note(step); }
  void mark_ready() { host.mark_ready(); }

  void provide_for_lasting();
  void reset_if_lost();
  // Called after bytes were counted. A connection that moves bytes may get larger buffers; one that
  // stalls keeps its buffers. `ahead_bytes`: bytes that the application has still to take.
  // `net_carries`: the bytes go over the stream to the network.
  void pay_for_growth(std::size_t ahead_bytes, bool net_carries);
  // The stream to the network has failed with this errno.
  End lose_net(int error);
  End refuse_for_memory();
  // Both applications have ended, and everything is sent. Returns Stay while the other side must
  // close `net` first; the stage then runs again.
  StageResult close_in_order(TimePoint now);
  // Called when the earliest deadline has passed.
  void handle_deadline();

  SessionServices& services;
  StageHost& host;
  const std::uint64_t number;
  const Direction direction;
  const SocketAddress destination;
  Arrival arrival = Arrival::kAtListener;
  bpf::ClientAddressLease client_slot;  // outlives app
  // The slot of a connection that another process has begun; nobody else gets it meanwhile.
  std::optional<std::uint32_t> kept_slot;
  SocketMemory memory;
  std::unique_ptr<event::Stream> app;
  std::unique_ptr<event::Stream> net;
  SessionReport report;
  Deadlines deadlines;
  CloseOrder close_order;  // across stages: in which order the applications ended
};

// True for errors that the kernel reports if a host does not answer; ICMP may have named the cause.
bool means_vanished(int error);

}  // namespace fairlead::relay
