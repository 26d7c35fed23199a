/* Leads connections that arrive for the applications of a pod through its sidecar, without address
 * translation and without connection tracking.
 *
 * The tc program looks at each SYN that arrives on an interface of the pod, and notes those that
 * have the SMC-R option and are for a port where somebody listens. The sk_lookup program, which the
 * kernel asks for the listening socket of a SYN, chooses the sidecar's for a noted one. The
 * accepted socket has the original addresses on both sides. Every other packet is left alone.
 *
 * Two programs are needed, because the second one cannot see packets, and a socket that the first
 * one assigns is refused where an earlier connection of the same addresses has ended (TIME_WAIT).
 */
#include <linux/bpf.h> /* first: the next one uses its types */

#include "redirect_common.bpf.h"
#include "smc_option.h"

#define TCP_HEADER_BYTES 20
#define TCP_HEADER_READ 14    /* ports, numbers, length and flags */
#define HEADERS_BYTES_MAX 138 /* Ethernet with a VLAN, IPv4 with options, TCP with options */
#define TCP_OPTIONS_MAX 40
#define IPV4_FRAGMENT_MASK 0x3fff

/* Set before the programs are loaded. */
const volatile __u16 outbound_port = 0;
const volatile __u16 inbound_port = 0;
const volatile bool ethernet = false; /* all interfaces have such headers */

/* A listening socket of the sidecar, which stands for all that share its port (SO_REUSEPORT). The
 * kernel takes it out when it is closed. */
struct {
  __uint(type, BPF_MAP_TYPE_SOCKMAP);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, __u64);
} sidecar SEC(".maps");

/* SYNs for the sidecar that have arrived lately: the client's address, and both ports. A SYN, one
 * that is repeated, or the ACK of a SYN cookie looks here. */
struct arrival {
  __u32 address[4];
  __u16 from, to; /* host order */
};
struct {
  __uint(type, BPF_MAP_TYPE_LRU_HASH);
  __uint(max_entries, FAIRLEAD_REDIRECT_ARRIVING_MAX);
  __type(key, struct arrival);
  __type(value, __u32);
} arriving SEC(".maps");

struct segment {
  struct bpf_sock_tuple tuple;
  __u32 tuple_bytes;
  __u32 tcp_offset; /* from the beginning of the network header */
  __u16 port;       /* of the destination, host order */
  __u8 header_words;
  __u8 flags;
};

/* False also for bytes that are not in the linear part. */
static __always_inline bool load(struct __sk_buff* skb, __u32 offset, void* to, __u32 bytes) {
  return bpf_skb_load_bytes_relative(skb, offset, to, bytes, BPF_HDR_START_NET) == 0;
}

/* Some devices leave headers in fragments. */
static __always_inline bool pull_headers(struct __sk_buff* skb) {
  __u32 bytes = skb->len < HEADERS_BYTES_MAX ? skb->len : HEADERS_BYTES_MAX;
  return bpf_skb_pull_data(skb, bytes) == 0;
}

/* False for anything but a whole TCP header behind a plain IP header. */
static __always_inline bool read_segment(struct __sk_buff* skb, struct segment* segment) {
  if (skb->protocol == bpf_htons(ETH_P_IP)) {
    struct ipv4 ip;
    if (!load(skb, 0, &ip, sizeof ip) || ip.protocol != IPPROTO_TCP) return false;
    if (ip.fragment & bpf_htons(IPV4_FRAGMENT_MASK)) return false;
    segment->tcp_offset = (ip.version_words & 0xf) * 4u;
    segment->tuple.ipv4.saddr = ip.source;
    segment->tuple.ipv4.daddr = ip.destination;
    segment->tuple_bytes = sizeof segment->tuple.ipv4;
  } else if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
    struct ipv6 ip;
    if (!load(skb, 0, &ip, sizeof ip) || ip.next != IPPROTO_TCP) return false;
    segment->tcp_offset = sizeof ip;
    __builtin_memcpy(segment->tuple.ipv6.saddr, ip.source, sizeof ip.source);
    __builtin_memcpy(segment->tuple.ipv6.daddr, ip.destination, sizeof ip.destination);
    segment->tuple_bytes = sizeof segment->tuple.ipv6;
  } else {
    return false;
  }
  struct tcp tcp;
  if (!load(skb, segment->tcp_offset, &tcp, TCP_HEADER_READ) &&
      !(pull_headers(skb) && load(skb, segment->tcp_offset, &tcp, TCP_HEADER_READ)))
    return false;
  segment->port = bpf_ntohs(tcp.destination);
  segment->header_words = tcp.words >> 4;
  segment->flags = tcp.flags;
  if (segment->tuple_bytes == sizeof segment->tuple.ipv4) {
    segment->tuple.ipv4.sport = tcp.source;
    segment->tuple.ipv4.dport = tcp.destination;
  } else {
    segment->tuple.ipv6.sport = tcp.source;
    segment->tuple.ipv6.dport = tcp.destination;
  }
  return true;
}

