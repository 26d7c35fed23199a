// What a worker tells about itself when asked: plain values, made by the worker in a turn of its
// own loop, printed by the admin server as JSON and by fairleadctl as tables. Not for the data
// path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/fallback.h"

namespace fairlead {

// What the asker wants. Link groups, links and devices always come: they are few. The other two are
// many, and filling them costs the worker time that connections wait for.
struct SnapshotRequest {
  std::size_t connections_max = 0;  // rows at most; 0: none
  bool decisions = false;
};

struct ConnectionRow {
  std::string id;  // "c-18f", as in the log
  unsigned worker = 0;
  Direction direction = Direction::kOutbound;
  Transport transport = Transport::kTcp;
  std::string state;   // "handshake", "active", or the RFC's close state
  std::string app;     // application's address:port
  std::string peer;    // other side's address:port
  std::string group;   // link group id, empty for TCP
  unsigned link = 0;   // link number, 0 for TCP
  std::string reason;  // fallback reason, empty for SMC-R
  std::uint32_t reason_code = 0;
  std::string client_address;  // inbound: a name of base/client_address.h, empty before the dial
  std::uint32_t local_token = 0, peer_token = 0;
  std::uint32_t rmb_bytes = 0, peer_rmb_bytes = 0;
  std::uint64_t tx_bytes = 0, rx_bytes = 0;
  double age_seconds = 0;
};

struct LinkRow {
  std::string group;
  unsigned number = 0;
  std::string state;  // "activating", "active", "down"
  std::string rnic;   // device name
  unsigned port = 0;
  std::string local_gid, peer_gid;
  std::uint32_t local_qp = 0, peer_qp = 0;
  unsigned mtu_bytes = 0;
  unsigned connections = 0;
  double rtt_seconds = 0;  // last TEST_LINK, 0 when none was made
};

struct LinkGroupRow {
  std::string id;  // "g-1"
  unsigned worker = 0;
  std::string role;  // "client" or "server"
  std::string type;  // "single", "symmetric", "asymmetric_local", "asymmetric_peer", "none"
  std::string peer_id;
  std::string peer_host;  // from the first contact extension, may be empty
  std::string version;    // "2.1"
  std::string ueid;
  unsigned connections = 0, connections_max = 0, links_max = 0;
  std::uint64_t rmb_bytes = 0;
  double idle_seconds = 0;  // since the last connection ended, 0 while in use
  std::vector<LinkRow> links;
};

// The state of a row that stands for an RNIC that the node did not give.
inline constexpr const char* kDeviceAbsent = "absent";
// The device or port can never carry SMC-R; it is passed over.
inline constexpr const char* kDeviceUnsupported = "unsupported";

struct DeviceRow {
  std::string name;  // "shm0"
  std::string kind;  // "shm", "verbs"
  unsigned port = 0;
  std::string state;  // "active", "down", kDeviceAbsent, kDeviceUnsupported
  std::string gid, gid_source, mac, pnet, pnet_source;
  unsigned mtu_bytes = 0;
  std::string detail;    // a sentence when it cannot be used
  std::string reason;    // then: the name of the fallback reason
  bool missing = false;  // of an absent one: configuration and node mean the proxy to have it
};

// The chain of decisions of one connection, newest first in the snapshot: for `fairleadctl why`.
struct DecisionRow {
  std::string id;
  std::string time;  // RFC 3339, UTC
  Direction direction = Direction::kOutbound;
  Side side = Side::kLocal;
  Transport transport = Transport::kTcp;
  std::string local, peer;
  std::string reason;  // empty for SMC-R
  std::uint32_t reason_code = 0;
  std::uint32_t peer_code = 0;
  double elapsed_seconds = 0;
  std::vector<std::string> steps;  // "peer's SYN/ACK carried the SMC option", …
};

// A destination to which connections of applications go directly, for `fairleadctl destinations`.
struct DestinationRow {
  std::string destination;
  std::string reason;  // why it does not lead to SMC-R
  std::uint32_t reason_code = 0;
  double learned_seconds = 0;  // since it was learned
  double left_seconds = 0;     // until a connection comes through the sidecar again
};

struct WorkerSnapshot {
  unsigned worker = 0;
  std::vector<ConnectionRow> connections;
  std::vector<LinkGroupRow> link_groups;
  std::vector<DeviceRow> devices;
  std::vector<DecisionRow> decisions;
};

}  // namespace fairlead
