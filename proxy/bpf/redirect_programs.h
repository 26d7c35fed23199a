// The eBPF programs that lead a pod's connections through its sidecar (redirect_connect.bpf.c,
// redirect_arrival.bpf.c): attached to
// the pod's cgroup and to its interfaces, without address translation and without connection
// tracking. For the node side; the sidecar only calls getsockname(2).
// The sidecar listens on all addresses of both families.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/node_annotations.h"
#include "base/result.h"
#include "bpf/redirect.h"
#include "bpf/refusal.h"

namespace fairlead::bpf {

// What is redirected. Lists that are empty have no effect.
struct RedirectRules {
  uid_t proxy_uid = 0;  // as the initial user namespace sees it
  std::uint16_t outbound_port = 0;
  std::uint16_t inbound_port = 0;
  // The pod's own. The first one of each family is the main one; a family without is not
  // redirected.
  std::vector<SocketAddress> addresses;
  std::vector<kubernetes::PortRange> skip_outbound, skip_inbound;
  // Connections to these ports go through the sidecar without the SMC-R option too.
  std::vector<kubernetes::PortRange> include_inbound;
  // Destinations: those of `include` that are not in `skip`.
  std::vector<Cidr> skip, include;
};

// Where the programs of a pod are attached, beside the network namespace of the calling thread.
struct RedirectPlace {
  std::string cgroup;  // a cgroup v2 directory
  // Name of a link that is pinned below /sys/fs/bpf/fairlead. No two pods have the same.
  std::string pin;
};

// One line for each attached program, with the kernel's number of it: "program fairlead_conn4 17".
// A number is not used again before the next boot. The program of an interface has its name, as in
// "program fairlead_syn/eth0 18". The order is stable.
using RedirectReading = std::vector<std::string>;

// Whether the node has what the programs need, but for the pod's cgroup.
Result<void> check_redirect_programs();

// Attaches the programs to the cgroup, to the network namespace of the calling thread, and to the
// interfaces that it has now, lo excepted. They stay until detach_redirect_programs(), or until
// cgroup and namespace are gone. Programs of an earlier call are replaced. What is attached
// half-way redirects nothing outbound: the programs at connect(2) come last. Errors: kExhausted for
// too many blocks of addresses; no cgroup2 hierarchy or no file system of eBPF (kNotFound),
// capabilities missing (kPermission), a kernel that does not know a hook, or a pod with users of
// its own (kUnsupported). refusal() has libbpf's own words. Sets libbpf's process-wide log
// function.
Result<RedirectReading> attach_redirect_programs(const RedirectPlace& place,
                                                 const RedirectRules& rules);

// What is attached. Empty if nothing is.
Result<RedirectReading> read_redirect_programs(const RedirectPlace& place);

// A cgroup that is gone, or has no such program, is no error.
Result<void> detach_redirect_programs(const RedirectPlace& place);
// Its two halves: what needs no network namespace, which may be gone, and the interfaces of the
// calling thread's.
Result<void> detach_redirect_programs_outside(const RedirectPlace& place);
Result<void> detach_redirect_filters();

// Removes pins of pods that ended without detach_redirect_programs().
void remove_dead_pins();

}  // namespace fairlead::bpf
