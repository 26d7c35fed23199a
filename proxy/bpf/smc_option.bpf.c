/* Writes and reads the SMC-R option on the SYN and SYN/ACK of TCP sockets that asked for it.
 *
 * "Asked for it" is an entry in `requested`, a map whose entries live inside the sockets. User
 * space makes it by socket descriptor before listen(2), and asks for it by a priority before
 * connect(2), which costs one system call less; or, when `by_uid` is set, the sock_create program
 * below makes it for every TCP socket that `proxy_uid` opens in the cgroup.
 *
 * Life of a socket here (linux/bpf.h, BPF_SOCK_OPS_*):
 *   TCP_CONNECT_CB, TCP_LISTEN_CB   ask to be called for the headers of this socket
 *   HDR_OPT_LEN_CB                  reserve room, on every SYN and SYN/ACK, retransmitted ones too
 *   WRITE_HDR_OPT_CB                fill it
 *   ACTIVE_ESTABLISHED_CB           look for the peer's answer, tell user space, stop being called
 *   PASSIVE_ESTABLISHED_CB          stop being called for the accepted socket
 *
 * Several programs of this kind, and strangers, may be attached to one cgroup: all of them run for
 * every socket. So a socket without our entry is never touched, its flags included, and `reply`,
 * which is shared, is never written.
 *
 * A SYN/ACK belongs to a request, not yet to a socket, and has no entry: it counts as ours when
 * some program has asked to be called for the listener and the SYN carries the option. Two of us on
 * one listener reserve twice; the second store finds the option there, and the kernel pads with
 * NOPs.
 *
 * The second option, for frames, goes only beside the first one. A socket asks for it by its
 * priority. What a listener asked for is kept by its port, because a request does not lead to its
 * listener.
 */
#include <linux/bpf.h> /* first: the next one uses its types */

#include <bpf/bpf_helpers.h>
#include <stdbool.h>

#include "smc_option.h"

#define SOL_SOCKET 1
#define SO_PRIORITY 12
#define SOCK_STREAM 1
#define AF_INET 2
#define AF_INET6 10
#define TCP_FLAG_SYN 0x02
#define TCP_FLAG_ACK 0x10
#define TCP_OPTIONS_BYTES_MAX 40
#define FRAMES_PORTS_MAX 256
#define FRAMES_PORT_OF_ANY 0 /* of the listener that said it last */
#define PROGRAM_BITS_MASK ((FAIRLEAD_PRIORITY_PROGRAMS - 1) << FAIRLEAD_PRIORITY_PROGRAM_SHIFT)

const volatile bool by_uid = false;
const volatile __u32 proxy_uid = 0;
/* Of this program in priorities that request an option, already shifted. */
const volatile __u32 program_bits = 0;

/* Accepted sockets inherit the entry of their listener (BPF_F_CLONE) as they inherit its flags: it
 * says that the inherited flag is ours to clear. */
struct {
  __uint(type, BPF_MAP_TYPE_SK_STORAGE);
  __uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE);
  __type(key, int);
  __type(value, __u32);
} requested SEC(".maps");

/* Ports of listeners that asked for the second option, and the last byte of its identifier. */
struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, FRAMES_PORTS_MAX);
  __type(key, __u32);
  __type(value, __u32);
} frames_ports SEC(".maps");

struct smc_option {
  __u8 kind;
  __u8 length;
  __u8 magic[4];
};

#define SMC_OPTION(option_length)                                           \
  {                                                                         \
    .kind = FAIRLEAD_TCP_OPTION_KIND, .length = (option_length), .magic = { \
      FAIRLEAD_TCP_OPTION_MAGIC_0,                                          \
      FAIRLEAD_TCP_OPTION_MAGIC_1,                                          \
      FAIRLEAD_TCP_OPTION_MAGIC_2,                                          \
      FAIRLEAD_TCP_OPTION_MAGIC_3                                           \
    }                                                                       \
  }

#define FRAMES_OPTION(last)                                                           \
  {                                                                                   \
    .kind = FAIRLEAD_TCP_OPTION_KIND, .length = FAIRLEAD_TCP_OPTION_BYTES, .magic = { \
      FAIRLEAD_FRAMES_MAGIC_0,                                                        \
      FAIRLEAD_FRAMES_MAGIC_1,                                                        \
      FAIRLEAD_FRAMES_MAGIC_2,                                                        \
      (last)                                                                          \
    }                                                                                 \
  }

static __always_inline bool is_requested(struct bpf_sock_ops* ops) {
  struct bpf_sock* socket = ops->sk;
  return socket && bpf_sk_storage_get(&requested, socket, 0, 0);
}

