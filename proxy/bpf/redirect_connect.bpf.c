/* Leads connections that the applications of a pod open through its sidecar, without address
 * translation and without connection tracking.
 *
 * An application calls connect(2). The connect programs replace the destination by the sidecar's
 * port on a loopback address. They keep the original destination until the kernel has chosen the
 * source port; then the sockops program keeps it in the storage of the socket. When the connection
 * is set up, the sockops program copies it to the socket that the sidecar accepts. So
 * getpeername(2) of the application and getsockname(2) of the sidecar report the original
 * destination. getsockname(2) of the application reports an address of the pod.
 *
 * The loopback address of IPv4 depends on the destination, so that the source ports of the pod
 * suffice for each destination, as they do without a redirect. IPv6 has one loopback address only.
 *
 * The sidecar's own sockets are known by its uid. Connections to the pod itself are left alone, and
 * so are those to destinations of which the sidecar has told that (redirect.h says how).
 */
#include <linux/bpf.h> /* first: the next one uses its types */

#include "redirect_common.bpf.h"

#define SOCK_STREAM 1
#define SOCK_DGRAM 2
#define SOL_SOCKET 1
#define SO_PRIORITY 12
#define SOL_TCP 6
#define TCP_SYNCNT 7
#define TCP_SYN_RETRIES_USUAL 6
#define TCP_FAST_OPEN_KIND 34
#define TCP_FAST_OPEN_BYTES 2
#define NANOSECONDS_PER_SECOND 1000000000ull

/* Set before the programs are loaded. `own_address` is the pod's main address of each family that
 * it has, IPv4 first, as ::ffff:a.b.c.d. */
const volatile __u32 proxy_uid = 0;
const volatile __u16 outbound_port = 0;
const volatile bool has_family[2] = {};
const volatile __u32 own_address[2][4] = {};
/* Sockets of other network namespaces are not ours. 0: all are. */
const volatile __u64 netns_cookie = 0;
/* Of held connections: how long until the first SYN is repeated, in jiffies, and how often it is,
 * so that connect(2) takes as long as without a redirect. */
const volatile __u32 held_timeout = 1;
const volatile __u32 held_retries = 14;

/* IPv4 as ::ffff:a.b.c.d. Network order. */
struct endpoint {
  __u32 address[4];
  __u32 port;
};

enum role { APPLICATION = 1, SIDECAR = 2 };
struct original {
  struct endpoint to;
  __u16 role; /* whose socket it is in */
  __u8 bound; /* the application has chosen its address itself */
  __u8 held;  /* the sidecar is to dial before the application is connected */
};

/* Within one call of connect(2), from the cookie of the socket. A call that fails early leaves its
 * entry, so old ones are replaced. */
struct {
  __uint(type, BPF_MAP_TYPE_LRU_HASH);
  __uint(max_entries, FAIRLEAD_REDIRECT_PENDING_MAX);
  __type(key, __u64);
  __type(value, struct original);
} pending SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_SK_STORAGE);
  __uint(map_flags, BPF_F_NO_PREALLOC);
  __type(key, int);
  __type(value, struct original);
} originals SEC(".maps");

/* Both ends of a connection between an application and the sidecar. The sidecar's port is always
 * the same, and of its address the last word tells: two connections of an application may have one
 * source port. */
struct pair {
  __u32 application[4];
  __u32 port; /* of the application, host order */
  __u32 sidecar;
};

/* Destinations of connections that the kernel sets up, until the sidecar's socket exists and the
 * application is connected, or the connection has failed. */
struct {
  __uint(type, BPF_MAP_TYPE_LRU_HASH);
  __uint(max_entries, FAIRLEAD_REDIRECT_CONNECTING_MAX);
  __type(key, struct pair);
  __type(value, struct endpoint);
} connecting SEC(".maps");

