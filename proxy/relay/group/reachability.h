// What is known of a device beyond rdma::Device: which peers it reaches, and how a handshake leads
// to it.
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

// The TCP connection between the proxies for which a device is wanted. The addresses of its socket
// are queried only when they are needed.
class Place {
 public:
  Place(const event::Stream& companion, std::optional<Gid> known)
      : peer_gid(known), ends_(&companion) {}

  SocketAddress local() const;
  SocketAddress peer() const;
  // A copy that may outlive the connection.
  Place kept() const {
    Place copy(Ends{local(), peer()}, peer_gid);
    copy.version = version;
    return copy;
  }

  std::optional<Gid> peer_gid;  // once the peer has told it
  std::uint8_t version = 2;     // of SMC-R; determines the type of our GID

 private:
  struct Ends {
    SocketAddress local, peer;
  };
  Place(const Ends& ends, std::optional<Gid> known) : peer_gid(known), ends_(ends) {}

  std::variant<const event::Stream*, Ends> ends_;
};

struct PnetOfPort {
  std::string id;      // empty if unknown
  std::string source;  // "configuration", "kernel table", "route"
};

// How a handshake leads to a device. Each kind of device has its implementation in proxy/devices.
class Reachability {
 public:
  virtual ~Reachability() = default;
  virtual const char* kind() const = 0;  // "shm", "verbs"
  // True if the device leads to other nodes.
  virtual bool leaves_node() const { return false; }
  // The vendor area of our Proposals.
  virtual wire::VendorArea vendor_area() const = 0;
  // Server: the GID of the client's queue pairs on this device, if the client offers this version
  // of SMC-R; empty if it cannot be reached.
  virtual std::optional<Gid> client_gid(const wire::Proposal& proposal,
                                        std::uint8_t version) const = 0;
  // The port with a RoCEv1 GID, from which peers of any vendor speak version 1; empty if none suits
  // the connection. REQUIRES: the place's version is 1
  virtual std::optional<rdma::Port> roce_v1_port(const rdma::Port&, const Place&) const {
    return std::nullopt;
  }
  // Client: true if this device reaches the GID of an Accept.
  virtual bool server_reachable(const Gid& gid) const = 0;
  // The device's port to speak from, with one of its GIDs; empty if none is suitable. By default,
  // the first usable port.
  virtual std::optional<rdma::Port> choose_port(std::span<const rdma::Port> ports,
                                                const Place& place) const;
  // True if the node encrypts the TCP path to that peer, and this device would bypass the
  // encryption. choose_port() then returns no port.
  virtual bool withheld(const Place&) const { return false; }
  // True if no gateway lies between these GIDs; empty if the routes are not visible.
  virtual std::optional<bool> direct(const Gid& local, const Gid& peer) const;
  virtual PnetOfPort pnet(const rdma::Port&) const { return {}; }
  // Whose address the port's GID is: "pod", "node", "table"; "" if the device has no such choice.
  virtual const char* gid_source(const rdma::Port&) const { return ""; }
  // True if the port may carry our connections: its PNET is ours, or none is required.
  virtual bool in_network(const rdma::Port&) const { return true; }
  // True if links of one group may begin at either port, because both lead to the same peers. On
  // hardware only operators can know that; they state it with a common PNET ID.
  virtual bool alike(const rdma::Port& one, const rdma::Port& other) const;
};

// As above, for ports of any two devices.
bool alike(const Reachability& one_device, const rdma::Port& one, const Reachability& other_device,
           const rdma::Port& other);

bool usable(const rdma::Port& port);  // active, without a fault, and has a GID

// Why the port cannot be used, as a reason and a sentence; empty if it can be used.
struct PortObstacle {
  FallbackReason reason = FallbackReason::kPortDown;
  std::string_view sentence;
};
std::optional<PortObstacle> obstacle(const rdma::Port& port);

}  // namespace fairlead::relay