/* Whether the segment at hand (the SYN that a request came from with BPF_LOAD_HDR_OPT_TCP_SYN) has
 * the option. As the kernel's own SMC does, lengths above six are taken if even. */
static __always_inline bool has_option(struct bpf_sock_ops* ops, __u64 where) {
  union {
    struct smc_option option;
    __u8 bytes[TCP_OPTIONS_BYTES_MAX];
  } found = {.option = SMC_OPTION(FAIRLEAD_TCP_OPTION_BYTES)};
  if (bpf_load_hdr_opt(ops, &found, sizeof found, where) < 0) return false;
  return found.option.length % 2 == 0;
}

static __always_inline bool has_frames_option(struct bpf_sock_ops* ops, __u8 last, __u64 where) {
  union {
    struct smc_option option;
    __u8 bytes[TCP_OPTIONS_BYTES_MAX];
  } found = {.option = FRAMES_OPTION(last)};
  if (bpf_load_hdr_opt(ops, &found, sizeof found, where) < 0) return false;
  return found.option.length == FAIRLEAD_TCP_OPTION_BYTES;
}

/* HDR_OPT_LEN and WRITE_HDR_OPT must come to the same answer, else one fills room of another's. */
static __always_inline bool carries_option(struct bpf_sock_ops* ops) {
  __u32 flags = ops->skb_tcp_flags;
  if (!(flags & TCP_FLAG_SYN)) return false;
  if (!(flags & TCP_FLAG_ACK)) return is_requested(ops);
  /* A SYN cookie forgets what the SYN said: the accepted socket could not be told, so the client
   * must not be either. */
  if (ops->args[0] == BPF_WRITE_HDR_TCP_SYNACK_COOKIE) return false;
  return has_option(ops, BPF_LOAD_HDR_OPT_TCP_SYN);
}

/* Of a proxy that knows windows, as whoever asks the program that it has attached itself. */
static __always_inline bool wants_windows(struct bpf_sock_ops* ops) {
  struct bpf_sock* socket = ops->sk;
  return socket && (socket->priority == FAIRLEAD_PRIORITY_WINDOWS_WANTED ||
                    socket->priority == (FAIRLEAD_PRIORITY_FRAMES_REQUESTED | program_bits));
}

static __always_inline bool wants_frames(struct bpf_sock_ops* ops) {
  struct bpf_sock* socket = ops->sk;
  return socket && (socket->priority == FAIRLEAD_PRIORITY_FRAMES_WANTED || wants_windows(ops));
}

/* Whether the peer's answer is for another program of this kind to tell, or was told by it. A
 * socket may have the entries of several. Whoever was not asked by priority knows only of the first
 * option, and would take back the second one. */
static __always_inline bool another_tells(struct bpf_sock_ops* ops) {
  struct bpf_sock* socket = ops->sk;
  if (!socket) return false;
  __u32 asked = socket->priority & ~PROGRAM_BITS_MASK;
  bool by_priority =
      asked == FAIRLEAD_PRIORITY_SMC_REQUESTED || asked == FAIRLEAD_PRIORITY_FRAMES_REQUESTED;
  return socket->priority == FAIRLEAD_PRIORITY_FRAMES_ANSWERED ||
         socket->priority == FAIRLEAD_PRIORITY_WINDOWS_ANSWERED ||
         (by_priority && (socket->priority & PROGRAM_BITS_MASK) != program_bits);
}

static __always_inline void take_request(struct bpf_sock_ops* ops) {
  struct bpf_sock* socket = ops->sk;
  if (!socket || (socket->priority != (FAIRLEAD_PRIORITY_SMC_REQUESTED | program_bits) &&
                  socket->priority != (FAIRLEAD_PRIORITY_FRAMES_REQUESTED | program_bits)))
    return;
  bpf_sk_storage_get(&requested, socket, 0, BPF_SK_STORAGE_GET_F_CREATE);
}

/* Of a segment that carries the first option. The last byte of the identifier, or 0 for none. */
static __always_inline __u8 frames_option(struct bpf_sock_ops* ops) {
  if (!(ops->skb_tcp_flags & TCP_FLAG_ACK))
    return wants_frames(ops) ? FAIRLEAD_FRAMES_MAGIC_3_SYN : 0;
  __u32 port = ops->local_port;
  __u32* answer = bpf_map_lookup_elem(&frames_ports, &port);
  if (!answer && by_uid) {
    /* A redirected SYN has the port of the application, not that of the listener. In the cgroup of
     * a pod, listeners that are called are the sidecar's. */
    port = FRAMES_PORT_OF_ANY;
    answer = bpf_map_lookup_elem(&frames_ports, &port);
  }
  if (!answer) return 0;
  if (!has_frames_option(ops, FAIRLEAD_FRAMES_MAGIC_3_SYN, BPF_LOAD_HDR_OPT_TCP_SYN)) return 0;
  return *answer;
}