/* As the kernel's own SMC does, lengths above six are taken if even. */
static __always_inline bool has_smc_option(struct __sk_buff* skb, const struct segment* segment) {
  __u32 at = segment->tcp_offset + TCP_HEADER_BYTES;
  __u32 end = segment->tcp_offset + segment->header_words * 4u;
  for (int i = 0; i < TCP_OPTIONS_MAX; ++i) {
    __u8 option[FAIRLEAD_TCP_OPTION_BYTES] = {};
    if (at >= end || !load(skb, at, option, 1) || option[0] == 0) return false;
    if (option[0] == 1) { /* NOP */
      ++at;
      continue;
    }
    if (at + 2 > end || !load(skb, at, option, 2) || option[1] < 2) return false;
    if (option[0] == FAIRLEAD_TCP_OPTION_KIND && option[1] >= FAIRLEAD_TCP_OPTION_BYTES &&
        option[1] % 2 == 0 && at + option[1] <= end) {
      if (!load(skb, at, option, sizeof option)) return false;
      if (option[2] == FAIRLEAD_TCP_OPTION_MAGIC_0 && option[3] == FAIRLEAD_TCP_OPTION_MAGIC_1 &&
          option[4] == FAIRLEAD_TCP_OPTION_MAGIC_2 && option[5] == FAIRLEAD_TCP_OPTION_MAGIC_3)
        return true;
    }
    at += option[1];
  }
  return false;
}

/* The listening socket of the pod that takes connections to `port`, to be released. A source port
 * of zero finds no connection, and none that has ended. */
static __always_inline struct bpf_sock* listener_at(struct __sk_buff* skb,
                                                    const struct segment* segment, __u16 port) {
  struct bpf_sock_tuple tuple = segment->tuple;
  struct bpf_sock* socket;
  if (segment->tuple_bytes == sizeof tuple.ipv4) {
    tuple.ipv4.sport = 0;
    tuple.ipv4.dport = bpf_htons(port);
    socket = bpf_sk_lookup_tcp(skb, &tuple, sizeof tuple.ipv4, BPF_F_CURRENT_NETNS, 0);
  } else {
    tuple.ipv6.sport = 0;
    tuple.ipv6.dport = bpf_htons(port);
    socket = bpf_sk_lookup_tcp(skb, &tuple, sizeof tuple.ipv6, BPF_F_CURRENT_NETNS, 0);
  }
  if (!socket) return 0;
  if (socket->state == BPF_TCP_LISTEN) return socket;
  bpf_sk_release(socket);
  return 0;
}

/* Nobody refuses a connection better than the kernel of the pod. */
static __always_inline bool somebody_listens(struct __sk_buff* skb, const struct segment* segment) {
  struct bpf_sock* application = listener_at(skb, segment, segment->port);
  if (!application) return false;
  bpf_sk_release(application);
  return true;
}

static __always_inline bool sidecar_listens(struct __sk_buff* skb, const struct segment* segment) {
  __u32 first = 0;
  struct bpf_sock* known = bpf_map_lookup_elem(&sidecar, &first);
  bool listens = known && known->state == BPF_TCP_LISTEN;
  if (known) bpf_sk_release(known);
  if (listens) return true;
  struct bpf_sock* found = listener_at(skb, segment, inbound_port);
  if (!found) return false;
  bool kept = bpf_map_update_elem(&sidecar, &first, found, BPF_ANY) == 0;
  bpf_sk_release(found);
  return kept;
}

static __always_inline bool is_for_sidecar(struct __sk_buff* skb, const struct segment* segment) {
  if (segment->port == inbound_port || segment->port == outbound_port ||
      has_port(FAIRLEAD_REDIRECT_SKIP_INBOUND, segment->port))
    return false;
  if (!has_port(FAIRLEAD_REDIRECT_INCLUDE_INBOUND, segment->port) && !has_smc_option(skb, segment))
    return false;
  return somebody_listens(skb, segment) && sidecar_listens(skb, segment);
}

static __always_inline void set_arrival(const struct segment* segment, struct arrival* arrival) {
  if (segment->tuple_bytes == sizeof segment->tuple.ipv4) {
    arrival->address[2] = MAPPED_WORD;
    arrival->address[3] = segment->tuple.ipv4.saddr;
    arrival->from = bpf_ntohs(segment->tuple.ipv4.sport);
  } else {
    __builtin_memcpy(arrival->address, segment->tuple.ipv6.saddr, sizeof arrival->address);
    arrival->from = bpf_ntohs(segment->tuple.ipv6.sport);
  }
  arrival->to = segment->port;
}

/* Most packets: TCP that is no SYN, behind headers without options. False where more has to be
 * read. */
