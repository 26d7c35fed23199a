/* Report the client's address and port where an application asks for the address of its peer:
 * accept(2) and getpeername(2), which both come through these hooks (Linux 5.8).
 *
 * A peer's address is replaced only if the entry of its slot was written for this very socket: the
 * generation (IPv4) or both addresses (IPv6), the source port of the proxy's socket and the local
 * port of the application's must match. In every other case the address stays as it is, with one
 * exception: a peer in the proxy's block of loopback addresses whose slot has been used again
 * since. The application then sees its own address, as it would without these programs. Otherwise
 * it could take a client of the network for a process of its own host.
 *
 * Programs of others may be attached too, so every program looks at the address as it is now. Those
 * of another proxy may be ours: its slots are no word on sockets of this proxy. Where one cgroup
 * has several network namespaces, each proxy's programs leave the sockets of the others alone.
 */
#include <linux/bpf.h> /* first: the next one uses its types */

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <stdbool.h>

#include "client_address.h"

#define AF_INET 2
#define AF_INET6 10
#define SOCK_STREAM 1
#define IPPROTO_TCP 6
#define IPV4_MAPPED_PREFIX bpf_htonl(0xffff)
#define IPV4_LOOPBACK_MASK 0xff000000u
#define IPV4_LOOPBACK 0x7f000000u

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(map_flags, BPF_F_MMAPABLE);
  __uint(max_entries, FAIRLEAD_CLIENT_SLOTS);
  __type(key, __u32);
  __type(value, struct fairlead_client_entry);
} client_addrs SEC(".maps");

/* Set before the program is loaded: sockets of other network namespaces are not ours. 0: all are.
 */
const volatile __u64 netns_cookie = 0;

enum verdict { FOREIGN, CLIENT, REPLACED };

struct client {
  __u32 address[4];
  __u16 port;
};

/* Makes the address of the next load depend on `value`: no processor makes that load before the one
 * of `value`. eBPF has no load barrier on the kernels that we support. */
#define LOAD_AFTER(pointer, value)                          \
  ({                                                        \
    __u64 zero = (value);                                   \
    asm volatile("%0 &= 0" : "+r"(zero));                   \
    (pointer) = (typeof(pointer))((char*)(pointer) + zero); \
  })

static __always_inline enum verdict look_up(__u32 slot, __u32 state, __u32 generation,
                                            __u32 peer_port, __u32 local_port,
                                            struct client* client) {
  volatile struct fairlead_client_entry* entry = bpf_map_lookup_elem(&client_addrs, &slot);
  if (!entry) return FOREIGN;
  __u32 tag = entry->tag;
  __u32 source_port = tag >> FAIRLEAD_CLIENT_TAG_PORT_SHIFT;
  if ((tag & FAIRLEAD_CLIENT_TAG_STATE_MASK) == FAIRLEAD_CLIENT_UNUSED) return FOREIGN;
  if (state == FAIRLEAD_CLIENT_IPV4) {
    if (((tag >> FAIRLEAD_CLIENT_TAG_GENERATION_SHIFT) & FAIRLEAD_CLIENT_GENERATION_MASK) !=
        generation)
      return REPLACED;
    if (source_port == 0) source_port = peer_port;
  }
  if ((tag & FAIRLEAD_CLIENT_TAG_STATE_MASK) != state || source_port != peer_port) return FOREIGN;
  LOAD_AFTER(entry, tag);
  client->address[0] = entry->address[0];
  client->address[1] = entry->address[1];
  client->address[2] = entry->address[2];
  client->address[3] = entry->address[3];
  client->port = entry->client_port;
  __u32 application_port = entry->application_port;
  LOAD_AFTER(entry, client->address[0] ^ client->address[1] ^ client->address[2] ^
                        client->address[3] ^ client->port ^ application_port);
  __u32 again = entry->tag;
  /* The source port may have become known meanwhile. */
  __u32 changed = (again ^ tag) & ((1u << FAIRLEAD_CLIENT_TAG_PORT_SHIFT) - 1);
  if (changed != 0) return state == FAIRLEAD_CLIENT_IPV4 ? REPLACED : FOREIGN;
  source_port = again >> FAIRLEAD_CLIENT_TAG_PORT_SHIFT;
  if (source_port != 0 && source_port != peer_port) return FOREIGN;
  if (application_port == local_port) return CLIENT;
  /* A socket that was reset before accept(2) has no port any more. */
  return state == FAIRLEAD_CLIENT_IPV4 && local_port == 0 ? CLIENT : FOREIGN;
}

