// Physical networks: which RNIC belongs to which, and to which we belong. The names mean something
// on this host only; peers do not compare them. The kernel's table is that of smc_pnet(8), read
// over generic netlink without any right.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/hand_over.h"
#include "base/ids.h"
#include "base/result.h"

namespace fairlead::rdma::verbs {

// A line of the kernel's table: of an RNIC port, or of a network interface.
struct PnetEntry {
  std::string id;
  std::string rnic;  // empty for an interface
  PortNumber port;   // of `rnic`
  std::string interface_name;
  friend bool operator==(const PnetEntry&, const PnetEntry&) = default;
};

// kNotFound when the kernel has no such table: the module smc is not loaded.
Result<std::vector<PnetEntry>> read_pnet_table();

struct PnetQuestion {
  std::string configured;  // pnet.id
  HandOver handed;         // by the node; default: nothing was
  std::string rnic;
  PortNumber port;
  std::string rnic_interface;   // of the RNIC, "" where it cannot be seen
  std::string route_interface;  // that carries the connections
};

struct PnetAnswer {
  std::string id;      // of the port; empty: none
  std::string source;  // who said so: "configuration", "node", "kernel table", "route", or ""
  bool ours = true;    // the port may be used
};

// The first source that names our network decides: the configuration, the node's hand-over, the
// kernel's table, the interface of the route. A port is not used if the table puts it into another
// network, or if the node lists the ports of our network without it. A port of which no source says
// anything is used. Pure.
PnetAnswer pnet_of(const PnetQuestion& question, std::span<const PnetEntry> table);

}  // namespace fairlead::rdma::verbs