static __always_inline bool is_plainly_no_syn(struct __sk_buff* skb) {
  if (!ethernet) return false;
  const void* ip = (const void*)(long)skb->data + ETH_HEADER_BYTES;
  const void* end = (const void*)(long)skb->data_end;
  const struct tcp* tcp;
  if (skb->protocol == bpf_htons(ETH_P_IP)) {
    const struct ipv4* ipv4 = ip;
    tcp = (const void*)(ipv4 + 1);
    if ((const void*)(tcp + 1) > end || ipv4->version_words != IPV4_VERSION_WORDS ||
        ipv4->protocol != IPPROTO_TCP)
      return false;
  } else if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
    const struct ipv6* ipv6 = ip;
    tcp = (const void*)(ipv6 + 1);
    if ((const void*)(tcp + 1) > end || ipv6->next != IPPROTO_TCP) return false;
  } else {
    return false;
  }
  return !(tcp->flags & TCP_SYN);
}

SEC("tc")
int fairlead_syn(struct __sk_buff* skb) {
  if (is_plainly_no_syn(skb)) return TC_ACT_UNSPEC;
  struct segment segment = {};
  if (!read_segment(skb, &segment)) return TC_ACT_UNSPEC;
  if ((segment.flags & (TCP_SYN | TCP_ACK | TCP_RST | TCP_FIN)) != TCP_SYN) return TC_ACT_UNSPEC;
  struct arrival arrival = {};
  set_arrival(&segment, &arrival);
  __u32 present = 1;
  if (is_for_sidecar(skb, &segment))
    bpf_map_update_elem(&arriving, &arrival, &present, BPF_ANY);
  else
    bpf_map_delete_elem(&arriving, &arrival); /* noted when the port was used before */
  return TC_ACT_UNSPEC;
}

/* Connections of the pod to itself arrive on lo, and are noted by nobody but a liar in the network.
 */
static __always_inline bool is_own(struct bpf_sk_lookup* ctx, bool ipv4,
                                   const struct arrival* arrival) {
  __u32 short_address = LOADED(ctx->local_ip4);
  __u32 word0 = LOADED(ctx->local_ip6[0]), word1 = LOADED(ctx->local_ip6[1]);
  __u32 word2 = LOADED(ctx->local_ip6[2]), word3 = LOADED(ctx->local_ip6[3]);
  if (ipv4) return arrival->address[3] == short_address;
  return arrival->address[0] == word0 && arrival->address[1] == word1 &&
         arrival->address[2] == word2 && arrival->address[3] == word3;
}

/* The sidecar's port for the pod's own applications, which reach it over loopback. It would accept
 * each SYN of a stranger that asks for TCP Fast Open. */
static __always_inline bool is_closed(struct bpf_sk_lookup* ctx, bool ipv4) {
  if (ctx->local_port != outbound_port) return false;
  __u32 short_address = LOADED(ctx->local_ip4);
  __u32 word0 = LOADED(ctx->local_ip6[0]), word1 = LOADED(ctx->local_ip6[1]);
  __u32 word2 = LOADED(ctx->local_ip6[2]), word3 = LOADED(ctx->local_ip6[3]);
  if (ipv4) return (short_address & bpf_htonl(0xff000000)) != bpf_htonl(0x7f000000);
  return word0 != 0 || word1 != 0 || word2 != 0 || word3 != bpf_htonl(1);
}

SEC("sk_lookup")
int fairlead_lookup(struct bpf_sk_lookup* ctx) {
  if (ctx->protocol != IPPROTO_TCP) return SK_PASS;
  bool ipv4 = ctx->family == AF_INET;
  if (is_closed(ctx, ipv4)) return SK_DROP; /* the kernel refuses */
  __u32 short_address = LOADED(ctx->remote_ip4);
  __u32 word0 = LOADED(ctx->remote_ip6[0]), word1 = LOADED(ctx->remote_ip6[1]);
  __u32 word2 = LOADED(ctx->remote_ip6[2]), word3 = LOADED(ctx->remote_ip6[3]);
  struct arrival arrival = {.address = {ipv4 ? 0 : word0, ipv4 ? 0 : word1,
                                        ipv4 ? MAPPED_WORD : word2, ipv4 ? short_address : word3}};
  arrival.from = bpf_ntohs(ctx->remote_port);
  arrival.to = (__u16)ctx->local_port;
  if (is_own(ctx, ipv4, &arrival)) return SK_PASS;
  if (!bpf_map_lookup_elem(&arriving, &arrival)) return SK_PASS;
  __u32 first = 0;
  struct bpf_sock* listener = bpf_map_lookup_elem(&sidecar, &first);
  if (!listener) return SK_PASS;
  bpf_sk_assign(ctx, listener, 0);
  bpf_sk_release(listener);
  return SK_PASS;
}

char _license[] SEC("license") = "Dual BSD/GPL";