struct blocks {
  __uint(type, BPF_MAP_TYPE_LPM_TRIE);
  __uint(max_entries, FAIRLEAD_REDIRECT_BLOCKS_MAX);
  __uint(map_flags, BPF_F_NO_PREALLOC);
  __type(key, struct fairlead_block);
  __type(value, __u32);
};
struct blocks skipped SEC(".maps");
struct blocks included SEC(".maps");

/* The pod's address on the link that has a block of addresses. */
struct source {
  __u32 address[4];
};
struct {
  __uint(type, BPF_MAP_TYPE_LPM_TRIE);
  __uint(max_entries, FAIRLEAD_REDIRECT_SOURCES_MAX);
  __uint(map_flags, BPF_F_NO_PREALLOC);
  __type(key, struct fairlead_block);
  __type(value, struct source);
} sources SEC(".maps");

/* What the sidecar has told of a destination. */
struct told {
  __u64 until; /* as bpf_ktime_get_ns() */
  __u32 epoch;
  __u32 direct; /* the destination is left alone; else it has answered */
};
struct {
  __uint(type, BPF_MAP_TYPE_LRU_HASH);
  __uint(max_entries, FAIRLEAD_REDIRECT_TOLD_MAX);
  __type(key, struct endpoint);
  __type(value, struct told);
} told SEC(".maps");

/* Entries of another epoch have no effect. */
volatile __u32 told_epoch = 0;
__u64 direct_connections = 0;

static __always_inline bool is_mapped(const __u32* address) {
  return address[0] == 0 && address[1] == 0 && address[2] == MAPPED_WORD;
}

enum knowledge { UNKNOWN, ANSWERS, DIRECT };

static __always_inline enum knowledge known_of(const struct endpoint* to) {
  struct told* entry = bpf_map_lookup_elem(&told, to);
  if (!entry || entry->epoch != told_epoch || entry->until < bpf_ktime_get_ns()) return UNKNOWN;
  return entry->direct ? DIRECT : ANSWERS;
}

/* `port` in network order. */
static __always_inline bool leads_to_sidecar(struct bpf_sock_addr* ctx, struct bpf_sock* socket,
                                             const struct endpoint* to, enum knowledge* knowledge) {
  __u16 port = bpf_ntohs((__u16)to->port);
  if (netns_cookie != 0 && bpf_get_netns_cookie(ctx) != netns_cookie) return false;
  if (!has_family[is_mapped(to->address) ? 0 : 1]) return false;
  /* The sidecar answers on lo, which a socket of another device does not hear. */
  if (socket->bound_dev_if != 0) return false;
  /* A connection to this port could not be told from one to the sidecar's listener itself. */
  if (port == 0 || port == outbound_port || has_port(FAIRLEAD_REDIRECT_SKIP_OUTBOUND, port))
    return false;
  *knowledge = known_of(to);
  if (*knowledge == DIRECT) {
    __sync_fetch_and_add(&direct_connections, 1);
    return false;
  }
  struct fairlead_block block = {128,
                                 {to->address[0], to->address[1], to->address[2], to->address[3]}};
  if (bpf_map_lookup_elem(&skipped, &block)) return false;
  return bpf_map_lookup_elem(&included, &block) != 0;
}

/* What a UDP socket of the sidecar says, 0 for nothing. */
static __always_inline __u32 word_of(struct bpf_sock_addr* ctx) {
  struct bpf_sock* socket = ctx->sk;
  if (ctx->type != SOCK_DGRAM || !socket) return 0;
  __u32 word = socket->priority;
  return word <= FAIRLEAD_REDIRECT_UNKNOWN ? word : 0;
}

