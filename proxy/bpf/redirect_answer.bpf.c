/* Lets a held connection of an application (redirect.h) be answered as the sidecar's dial was.
 *
 * The tc program looks at what the sidecar sends to applications on lo. A SYN/ACK of a connection
 * whose dial is under way is dropped. A reset says by the priority of its socket how the dial has
 * failed. Where ICMP would have told the application so, the reset is replaced by such a message of
 * ICMP. The kernel checks no checksum of what it has sent to itself.
 */
#include <linux/bpf.h> /* first: the next one uses its types */

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <stdbool.h>

#include "packet.bpf.h"
#include "redirect.h"

#define TC_ACT_SHOT 2
#define IPPROTO_ICMP 1
#define IPPROTO_ICMPV6 58
#define ICMP_UNREACHABLE 3
#define ICMP_UNREACHABLE_NET 0
#define ICMP_UNREACHABLE_HOST 1
#define ICMPV6_UNREACHABLE 1
#define ICMPV6_UNREACHABLE_ROUTE 0
#define ICMPV6_UNREACHABLE_ADDRESS 3

/* Set before the program is loaded. */
const volatile __u16 outbound_port = 0;

/* What ICMP quotes of TCP. */
struct quoted_tcp {
  __u16 source, destination;
  __u32 sequence;
};
struct icmp {
  __u8 type, code;
  __u16 checksum;
  __u32 unused;
};
struct unreachable4 {
  struct ipv4 ip;
  struct icmp icmp;
  struct ipv4 quoted_ip;
  struct quoted_tcp quoted;
};
struct unreachable6 {
  struct ipv6 ip;
  struct icmp icmp;
  struct ipv6 quoted_ip;
  struct quoted_tcp quoted;
};

static __always_inline bool load(struct __sk_buff* skb, __u32 offset, void* to, __u32 bytes) {
  return bpf_skb_load_bytes(skb, ETH_HEADER_BYTES + offset, to, bytes) == 0;
}

static __always_inline void replace(struct __sk_buff* skb, const void* message, __u32 bytes) {
  if (bpf_skb_change_tail(skb, ETH_HEADER_BYTES + bytes, 0) == 0)
    bpf_skb_store_bytes(skb, ETH_HEADER_BYTES, message, bytes, BPF_F_INVALIDATE_HASH);
}

/* The SYN that the reset answers. */
static __always_inline struct quoted_tcp quote(const struct tcp* reset) {
  struct quoted_tcp quoted = {reset->destination, reset->source,
                              bpf_htonl(bpf_ntohl(reset->acknowledged) - 1)};
  return quoted;
}

static __always_inline __u16 checksum_of(struct ipv4* ip) {
  ip->checksum = 0;
  __s64 sum = bpf_csum_diff(0, 0, (__be32*)ip, sizeof *ip, 0);
  sum = (sum & 0xffff) + (sum >> 16);
  sum = (sum & 0xffff) + (sum >> 16);
  return (__u16)~sum;
}

static __always_inline int reject4(struct __sk_buff* skb, const struct ipv4* ip,
                                   const struct tcp* reset, bool host) {
  struct unreachable4 message = {.ip = *ip, .quoted_ip = *ip, .quoted = quote(reset)};
  message.ip.protocol = IPPROTO_ICMP;
  message.ip.length = bpf_htons(sizeof message);
  message.ip.checksum = checksum_of(&message.ip);
  message.icmp.type = ICMP_UNREACHABLE;
  message.icmp.code = host ? ICMP_UNREACHABLE_HOST : ICMP_UNREACHABLE_NET;
  message.quoted_ip.source = ip->destination;
  message.quoted_ip.destination = ip->source;
  replace(skb, &message, sizeof message);
  return TC_ACT_UNSPEC;
}

static __always_inline int reject6(struct __sk_buff* skb, const struct ipv6* ip,
                                   const struct tcp* reset, bool host) {
  struct unreachable6 message = {.ip = *ip, .quoted_ip = *ip, .quoted = quote(reset)};
  message.ip.next = IPPROTO_ICMPV6;
  message.ip.length = bpf_htons(sizeof message - sizeof message.ip);
  message.icmp.type = ICMPV6_UNREACHABLE;
  message.icmp.code = host ? ICMPV6_UNREACHABLE_ADDRESS : ICMPV6_UNREACHABLE_ROUTE;
  __builtin_memcpy(message.quoted_ip.source, ip->destination, sizeof ip->destination);
  __builtin_memcpy(message.quoted_ip.destination, ip->source, sizeof ip->source);
  replace(skb, &message, sizeof message);
  return TC_ACT_UNSPEC;
}

SEC("tc")
int fairlead_answer(struct __sk_buff* skb) {
  __u32 priority = skb->priority;
  if (priority < FAIRLEAD_HELD_HOST_UNREACHABLE || priority > FAIRLEAD_HELD) return TC_ACT_UNSPEC;
  bool is_ipv4 = skb->protocol == bpf_htons(ETH_P_IP);
  if (!is_ipv4 && skb->protocol != bpf_htons(ETH_P_IPV6)) return TC_ACT_UNSPEC;
  struct ipv4 ip4;
  struct ipv6 ip6;
  struct tcp tcp;
  if (is_ipv4) {
    if (!load(skb, 0, &ip4, sizeof ip4) || ip4.protocol != IPPROTO_TCP ||
        ip4.version_words != IPV4_VERSION_WORDS || !load(skb, sizeof ip4, &tcp, sizeof tcp))
      return TC_ACT_UNSPEC;
  } else {
    if (!load(skb, 0, &ip6, sizeof ip6) || ip6.next != IPPROTO_TCP ||
        !load(skb, sizeof ip6, &tcp, sizeof tcp))
      return TC_ACT_UNSPEC;
  }
  if (tcp.source != bpf_htons(outbound_port)) return TC_ACT_UNSPEC;
  if (tcp.flags & TCP_SYN) return TC_ACT_SHOT; /* also between the failure and the reset */
  if (!(tcp.flags & TCP_RST) || priority == FAIRLEAD_HELD) return TC_ACT_UNSPEC;
  if (priority == FAIRLEAD_HELD_SILENT) return TC_ACT_SHOT;
  bool host = priority == FAIRLEAD_HELD_HOST_UNREACHABLE;
  return is_ipv4 ? reject4(skb, &ip4, &tcp, host) : reject6(skb, &ip6, &tcp, host);
}

char _license[] SEC("license") = "Dual BSD/GPL";
