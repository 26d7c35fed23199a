// What is known of a device beyond rdma::Device: whom it reaches, and how a handshake leads to it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "base/address.h"
#include "base/fallback.h"
#include "base/ids.h"
#include "event/stream.h"
#include "rdma/device.h"
#include "wire/clc.h"

namespace fairlead::relay {

// The connection for which a device is wanted: the TCP connection between the proxies, whose socket
// is asked for its addresses only when somebody wants to know.
class Place {
 public:
  Place(const event::Stream& companion, std::optional<Gid> known)
      : peer_gid(known), ends_(&companion) {}

  SocketAddress local() const;
  SocketAddress peer() const;
  // One that may outlive the connection.
  Place kept() const {
    Place copy(Ends{local(), peer()}, peer_gid);
    copy.version = version;
    return copy;
  }

  std::optional<Gid> peer_gid;  // when the peer has told it
  std::uint8_t version = 2;     // of SMC-R, which decides on the type of our GID

 private:
  struct Ends {
    SocketAddress local, peer;
  };
  Place(const Ends& ends, std::optional<Gid> known) : peer_gid(known), ends_(ends) {}

  std::variant<const event::Stream*, Ends> ends_;
};

struct PnetOfPort {
  std::string id;      // empty: none known
  std::string source;  // "configuration", "kernel table", "route"
};

// How a handshake leads to a device. Main brings one for each kind.
class Reachability {
 public:
  virtual ~Reachability() = default;
  virtual const char* kind() const = 0;  // "shm", "verbs"
  // The device leads to other nodes.
  virtual bool leaves_node() const { return false; }
  // Goes into our Proposals.
  virtual wire::VendorArea vendor_area() const = 0;
  // Server: where the client's queue pairs are on this device, if it offers this version of SMC-R;
  // nothing if it cannot be reached.
  virtual std::optional<Gid> client_gid(const wire::Proposal& proposal,
                                        std::uint8_t version) const = 0;
  // The port with a GID of RoCEv1, from which peers of any make speak version 1; nothing where it
  // has none that will do for the connection. REQUIRES: the place's version is 1
  virtual std::optional<rdma::Port> roce_v1_port(const rdma::Port&, const Place&) const {
    return std::nullopt;
  }
  // Client: the GID of an Accept is one of this device.
  virtual bool server_reachable(const Gid& gid) const = 0;
  // Which of the device's ports to speak from, and with which of its GIDs; nothing if none will do.
  // The first that is active, unless a device knows better.
  virtual std::optional<rdma::Port> choose_port(std::span<const rdma::Port> ports,
                                                const Place& place) const;
  // The node encrypts the TCP path to that peer, and this device would pass it by. choose_port()
  // gives no port then.
  virtual bool withheld(const Place&) const { return false; }
  // No gateway lies between these GIDs. Nothing where the routes cannot be seen.
  virtual std::optional<bool> direct(const Gid& local, const Gid& peer) const;
  virtual PnetOfPort pnet(const rdma::Port&) const { return {}; }
  // Whose address the port's GID is: "pod", "node", "table"; "" where there is no such choice.
  virtual const char* gid_source(const rdma::Port&) const { return ""; }
  // The port may carry our connections: its PNET is ours, or none is asked for.
  virtual bool in_network(const rdma::Port&) const { return true; }
  // Links of one group may begin at either port: both lead to the same peers. On hardware only
  // people can know; they say so by a PNET ID in common.
  virtual bool alike(const rdma::Port& one, const rdma::Port& other) const;
};

// Likewise for ports of any two devices.
bool alike(const Reachability& one_device, const rdma::Port& one, const Reachability& other_device,
           const rdma::Port& other);

bool usable(const rdma::Port& port);  // active, without a fault, and has a GID

// Why the port cannot be used, as a reason and a sentence; nothing where it can.
struct PortObstacle {
  FallbackReason reason = FallbackReason::kPortDown;
  std::string_view sentence;
};
std::optional<PortObstacle> obstacle(const rdma::Port& port);

}  // namespace fairlead::relay
