/* What the redirect programs and their C++ side must agree on. Plain C: clang compiles it for eBPF,
 * g++ for the node side.
 */
#pragma once

/* Blocks of addresses in each of the two lists. */
#define FAIRLEAD_REDIRECT_BLOCKS_MAX 512
/* One bit for each port, in words of 64. */
#define FAIRLEAD_REDIRECT_PORT_WORDS 1024
/* Calls of connect(2) at the same moment. */
#define FAIRLEAD_REDIRECT_PENDING_MAX 1024
/* Connections of the application that the kernel has not set up yet. Usually they stay for a few
 * microseconds, but longer where the sidecar accepts none. */
#define FAIRLEAD_REDIRECT_CONNECTING_MAX 4096
/* Blocks of addresses on the links of the pod. */
#define FAIRLEAD_REDIRECT_SOURCES_MAX 64

/* Where applications reach the sidecar over IPv4. */
#define FAIRLEAD_REDIRECT_LOOPBACK 0x7f400000u
#define FAIRLEAD_REDIRECT_LOOPBACK_MASK 0x3fffffu

/* SYNs that arrive for the sidecar. Each is needed until the kernel has looked for its listening
 * socket, at once; that of a SYN cookie for a round trip more. */
#define FAIRLEAD_REDIRECT_ARRIVING_MAX 1024

/* Lists of ports in the map of ports. */
#define FAIRLEAD_REDIRECT_SKIP_OUTBOUND 0
#define FAIRLEAD_REDIRECT_SKIP_INBOUND 1
#define FAIRLEAD_REDIRECT_INCLUDE_INBOUND 2
#define FAIRLEAD_REDIRECT_PORT_LISTS 3

/* Key of a list of blocks. IPv4 is ::ffff:a.b.c.d, so its prefix is longer by 96. */
struct fairlead_block {
  unsigned int prefix_length;
  unsigned int address[4]; /* network order */
};
