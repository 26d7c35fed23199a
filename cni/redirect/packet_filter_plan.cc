#include "cni/redirect/packet_filter_plan.h"

#include <linux/netfilter.h>
#include <netinet/in.h>

#include <algorithm>
#include <utility>

#include "cni/redirect/ranges.h"

namespace fairlead::cni {
namespace {

using netlink::bytes_of;

// Before other address translation of the pod, which has priority -100.
constexpr std::int32_t kPriority = -101;

// The rules as the packet filter knows them. Empty sets have no rule.
struct Plan {
  explicit Plan(const bpf::RedirectRules& rules);

  std::uint32_t proxy_uid;
  std::uint16_t outbound_port;
  std::uint16_t inbound_port;
  Intervals skip_inbound, include_inbound, skip_outbound;  // ports
  Intervals skip4, skip6, include4, include6;              // addresses
};

Plan::Plan(const bpf::RedirectRules& rules)
    : proxy_uid(rules.proxy_uid),
      outbound_port(rules.outbound_port),
      inbound_port(rules.inbound_port),
      skip_inbound(intervals_of(rules.skip_inbound)),
      include_inbound(intervals_of(rules.include_inbound)),
      skip_outbound(intervals_of(rules.skip_outbound)) {
  const auto has = [&rules](bool v4) {
    return std::any_of(rules.addresses.begin(), rules.addresses.end(),
                       [v4](const SocketAddress& address) { return address.is_v4() == v4; });
  };
  if (has(true)) {
    skip4 = intervals_of(rules.skip, AF_INET);
    include4 = intervals_of(rules.include, AF_INET);
  }
  if (has(false)) {
    skip6 = intervals_of(rules.skip, AF_INET6);
    include6 = intervals_of(rules.include, AF_INET6);
  }
}

void add_sets(NftBatch& batch, const Plan& plan) {
  batch.set("skip_outbound", kPort, plan.skip_outbound);
  batch.set("skip4", kAddress4, plan.skip4);
  batch.set("skip6", kAddress6, plan.skip6);
  batch.set("include4", kAddress4, plan.include4);
  batch.set("include6", kAddress6, plan.include6);
  Intervals own = port_interval(plan.outbound_port);
  for (const Interval& port : port_interval(plan.inbound_port)) own.push_back(port);
  batch.set("own", kPort, merged(std::move(own), kPort.key_bytes));
  batch.set("skip_inbound", kPort, plan.skip_inbound);
  batch.set("include_inbound", kPort, plan.include_inbound);
}

constexpr std::uint8_t kTcp = IPPROTO_TCP;

// A connection of the application leaves the pod.
void add_outbound(NftBatch& batch, const Plan& plan) {
  const auto rule = [&](auto write) {
    batch.rule("outbound", [&](NftRule& one) {
      one.match_meta(NFT_META_L4PROTO, kTcp);
      write(one);
    });
  };
  batch.nat_chain("outbound", NF_INET_LOCAL_OUT, kPriority);
  rule([&](NftRule& one) {
    one.match_meta(NFT_META_SKUID, bytes_of(plan.proxy_uid));
    one.leave();
  });
  rule([&](NftRule& one) {
    one.match_loopback(NFT_META_OIFNAME);
    one.leave();
  });
  if (!plan.skip_outbound.empty())
    rule([&](NftRule& one) {
      one.match_set(kPort, "skip_outbound");
      one.leave();
    });
  const auto to = [&](std::uint8_t family, const PacketField& address, const char* set, bool skip) {
    rule([&](NftRule& one) {
      one.match_meta(NFT_META_NFPROTO, family);
      one.match_set(address, set);
      if (skip)
        one.leave();
      else
        one.redirect(plan.outbound_port);
    });
  };
  if (!plan.skip4.empty()) to(NFPROTO_IPV4, kAddress4, "skip4", true);
  if (!plan.skip6.empty()) to(NFPROTO_IPV6, kAddress6, "skip6", true);
  if (!plan.include4.empty()) to(NFPROTO_IPV4, kAddress4, "include4", false);
  if (!plan.include6.empty()) to(NFPROTO_IPV6, kAddress6, "include6", false);
}

// A connection for the application arrives. Connections without the option, such as probes, are not
// redirected.
void add_inbound(NftBatch& batch, const Plan& plan) {
  const auto rule = [&](auto write) {
    batch.rule("inbound", [&](NftRule& one) {
      one.match_meta(NFT_META_L4PROTO, kTcp);
      write(one);
    });
  };
  batch.nat_chain("inbound", NF_INET_PRE_ROUTING, kPriority);
  rule([&](NftRule& one) {
    one.match_loopback(NFT_META_IIFNAME);
    one.leave();
  });
  rule([&](NftRule& one) {
    one.match_set(kPort, "own");
    one.leave();
  });
  if (!plan.skip_inbound.empty())
    rule([&](NftRule& one) {
      one.match_set(kPort, "skip_inbound");
      one.leave();
    });
  if (!plan.include_inbound.empty())
    rule([&](NftRule& one) {
      one.match_set(kPort, "include_inbound");
      one.redirect(plan.inbound_port);
    });
  rule([&](NftRule& one) {
    one.match_smc_option();
    one.redirect(plan.inbound_port);
  });
}

Batch batch_with(const Plan& plan, std::string_view comment) {
  NftBatch batch;
  // Deleting a missing table is an error, so the batch creates it first if it does not exist.
  batch.table(NFT_MSG_NEWTABLE, "");
  batch.table(NFT_MSG_DELTABLE, "");
  batch.table(NFT_MSG_NEWTABLE, comment);
  add_sets(batch, plan);
  add_outbound(batch, plan);
  add_inbound(batch, plan);
  return std::move(batch).finish();
}

}  // namespace

Batch install_batch(const bpf::RedirectRules& rules) {
  return batch_with(Plan(rules), "fairlead-cni v1 fnv1a:" + digest(rules));
}

Batch remove_batch() {
  NftBatch batch;
  batch.table(NFT_MSG_DELTABLE, "");
  return std::move(batch).finish();
}

std::string digest(const bpf::RedirectRules& rules) {
  return to_hex(fingerprint(batch_with(Plan(rules), "").request.bytes()));
}

std::uint64_t fingerprint(netlink::Bytes bytes) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const std::byte byte : bytes) {
    hash ^= static_cast<std::uint64_t>(byte);
    hash *= 0x100000001b3ULL;
  }
  return hash;
}

std::string to_hex(std::uint64_t number) {
  std::string text(16, '0');
  for (std::size_t i = text.size(); i-- > 0; number >>= 4)
    text[i] = "0123456789abcdef"[number & 15];
  return text;
}

}  // namespace fairlead::cni