static __always_inline void note_listener(struct bpf_sock_ops* ops) {
  __u32 port = ops->local_port;
  __u32 answer =
      wants_windows(ops) ? FAIRLEAD_FRAMES_MAGIC_3_WINDOWS : FAIRLEAD_FRAMES_MAGIC_3_ANSWER;
  __u32 any = FRAMES_PORT_OF_ANY;
  if (wants_frames(ops)) {
    bpf_map_update_elem(&frames_ports, &port, &answer, BPF_ANY);
    bpf_map_update_elem(&frames_ports, &any, &answer, BPF_ANY);
  } else if (bpf_map_delete_elem(&frames_ports, &port) == 0) {
    /* Other listeners of the sidecar, such as that of its admin port, have never asked. */
    bpf_map_delete_elem(&frames_ports, &any);
  }
}

static __always_inline void ask_for_headers(struct bpf_sock_ops* ops) {
  bpf_sock_ops_cb_flags_set(ops, ops->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG);
}

/* The handshake is over; data segments need no call. */
static __always_inline void leave(struct bpf_sock_ops* ops) {
  struct bpf_sock* socket = ops->sk;
  bpf_sock_ops_cb_flags_set(ops, ops->bpf_sock_ops_cb_flags & ~BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG);
  if (socket) bpf_sk_storage_delete(&requested, socket);
}

SEC("sockops")
int smc_option(struct bpf_sock_ops* ops) {
  switch (ops->op) {
    case BPF_SOCK_OPS_TCP_LISTEN_CB:
      if (!is_requested(ops)) break;
      note_listener(ops);
      ask_for_headers(ops);
      break;
    case BPF_SOCK_OPS_TCP_CONNECT_CB:
      take_request(ops);
      if (is_requested(ops)) ask_for_headers(ops);
      break;
    case BPF_SOCK_OPS_HDR_OPT_LEN_CB:
      if (!carries_option(ops)) break;
      /* Where other options leave no room for both, the first one is enough. */
      if (!frames_option(ops) || bpf_reserve_hdr_opt(ops, 2 * FAIRLEAD_TCP_OPTION_BYTES, 0) < 0)
        bpf_reserve_hdr_opt(ops, FAIRLEAD_TCP_OPTION_BYTES, 0);
      break;
    case BPF_SOCK_OPS_WRITE_HDR_OPT_CB:
      if (carries_option(ops)) {
        struct smc_option option = SMC_OPTION(FAIRLEAD_TCP_OPTION_BYTES);
        bpf_store_hdr_opt(ops, &option, sizeof option, 0);
        __u8 last = frames_option(ops);
        if (last) {
          struct smc_option frames = FRAMES_OPTION(last);
          bpf_store_hdr_opt(ops, &frames, sizeof frames, 0);
        }
      }
      break;
    case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
      if (!is_requested(ops)) break;
      if (has_option(ops, 0) && !another_tells(ops)) {
        int answered = FAIRLEAD_PRIORITY_ANSWERED;
        if (wants_windows(ops) && has_frames_option(ops, FAIRLEAD_FRAMES_MAGIC_3_WINDOWS, 0))
          answered = FAIRLEAD_PRIORITY_WINDOWS_ANSWERED;
        else if (wants_frames(ops) && has_frames_option(ops, FAIRLEAD_FRAMES_MAGIC_3_ANSWER, 0))
          answered = FAIRLEAD_PRIORITY_FRAMES_ANSWERED;
        bpf_setsockopt(ops, SOL_SOCKET, SO_PRIORITY, &answered, sizeof answered);
      }
      leave(ops);
      break;
    case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
      if (is_requested(ops)) leave(ops);
      break;
    default:
      break;
  }
  return 1;
}

/* Loaded only for `by_uid`. The uid is that of the initial user namespace. */
SEC("cgroup/sock_create")
int smc_mark(struct bpf_sock* socket) {
  if (!by_uid || (__u32)bpf_get_current_uid_gid() != proxy_uid) return 1;
  if (socket->type != SOCK_STREAM) return 1;
  if (socket->family != AF_INET && socket->family != AF_INET6) return 1;
  bpf_sk_storage_get(&requested, socket, 0, BPF_SK_STORAGE_GET_F_CREATE);
  return 1;
}

char _license[] SEC("license") = "Dual BSD/GPL";
