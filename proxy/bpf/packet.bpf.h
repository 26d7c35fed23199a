/* Headers of packets, as both tc programs of the redirect read them. For eBPF only, after
 * linux/bpf.h. Numbers are in network order.
 */
#pragma once

#define ETH_P_IP 0x0800
#define ETH_P_IPV6 0x86dd
#define ETH_HEADER_BYTES 14
#define TC_ACT_UNSPEC (-1)
#define IPPROTO_TCP 6
#define IPV4_VERSION_WORDS 0x45 /* without options */
#define TCP_FIN 0x01
#define TCP_SYN 0x02
#define TCP_RST 0x04
#define TCP_ACK 0x10

struct ipv4 {
  __u8 version_words, tos;
  __u16 length, id, fragment;
  __u8 ttl, protocol;
  __u16 checksum;
  __u32 source, destination;
};
struct ipv6 {
  __u32 version;
  __u16 length;
  __u8 next, hops;
  __u32 source[4], destination[4];
};
/* The beginning of the header. */
struct tcp {
  __u16 source, destination;
  __u32 sequence, acknowledged;
  __u8 words, flags;
};
