/* What both groups of redirect programs use. For eBPF only, after linux/bpf.h. */
#pragma once

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <stdbool.h>

#include "packet.bpf.h"
#include "redirect.h"

#define AF_INET 2
/* IPv4 is ::ffff:a.b.c.d in all maps. */
#define MAPPED_WORD bpf_htonl(0xffff)

/* Without "volatile", clang joins loads of both families into one with a computed offset, which the
 * verifier refuses. */
#define LOADED(field) (*(const volatile __u32*)&(field))

/* Set before the programs are loaded: which lists of ports have any. */
const volatile bool has_ports[FAIRLEAD_REDIRECT_PORT_LISTS] = {};

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, FAIRLEAD_REDIRECT_PORT_LISTS* FAIRLEAD_REDIRECT_PORT_WORDS);
  __type(key, __u32);
  __type(value, __u64);
} ports SEC(".maps");

static __always_inline bool has_port(__u32 list, __u16 port) {
  if (!has_ports[list]) return false;
  __u32 index = list * FAIRLEAD_REDIRECT_PORT_WORDS + port / 64;
  __u64* word = bpf_map_lookup_elem(&ports, &index);
  return word && (*word >> (port % 64) & 1);
}
