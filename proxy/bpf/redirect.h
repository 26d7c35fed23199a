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
/* Connections of applications that the kernel has not set up yet. That takes some microseconds, but
 * as long as the dial for one that is held. If there are more, the oldest are forgotten; one that
 * is held comes again with its next SYN. */
#define FAIRLEAD_REDIRECT_CONNECTING_MAX 2048
/* Blocks of addresses on the links of the pod. */
#define FAIRLEAD_REDIRECT_SOURCES_MAX 64

/* Where applications reach the sidecar over IPv4. */
#define FAIRLEAD_REDIRECT_LOOPBACK 0x7f400000u
#define FAIRLEAD_REDIRECT_LOOPBACK_MASK 0x3fffffu

/* SYNs that arrive for the sidecar. Each is needed until the kernel has looked for its listening
 * socket, at once; that of a SYN cookie for a round trip more. */
#define FAIRLEAD_REDIRECT_ARRIVING_MAX 1024

/* Destinations of which the sidecar has told something. Beyond the limit, those used least recently
 * are forgotten. */
#define FAIRLEAD_REDIRECT_TOLD_MAX 1024

/* How the sidecar tells: it calls connect(2) for a UDP socket to the destination. The priority of
 * the socket (SO_PRIORITY, which needs no right up to 6) says what; port 0 stands for all
 * destinations. The call fails with EPERM, by which the sidecar knows that it was heard.
 * getsockname(2) of such an IPv4 socket reports the number of connections that were left alone:
 * address and port are its lower 48 bits. */
#define FAIRLEAD_REDIRECT_LEVELS 4  /* priorities 1 to 4: left alone, for longer and longer */
#define FAIRLEAD_REDIRECT_ANSWERS 5 /* has answered a dial lately */
#define FAIRLEAD_REDIRECT_UNKNOWN 6 /* nothing is known of it any more */

/* 5, 30, 180 and 600. */
static inline unsigned int fairlead_direct_seconds(unsigned int level) {
  unsigned int seconds = 5;
  if (level > 1) seconds *= 6;
  if (level > 2) seconds *= 6;
  return level > 3 ? 600 : seconds;
}
#define FAIRLEAD_REDIRECT_ANSWERS_SECONDS 10

/* A connection to a destination that has not answered lately is held: its SYN has an empty option
 * of TCP Fast Open, so the sidecar accepts it at once, while the SYN/ACK is dropped on lo. The
 * priority of the accepted socket is then FAIRLEAD_HELD. The sidecar dials. If that succeeds, it
 * sets the priority to 0, and the next SYN/ACK passes. Otherwise it resets the connection. Before
 * that, it may set another priority, which says how the application's connect(2) fails. */
#define FAIRLEAD_HELD 5
#define FAIRLEAD_HELD_HOST_UNREACHABLE 2 /* EHOSTUNREACH */
#define FAIRLEAD_HELD_NET_UNREACHABLE 3  /* ENETUNREACH */
#define FAIRLEAD_HELD_SILENT 4           /* not by that: the SYN is repeated */

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