/* Notes what the sidecar says of a destination. False if it says nothing. */
static __always_inline bool hear(struct bpf_sock_addr* ctx, const struct endpoint* to) {
  __u32 word = word_of(ctx);
  if (word == 0) return false;
  if (to->port == 0) {
    ++told_epoch;
  } else if (word == FAIRLEAD_REDIRECT_UNKNOWN) {
    bpf_map_delete_elem(&told, to);
  } else {
    __u32 seconds = word == FAIRLEAD_REDIRECT_ANSWERS ? FAIRLEAD_REDIRECT_ANSWERS_SECONDS
                                                      : fairlead_direct_seconds(word);
    struct told entry = {.until = bpf_ktime_get_ns() + seconds * NANOSECONDS_PER_SECOND,
                         .epoch = told_epoch,
                         .direct = word != FAIRLEAD_REDIRECT_ANSWERS};
    bpf_map_update_elem(&told, to, &entry, BPF_ANY);
  }
  return true;
}

/* A socket may be connected again, after a failure, to a destination that is left alone. */
static __always_inline void forget(struct bpf_sock_addr* ctx, struct bpf_sock* socket) {
  __u64 cookie = bpf_get_socket_cookie(ctx);
  /* Looking is cheaper than deleting, and nearly always nothing is there. */
  if (bpf_map_lookup_elem(&pending, &cookie)) bpf_map_delete_elem(&pending, &cookie);
  if (bpf_sk_storage_get(&originals, socket, 0, 0)) bpf_sk_storage_delete(&originals, socket);
}

static __always_inline bool keep(struct bpf_sock_addr* ctx, struct bpf_sock* socket,
                                 const struct endpoint* to, enum knowledge knowledge) {
  __u64 cookie = bpf_get_socket_cookie(ctx);
  struct original original = {.to = *to, .role = APPLICATION, .held = knowledge != ANSWERS};
  original.bound = socket->src_ip4 != 0 || socket->src_ip6[0] != 0 || socket->src_ip6[1] != 0 ||
                   socket->src_ip6[3] != 0;
  bpf_sk_storage_delete(&originals, socket);
  return bpf_map_update_elem(&pending, &cookie, &original, BPF_ANY) == 0;
}

/* 127.64.0.0/10: the sidecar itself connects to applications from 127.128.0.0/9. */
static __always_inline __u32 loopback_for(const struct endpoint* to) {
  __u32 mixed = to->address[3] * 2654435761u ^ to->port * 2246822519u;
  mixed ^= mixed >> 15;
  return bpf_htonl(FAIRLEAD_REDIRECT_LOOPBACK | (mixed & FAIRLEAD_REDIRECT_LOOPBACK_MASK));
}

static __always_inline struct bpf_sock* tcp_socket(struct bpf_sock_addr* ctx) {
  return ctx->type == SOCK_STREAM && ctx->protocol == IPPROTO_TCP ? ctx->sk : 0;
}

static __always_inline bool is_sidecar(void) {
  return (__u32)bpf_get_current_uid_gid() == proxy_uid;
}

SEC("cgroup/connect4")
int fairlead_conn4(struct bpf_sock_addr* ctx) {
  struct endpoint to = {{0, 0, MAPPED_WORD, ctx->user_ip4}, (__u16)ctx->user_port};
  if (is_sidecar()) return hear(ctx, &to) ? 0 : 1;
  struct bpf_sock* socket = tcp_socket(ctx);
  if (!socket) return 1;
  enum knowledge knowledge = UNKNOWN;
  if (!leads_to_sidecar(ctx, socket, &to, &knowledge)) {
    forget(ctx, socket);
    return 1;
  }
  if (!keep(ctx, socket, &to, knowledge)) return 1;
  ctx->user_ip4 = loopback_for(&to);
  ctx->user_port = bpf_htons(outbound_port);
  return 1;
}

SEC("cgroup/connect6")
int fairlead_conn6(struct bpf_sock_addr* ctx) {
  struct endpoint to = {{ctx->user_ip6[0], ctx->user_ip6[1], ctx->user_ip6[2], ctx->user_ip6[3]},
                        (__u16)ctx->user_port};
  if (is_sidecar()) return hear(ctx, &to) ? 0 : 1;
  struct bpf_sock* socket = tcp_socket(ctx);
  if (!socket) return 1;
  enum knowledge knowledge = UNKNOWN;
  if (!leads_to_sidecar(ctx, socket, &to, &knowledge)) {
    forget(ctx, socket);
    return 1;
  }
  if (!keep(ctx, socket, &to, knowledge)) return 1;
  if (is_mapped(to.address)) {
    ctx->user_ip6[3] = loopback_for(&to);
  } else {
    ctx->user_ip6[0] = 0;
    ctx->user_ip6[1] = 0;
    ctx->user_ip6[2] = 0;
    ctx->user_ip6[3] = bpf_htonl(1);
  }
  ctx->user_port = bpf_htons(outbound_port);
  return 1;
}

