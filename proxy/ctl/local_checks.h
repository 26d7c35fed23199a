// The checks of `fairleadctl doctor` that need no proxy: what this container is given by its
// kernel, its runtime and its node. Reading and judging are two functions, so that the judging can
// be tested.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ctl/reports.h"
#include "ctl/socket_table.h"

namespace fairlead::ctl {

struct HostPaths {
  std::string infiniband = "/dev/infiniband";
  std::string mounts = "/proc/mounts";
  std::string status = "/proc/self/status";
  std::string sockets = "/proc/net/tcp";  // of the network namespace
  std::string sockets6 = "/proc/net/tcp6";
};

struct HostFacts {
  std::uint64_t memlock_bytes = 0;  // soft limits; ~0 is none
  std::uint64_t descriptors_max = 0;
  std::vector<std::string> verbs_devices;  // "uverbs0", sorted
  std::string cgroup2_mount;               // empty: not mounted
  std::uint64_t effective_capabilities = 0;
  std::string kernel_release;
  std::vector<SocketLine> sockets;
};

HostFacts read_host_facts(const HostPaths& paths);

// What the running proxy says, where it matters for judging.
struct ProxyFacts {
  bool uses_verbs = true;                       // also when not known
  bool option_program_ok = false;               // somebody has attached it
  std::vector<std::uint16_t> redirect_ports{};  // empty: none, or not known
  std::uint32_t user = 0;                       // of the proxy
  std::uint64_t redirected = 0;                 // connections that a redirect led to it
};

std::vector<Check> local_checks(const HostFacts& host, const ProxyFacts& proxy);

// The capabilities in the text of /proc/PID/status; 0 if there is no such line.
std::uint64_t parse_effective_capabilities(const std::string& status);

// The first cgroup2 mount point in the text of /proc/mounts; empty if there is none.
std::string parse_cgroup2_mount(const std::string& mounts);

}  // namespace fairlead::ctl
