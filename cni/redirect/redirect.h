// The redirect of a pod's connections to its sidecar: by eBPF programs, or by nf_tables where the
// node cannot have those. The calling thread is in the pod's network namespace.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "bpf/redirect_programs.h"
#include "cni/plugin/plugin_error.h"

namespace fairlead::cni {

// Key `redirect` of the node's configuration.
enum class RedirectChoice : std::uint8_t {
  kAuto,          // programs, else the packet filter
  kPrograms,      // or none
  kPacketFilter,  // nf_tables
};

// What is installed.
struct Redirect {
  // One line for each object, as bpf::RedirectReading says, or for each object of the packet
  // filter's table.
  bpf::RedirectReading reading;
  std::string cgroup;  // where the programs are attached; empty: packet filter
  std::string reason;  // why the packet filter is used instead of programs; else empty
};

// What only the programs need: the directory of the pod's cgroup, or the reason why it is unknown,
// and a name that no other attachment has.
struct ProgramPlace {
  Result<std::string> cgroup;
  std::string pin;
};

// Whether the kernel has what a redirect needs. Installs nothing.
Outcome<void> check_redirect(RedirectChoice choice);

// Replaces what is installed, of either kind; `table`: the packet filter may have ours, from
// before. The error names the object or the program.
Outcome<Redirect> install_redirect(const bpf::RedirectRules& rules, const ProgramPlace& place,
                                   RedirectChoice choice, bool table);
// Without a cgroup: of the packet filter.
Outcome<bpf::RedirectReading> read_redirect(const bpf::RedirectPlace& place);

// Without the programs of interfaces that the network namespace of the calling thread has no more.
bpf::RedirectReading without_gone_interfaces(bpf::RedirectReading reading);

// Objects of `expected` that are missing or different, and additional ones, in one line. Empty if
// both are equal.
std::string difference(const bpf::RedirectReading& expected, const bpf::RedirectReading& found);

}  // namespace fairlead::cni
