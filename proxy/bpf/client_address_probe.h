// Whether client-address programs see what we write into the map, for sockets of our cgroup. Any
// process can ask, privileged or not.
#pragma once

#include "base/result.h"
#include "base/time.h"
#include "bpf/client_address_map.h"

namespace fairlead::bpf {

// Connects to itself over IPv4, once to an IPv4 and once to an IPv6 socket (left out where the host
// has none), and looks whether accept(2) reports what the entry of FAIRLEAD_CLIENT_PROBE_SLOT says.
// Blocks, for `deadline` at most. Not for two threads of one proxy. Errors: kTimedOut when a packet
// filter swallows the connection, or those of socket calls.
Result<bool> client_address_works(ClientAddressMap& map,
                                  Duration deadline = std::chrono::seconds(1));

// How a socket gets the loopback address that names its slot, before connect(2): the kernel
// chooses the port at connect(2), so that no port is taken from the application.
Result<void> bind_source(int socket, const SocketAddress& source);

}  // namespace fairlead::bpf