static __always_inline struct original* original_of(struct bpf_sock_addr* ctx) {
  struct bpf_sock* socket = tcp_socket(ctx);
  return socket ? bpf_sk_storage_get(&originals, socket, 0, 0) : 0;
}

/* Whether the socket is an application's that has an original destination. */
static __always_inline bool peer_name(struct bpf_sock_addr* ctx, struct endpoint* name) {
  struct original* original = original_of(ctx);
  if (!original || original->role != APPLICATION) return false;
  *name = original->to;
  return true;
}

/* What the kernel would have chosen: the address on the link of the destination, or the main one.
 * Routes over the gateway of another link are not known here. */
static __always_inline void own_source(const struct endpoint* to, __u32* address) {
  struct fairlead_block block = {128,
                                 {to->address[0], to->address[1], to->address[2], to->address[3]}};
  struct source* known = bpf_map_lookup_elem(&sources, &block);
  __u32 family = is_mapped(to->address) ? 0 : 1;
  for (int i = 0; i < 4; ++i) address[i] = known ? known->address[i] : own_address[family][i];
}

/* False where the name is as the kernel has it: the application has bound it, or there is no
 * original destination. */
static __always_inline bool own_name(struct bpf_sock_addr* ctx, struct endpoint* name) {
  struct original* original = original_of(ctx);
  if (!original || (original->role == APPLICATION && original->bound)) return false;
  if (original->role == SIDECAR) {
    *name = original->to;
  } else {
    own_source(&original->to, name->address);
    name->port = LOADED(ctx->user_port);
  }
  return true;
}

static __always_inline void set_name4(struct bpf_sock_addr* ctx, const struct endpoint* name) {
  ctx->user_ip4 = name->address[3];
  ctx->user_port = name->port;
}

static __always_inline void set_name6(struct bpf_sock_addr* ctx, const struct endpoint* name) {
  ctx->user_ip6[0] = name->address[0];
  ctx->user_ip6[1] = name->address[1];
  ctx->user_ip6[2] = name->address[2];
  ctx->user_ip6[3] = name->address[3];
  ctx->user_port = name->port;
}

SEC("cgroup/getpeername4")
int fairlead_peer4(struct bpf_sock_addr* ctx) {
  struct endpoint name;
  if (peer_name(ctx, &name)) set_name4(ctx, &name);
  return 1;
}

SEC("cgroup/getpeername6")
int fairlead_peer6(struct bpf_sock_addr* ctx) {
  struct endpoint name;
  if (peer_name(ctx, &name)) set_name6(ctx, &name);
  return 1;
}

SEC("cgroup/getsockname4")
int fairlead_name4(struct bpf_sock_addr* ctx) {
  struct endpoint name;
  if (is_sidecar() && word_of(ctx) != 0) {
    __u64 count = direct_connections;
    ctx->user_ip4 = (__u32)count;
    ctx->user_port = (__u16)(count >> 32);
    return 1;
  }
  if (own_name(ctx, &name)) set_name4(ctx, &name);
  return 1;
}

SEC("cgroup/getsockname6")
int fairlead_name6(struct bpf_sock_addr* ctx) {
  struct endpoint name;
  if (own_name(ctx, &name)) set_name6(ctx, &name);
  return 1;
}