/* `peer` in network order. */
static __always_inline enum verdict look_up_ipv4(__u32 peer, __u32 peer_port, struct bpf_sock* sk,
                                                 struct client* client) {
  peer = bpf_ntohl(peer);
  if ((peer & FAIRLEAD_CLIENT_BLOCK_MASK) != FAIRLEAD_CLIENT_BLOCK) return FOREIGN;
  enum verdict verdict =
      look_up(peer & ((1u << FAIRLEAD_CLIENT_SLOT_BITS) - 1), FAIRLEAD_CLIENT_IPV4,
              (peer >> FAIRLEAD_CLIENT_SLOT_BITS) & FAIRLEAD_CLIENT_GENERATION_MASK, peer_port,
              sk->src_port, client);
  /* Both ends on loopback: without us, the peer would be on loopback too. */
  if (verdict == REPLACED && (bpf_ntohl(sk->src_ip4) & IPV4_LOOPBACK_MASK) == IPV4_LOOPBACK)
    return FOREIGN;
  return verdict;
}

/* Null for sockets that no Fairlead proxy connects to. */
static __always_inline struct bpf_sock* tcp_socket(struct bpf_sock_addr* ctx) {
  if (ctx->type != SOCK_STREAM || ctx->protocol != IPPROTO_TCP) return 0;
  if (netns_cookie != 0 && bpf_get_netns_cookie(ctx) != netns_cookie) return 0;
  return ctx->sk;
}

SEC("cgroup/getpeername4")
int client_addr4(struct bpf_sock_addr* ctx) {
  struct bpf_sock* sk = tcp_socket(ctx);
  if (!sk) return 1;
  struct client client;
  switch (look_up_ipv4(ctx->user_ip4, bpf_ntohs((__u16)ctx->user_port), sk, &client)) {
    case CLIENT:
      ctx->user_ip4 = client.address[3];
      ctx->user_port = client.port;
      break;
    case REPLACED:
      ctx->user_ip4 = sk->src_ip4;
      break;
    case FOREIGN:
      break;
  }
  return 1;
}

SEC("cgroup/getpeername6")
int client_addr6(struct bpf_sock_addr* ctx) {
  struct bpf_sock* sk = tcp_socket(ctx);
  if (!sk) return 1;
  struct client client;
  __u32 peer[4] = {ctx->user_ip6[0], ctx->user_ip6[1], ctx->user_ip6[2], ctx->user_ip6[3]};
  __u32 peer_port = bpf_ntohs((__u16)ctx->user_port);
  if (peer[0] == 0 && peer[1] == 0 && peer[2] == IPV4_MAPPED_PREFIX) {
    switch (look_up_ipv4(peer[3], peer_port, sk, &client)) {
      case CLIENT:
        ctx->user_ip6[3] = client.address[3];
        ctx->user_port = client.port;
        break;
      case REPLACED:
        ctx->user_ip6[3] = sk->src_ip4;
        break;
      case FOREIGN:
        break;
    }
    return 1;
  }
  if (peer_port < FAIRLEAD_CLIENT_PORT_FIRST) return 1;
  if (peer[0] != sk->src_ip6[0] || peer[1] != sk->src_ip6[1] || peer[2] != sk->src_ip6[2] ||
      peer[3] != sk->src_ip6[3])
    return 1;
  __u32 slot = peer_port - FAIRLEAD_CLIENT_PORT_FIRST + FAIRLEAD_CLIENT_PORT_SLOT_FIRST;
  if (look_up(slot, FAIRLEAD_CLIENT_IPV6, 0, peer_port, sk->src_port, &client) != CLIENT) return 1;
  ctx->user_ip6[0] = client.address[0];
  ctx->user_ip6[1] = client.address[1];
  ctx->user_ip6[2] = client.address[2];
  ctx->user_ip6[3] = client.address[3];
  ctx->user_port = client.port;
  return 1;
}

char _license[] SEC("license") = "Dual BSD/GPL";
