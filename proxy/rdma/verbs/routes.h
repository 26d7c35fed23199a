// What the network namespace of this process knows: interface addresses and routes. A pod does not
// see those of the node whose RNIC it uses; then there is nothing to be learnt here, and callers
// must do without. rtnetlink(7), getifaddrs(3).
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/ids.h"
#include "base/result.h"

struct nl_sock;

namespace fairlead::rdma::verbs {

// Addresses are compared as GIDs: IPv4 as ::ffff:a.b.c.d.
Gid gid_from(const SocketAddress& address);

struct InterfaceAddress {
  unsigned interface_index = 0;
  std::string interface_name;
  Gid address;
  unsigned prefix_length = 0;  // of 128 bits: 120 for an IPv4 /24
  unsigned vlan = 0;           // 802.1Q id of the interface; 0: it tags nothing
};

std::vector<InterfaceAddress> interface_addresses();

// The interface of the default route, or without one the only interface that has an address beyond
// the own segment; "" when there is neither.
std::string default_route_interface(std::span<const InterfaceAddress> addresses);

// True when the first `prefix_length` bits are alike.
bool same_prefix(const Gid& a, const Gid& b, unsigned prefix_length);

// The interface that has `gid` as an address; nothing when it is not one of this namespace.
const InterfaceAddress* holder_of(std::span<const InterfaceAddress> addresses, const Gid& gid);
// Whether some address of the interface that holds `gid` has `other` in its subnet, as Linux asks
// before it uses a GID for a connection.
bool subnet_covers(std::span<const InterfaceAddress> addresses, const Gid& gid, const Gid& other);

struct Route {
  unsigned interface_index = 0;
  bool gateway = false;
};

class RouteTable {
 public:
  // Errors: those of the netlink socket.
  static Result<RouteTable> open();
  RouteTable(RouteTable&&) noexcept;
  ~RouteTable();

  // Asks the kernel how it would send from `from` to `to`; nothing when it would not. Two system
  // calls, never waits.
  std::optional<Route> look_up(const Gid& to, const Gid& from) const;

 private:
  struct Close {
    void operator()(nl_sock* socket) const noexcept;
  };
  explicit RouteTable(std::unique_ptr<nl_sock, Close> socket);
  std::unique_ptr<nl_sock, Close> socket_;
};

}  // namespace fairlead::rdma::verbs
