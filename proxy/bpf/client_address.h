/* What the client-address programs and the proxy must agree on. Plain C: clang compiles it for
 * eBPF, g++ for the proxy.
 *
 * The map is an array of FAIRLEAD_CLIENT_SLOTS entries. The proxy writes an entry before it
 * connects to the application; the programs read it when the application asks for the address of
 * its peer. A socket names its slot in one of two ways:
 *
 *   IPv4  by the source address of the proxy's socket: 127.128.0.0/9, of whose 23 bits the lower 13
 *         are the slot and the upper 10 its generation, which changes whenever the slot is used
 *   IPv6  by the source port of the proxy's socket: 61440 and above, for the last 4096 slots
 */
#pragma once

/* 7168 entries of 24 bytes, both programs and their types: less than 200 KiB of kernel memory. */
#define FAIRLEAD_CLIENT_SLOTS 7168
#define FAIRLEAD_CLIENT_SLOT_BITS 13
/* The proxy's own test uses this slot; no connection does. */
#define FAIRLEAD_CLIENT_PROBE_SLOT 0

/* IPv4. The last generation is not used: it holds the broadcast address of 127.0.0.0/8. */
#define FAIRLEAD_CLIENT_BLOCK 0x7f800000u
#define FAIRLEAD_CLIENT_BLOCK_MASK 0xff800000u
#define FAIRLEAD_CLIENT_GENERATIONS 1023
#define FAIRLEAD_CLIENT_GENERATION_MASK 0x3ffu

/* IPv6. Above the ephemeral ports of Linux, so the application's connections keep theirs. */
#define FAIRLEAD_CLIENT_PORT_FIRST 61440
#define FAIRLEAD_CLIENT_PORT_SLOT_FIRST 3072

/* The tag of an entry: source port of the proxy's socket (16 bits, 0: not known yet, IPv4 only),
 * generation (10 bits), state (2 bits). */
#define FAIRLEAD_CLIENT_TAG_PORT_SHIFT 16
#define FAIRLEAD_CLIENT_TAG_GENERATION_SHIFT 2
#define FAIRLEAD_CLIENT_TAG_STATE_MASK 3u
#define FAIRLEAD_CLIENT_UNUSED 0u  /* never written */
#define FAIRLEAD_CLIENT_IPV4 1u    /* the proxy connects over IPv4 */
#define FAIRLEAD_CLIENT_IPV6 2u    /* the proxy connects over IPv6 */
#define FAIRLEAD_CLIENT_WRITING 3u /* the other fields change; the generation is the new one */

/* Only the proxy writes. Order: the tag with state WRITING, the other fields, the tag. */
struct fairlead_client_entry {
  unsigned int address[4];         /* the client's, network order; IPv4 as ::ffff:a.b.c.d */
  unsigned short client_port;      /* network order */
  unsigned short application_port; /* local port of the application's socket, host order */
  unsigned int tag;
};