/* `role`: whose end of the connection `ops` is. */
static __always_inline void set_pair(struct bpf_sock_ops* ops, enum role role, struct pair* pair) {
  bool ipv4 = ops->family == AF_INET;
  __u32 local4 = LOADED(ops->local_ip4), remote4 = LOADED(ops->remote_ip4);
  __u32 local[4] = {LOADED(ops->local_ip6[0]), LOADED(ops->local_ip6[1]), LOADED(ops->local_ip6[2]),
                    LOADED(ops->local_ip6[3])};
  __u32 remote[4] = {LOADED(ops->remote_ip6[0]), LOADED(ops->remote_ip6[1]),
                     LOADED(ops->remote_ip6[2]), LOADED(ops->remote_ip6[3])};
  if (ipv4) {
    local[0] = local[1] = remote[0] = remote[1] = 0;
    local[2] = remote[2] = MAPPED_WORD;
    local[3] = local4;
    remote[3] = remote4;
  }
  bool near = role == APPLICATION;
  for (int i = 0; i < 4; ++i) pair->application[i] = near ? local[i] : remote[i];
  pair->sidecar = near ? remote[3] : local[3];
  pair->port = near ? ops->local_port : bpf_ntohl(ops->remote_port);
}

/* The source port is known now. */
static __always_inline void begin_connection(struct bpf_sock_ops* ops) {
  __u64 cookie = bpf_get_socket_cookie(ops);
  struct original* kept = bpf_map_lookup_elem(&pending, &cookie);
  struct bpf_sock* socket = ops->sk;
  if (!kept || !socket) return;
  struct original* original =
      bpf_sk_storage_get(&originals, socket, 0, BPF_SK_STORAGE_GET_F_CREATE);
  if (original) *original = *kept;
  struct pair pair = {};
  set_pair(ops, APPLICATION, &pair);
  bpf_map_update_elem(&connecting, &pair, &kept->to, BPF_ANY);
  bool held = kept->held;
  bpf_map_delete_elem(&pending, &cookie);
  /* To hear of its failure. */
  __u32 wanted = BPF_SOCK_OPS_STATE_CB_FLAG;
  if (held) {
    int retries = (int)held_retries;
    bpf_setsockopt(ops, SOL_TCP, TCP_SYNCNT, &retries, sizeof retries);
    wanted |= BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG;
  }
  bpf_sock_ops_cb_flags_set(ops, ops->bpf_sock_ops_cb_flags | wanted);
}

/* The destination of a held connection of an application, null for others. */
static __always_inline struct original* held_of(struct bpf_sock_ops* ops) {
  struct bpf_sock* socket = ops->sk;
  if (!socket || bpf_ntohl(ops->remote_port) != outbound_port) return 0;
  struct original* original = bpf_sk_storage_get(&originals, socket, 0, 0);
  return original && original->held ? original : 0;
}

/* For the next connect(2) of the socket. The kernel does not tell what it was before. */
static __always_inline void restore_retries(struct bpf_sock_ops* ops) {
  int retries = TCP_SYN_RETRIES_USUAL;
  if (held_of(ops)) bpf_setsockopt(ops, SOL_TCP, TCP_SYNCNT, &retries, sizeof retries);
}

static __always_inline void end_callbacks(struct bpf_sock_ops* ops) {
  __u32 wanted = BPF_SOCK_OPS_STATE_CB_FLAG | BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG;
  bpf_sock_ops_cb_flags_set(ops, ops->bpf_sock_ops_cb_flags & ~wanted);
}

/* A SYN/ACK that is dropped must be repeated soon, and so must the SYN that asks for it. */
static __always_inline bool repeats_soon(struct bpf_sock_ops* ops) {
  return ops->local_port == outbound_port || held_of(ops);
}

static __always_inline void reserve_option(struct bpf_sock_ops* ops) {
  if ((ops->skb_tcp_flags & TCP_SYN) && held_of(ops))
    bpf_reserve_hdr_opt(ops, TCP_FAST_OPEN_BYTES, 0);
}

