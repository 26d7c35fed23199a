// Where an application wanted to go, when its connection was led to our listener instead. Free
// functions, thread-safe; sockets are the caller's and stay so.
//
// Three ways lead here. With the eBPF programs of the node side (bpf/redirect_connect.bpf.c) and
// with TPROXY, the accepted socket bears the destination as its own address. A NAT redirect
// rewrites the destination, and connection tracking remembers it (SO_ORIGINAL_DST).
//
// IPv4 addresses are IPv4 in all results, also those that a dual-stack listener sees as mapped.
#pragma once

#include <cstdint>

#include "base/address.h"
#include "base/result.h"

namespace fairlead::event {

struct OriginalDestination {
  SocketAddress address;
  // False when no redirect led the connection here: it was made to the listener itself. Dialling
  // `address` would lead back to the listener.
  bool redirected = false;

  friend bool operator==(const OriginalDestination&, const OriginalDestination&) = default;
};

// For a connection from `peer` accepted behind the programs or a NAT redirect, by a listener with
// this port, IPv4 and IPv6. A connection that neither of them knows counts as not redirected.
// `translated`: whether the last connection came by NAT, so that one system call is enough for the
// next one; set for that.
Result<OriginalDestination> redirect_destination(int accepted_fd, const SocketAddress& peer,
                                                 std::uint16_t listener_port, bool& translated);

// For a connection accepted behind a TPROXY rule on a listener bound to `listener`. A listener
// bound to all addresses cannot tell a connection to another host's port of the same number from
// one made to itself; it takes it for the latter.
Result<OriginalDestination> tproxy_destination(int accepted_fd, const SocketAddress& listener);

// Lets a listener accept connections to addresses that are not this host's, as TPROXY needs. Before
// bind(2). Errors: kPermission without CAP_NET_ADMIN.
Result<void> allow_foreign_addresses(int listener_fd);

// getsockname(2) and getpeername(2).
Result<SocketAddress> local_address(int fd);
Result<SocketAddress> peer_address(int fd);

}  // namespace fairlead::event