/* Asks for a cookie of TCP Fast Open. The sidecar's listener wants none, and accepts. A SYN that is
 * repeated needs its destination as long as the first one, which others may have replaced. */
static __always_inline void write_option(struct bpf_sock_ops* ops) {
  struct original* original = (ops->skb_tcp_flags & TCP_SYN) ? held_of(ops) : 0;
  if (!original) return;
  __u8 option[TCP_FAST_OPEN_BYTES] = {TCP_FAST_OPEN_KIND, TCP_FAST_OPEN_BYTES};
  bpf_store_hdr_opt(ops, option, sizeof option, 0);
  struct pair pair = {};
  set_pair(ops, APPLICATION, &pair);
  struct endpoint to = original->to;
  bpf_map_update_elem(&connecting, &pair, &to, BPF_ANY);
}

/* A failed socket needs no memory, however many of them an application keeps. */
static __always_inline void fail_connection(struct bpf_sock_ops* ops) {
  struct bpf_sock* socket = ops->sk;
  if (!socket || !bpf_sk_storage_get(&originals, socket, 0, 0)) return;
  struct pair pair = {};
  set_pair(ops, APPLICATION, &pair);
  bpf_map_delete_elem(&connecting, &pair);
  restore_retries(ops);
  bpf_sk_storage_delete(&originals, socket);
}

static __always_inline void accept_connection(struct bpf_sock_ops* ops) {
  struct bpf_sock* socket = ops->sk;
  struct pair pair = {};
  set_pair(ops, SIDECAR, &pair);
  struct endpoint* to = bpf_map_lookup_elem(&connecting, &pair);
  if (!to || !socket) return;
  struct original* original =
      bpf_sk_storage_get(&originals, socket, 0, BPF_SK_STORAGE_GET_F_CREATE);
  if (original) {
    original->to = *to;
    original->role = SIDECAR;
  }
  if (!(ops->skb_tcp_flags & TCP_SYN)) {
    bpf_map_delete_elem(&connecting, &pair);
    return;
  }
  /* By TCP Fast Open: the application is not connected yet, and its SYN may come again. */
  int held = FAIRLEAD_HELD;
  bpf_setsockopt(ops, SOL_SOCKET, SO_PRIORITY, &held, sizeof held);
  bpf_sock_ops_cb_flags_set(ops, ops->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_STATE_CB_FLAG);
}

static __always_inline void change_state(struct bpf_sock_ops* ops) {
  __u32 from = ops->args[0], to = ops->args[1];
  if (from == BPF_TCP_SYN_SENT && to == BPF_TCP_CLOSE) fail_connection(ops);
  if (from != BPF_TCP_SYN_RECV || ops->local_port != outbound_port) return;
  end_callbacks(ops);
  if (to == BPF_TCP_CLOSE) return; /* the SYN may come again */
  struct pair pair = {};
  set_pair(ops, SIDECAR, &pair);
  bpf_map_delete_elem(&connecting, &pair);
}

SEC("sockops")
int fairlead_ops(struct bpf_sock_ops* ops) {
  switch (ops->op) {
    case BPF_SOCK_OPS_TIMEOUT_INIT: /* a reply is for all programs of the socket */
      if (repeats_soon(ops)) ops->reply = held_timeout;
      break;
    case BPF_SOCK_OPS_HDR_OPT_LEN_CB:
      reserve_option(ops);
      break;
    case BPF_SOCK_OPS_WRITE_HDR_OPT_CB:
      write_option(ops);
      break;
    case BPF_SOCK_OPS_TCP_CONNECT_CB:
      begin_connection(ops);
      break;
    case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
      if (bpf_ntohl(ops->remote_port) != outbound_port) break;
      restore_retries(ops);
      end_callbacks(ops);
      break;
    case BPF_SOCK_OPS_STATE_CB:
      change_state(ops);
      break;
    case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
      if (ops->local_port == outbound_port) accept_connection(ops);
      break;
    default:
      break;
  }
  return 1;
}

char _license[] SEC("license") = "Dual BSD/GPL";
