#include "cni/redirect/nft_batch.h"

#include <arpa/inet.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nfnetlink.h>

#include <utility>

#include "bpf/smc_option.h"

namespace fairlead::cni {
namespace {

using netlink::bytes_of;
using netlink::network_order;

constexpr std::size_t kInterfaceBytes = 16;
constexpr std::uint8_t kCommentTag = 0;  // first field of the user data, as libnftnl lays it out

}  // namespace

template <class Body>
void NftRule::expression(std::string_view name, Body body) {
  out_.nest(NFTA_LIST_ELEM, [&] {
    out_.text(NFTA_EXPR_NAME, name);
    out_.nest(NFTA_EXPR_DATA, body);
  });
}

void NftRule::compare(netlink::Bytes value) {
  expression("cmp", [&] {
    out_.u32_network(NFTA_CMP_SREG, NFT_REG_1);
    out_.u32_network(NFTA_CMP_OP, NFT_CMP_EQ);
    out_.nest(NFTA_CMP_DATA, [&] { out_.attribute(NFTA_DATA_VALUE, value); });
  });
}

void NftRule::match_meta(std::uint32_t key, netlink::Bytes value) {
  expression("meta", [&] {
    out_.u32_network(NFTA_META_KEY, key);
    out_.u32_network(NFTA_META_DREG, NFT_REG_1);
  });
  compare(value);
}

void NftRule::match_loopback(std::uint32_t key) {
  char name[kInterfaceBytes] = "lo";
  match_meta(key, std::as_bytes(std::span(name)));
}

void NftRule::match_set(const PacketField& field, std::string_view set) {
  expression("payload", [&] {
    out_.u32_network(NFTA_PAYLOAD_DREG, NFT_REG_1);
    out_.u32_network(NFTA_PAYLOAD_BASE, field.payload_base);
    out_.u32_network(NFTA_PAYLOAD_OFFSET, field.offset);
    out_.u32_network(NFTA_PAYLOAD_LEN, field.key_bytes);
  });
  expression("lookup", [&] {
    out_.text(NFTA_LOOKUP_SET, set);
    out_.u32_network(NFTA_LOOKUP_SREG, NFT_REG_1);
  });
}

void NftRule::match_smc_option() {
  expression("exthdr", [&] {
    out_.u32_network(NFTA_EXTHDR_DREG, NFT_REG_1);
    out_.u8(NFTA_EXTHDR_TYPE, FAIRLEAD_TCP_OPTION_KIND);
    out_.u32_network(NFTA_EXTHDR_OFFSET, 0);
    out_.u32_network(NFTA_EXTHDR_LEN, 1);
    out_.u32_network(NFTA_EXTHDR_FLAGS, NFT_EXTHDR_F_PRESENT);
    out_.u32_network(NFTA_EXTHDR_OP, NFT_EXTHDR_OP_TCPOPT);
  });
  compare(bytes_of(std::uint8_t{1}));
}

void NftRule::leave() {
  expression("immediate", [&] {
    out_.u32_network(NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
    out_.nest(NFTA_IMMEDIATE_DATA, [&] {
      out_.nest(NFTA_DATA_VERDICT, [&] {
        out_.u32_network(NFTA_VERDICT_CODE, static_cast<std::uint32_t>(NFT_RETURN));
      });
    });
  });
}

void NftRule::redirect(std::uint16_t port) {
  expression("immediate", [&] {
    out_.u32_network(NFTA_IMMEDIATE_DREG, NFT_REG_1);
    out_.nest(NFTA_IMMEDIATE_DATA,
              [&] { out_.attribute(NFTA_DATA_VALUE, bytes_of(network_order(port))); });
  });
  expression("redir", [&] { out_.u32_network(NFTA_REDIR_REG_PROTO_MIN, NFT_REG_1); });
}

NftBatch::NftBatch() { control(NFNL_MSG_BATCH_BEGIN); }

Batch NftBatch::finish() && {
  control(NFNL_MSG_BATCH_END);
  return std::move(batch_);
}

void NftBatch::control(std::uint16_t type) {
  const nfgenmsg family = {AF_UNSPEC, NFNETLINK_V0, htons(NFNL_SUBSYS_NFTABLES)};
  out().begin(type, 0, sequence("batch"), family);
  out().end();
}

template <class Body>
void NftBatch::message(std::uint16_t type, std::string name, Body body) {
  const nfgenmsg family = {NFPROTO_INET, NFNETLINK_V0, 0};
  const auto flags =
      static_cast<std::uint16_t>(NLM_F_ACK | (type == NFT_MSG_DELTABLE ? 0 : NLM_F_CREATE) |
                                 (type == NFT_MSG_NEWRULE ? NLM_F_APPEND : 0));
  out().begin(static_cast<std::uint16_t>((NFNL_SUBSYS_NFTABLES << 8) | type), flags,
              sequence(std::move(name)), family);
  body();
  out().end();
  ++batch_.acknowledged;
}

std::uint32_t NftBatch::sequence(std::string name) {
  batch_.names.push_back(std::move(name));
  return static_cast<std::uint32_t>(batch_.names.size() - 1);
}

void NftBatch::element(const Key& key, std::size_t key_bytes, std::uint32_t flags) {
  out().nest(NFTA_LIST_ELEM, [&] {
    out().nest(NFTA_SET_ELEM_KEY, [&] {
      out().attribute(NFTA_DATA_VALUE, std::as_bytes(std::span(key).first(key_bytes)));
    });
    if (flags != 0) out().u32_network(NFTA_SET_ELEM_FLAGS, flags);
  });
}

void NftBatch::table(std::uint16_t type, std::string_view comment) {
  message(type, "table", [&] {
    out().text(NFTA_TABLE_NAME, kTableName);
    if (comment.empty()) return;
    // Tag, length, text with terminator.
    std::vector<std::byte> data(comment.size() + 3);
    data[0] = std::byte{kCommentTag};
    data[1] = static_cast<std::byte>(comment.size() + 1);
    std::memcpy(data.data() + 2, comment.data(), comment.size());
    out().attribute(NFTA_TABLE_USERDATA, data);
  });
}

void NftBatch::nat_chain(std::string_view name, std::uint32_t hook, std::int32_t priority) {
  message(NFT_MSG_NEWCHAIN, "chain " + std::string(name), [&] {
    out().text(NFTA_CHAIN_TABLE, kTableName);
    out().text(NFTA_CHAIN_NAME, name);
    out().text(NFTA_CHAIN_TYPE, "nat");
    out().u32_network(NFTA_CHAIN_POLICY, NF_ACCEPT);
    out().nest(NFTA_CHAIN_HOOK, [&] {
      out().u32_network(NFTA_HOOK_HOOKNUM, hook);
      out().u32_network(NFTA_HOOK_PRIORITY, static_cast<std::uint32_t>(priority));
    });
  });
  rules_ = 0;
}

void NftBatch::set(std::string_view name, const PacketField& field, const Intervals& values) {
  if (values.empty()) return;
  message(NFT_MSG_NEWSET, "set " + std::string(name), [&] {
    out().text(NFTA_SET_TABLE, kTableName);
    out().text(NFTA_SET_NAME, name);
    out().u32_network(NFTA_SET_FLAGS, NFT_SET_INTERVAL);
    out().u32_network(NFTA_SET_KEY_TYPE, field.type);
    out().u32_network(NFTA_SET_KEY_LEN, field.key_bytes);
    out().u32_network(NFTA_SET_ID, static_cast<std::uint32_t>(batch_.names.size()));
  });
  message(NFT_MSG_NEWSETELEM, "elements of set " + std::string(name), [&] {
    out().text(NFTA_SET_ELEM_LIST_TABLE, kTableName);
    out().text(NFTA_SET_ELEM_LIST_SET, name);
    out().nest(NFTA_SET_ELEM_LIST_ELEMENTS, [&] {
      for (const Interval& interval : values) {
        element(interval.first, field.key_bytes, 0);
        // An interval ends before this key. An interval up to the largest key has no end element.
        if (const auto end = successor(interval.last, field.key_bytes))
          element(*end, field.key_bytes, NFT_SET_ELEM_INTERVAL_END);
      }
    });
  });
}

void NftBatch::rule(std::string_view chain, const std::function<void(NftRule&)>& write) {
  message(NFT_MSG_NEWRULE, "rule " + std::string(chain) + " " + std::to_string(++rules_), [&] {
    out().text(NFTA_RULE_TABLE, kTableName);
    out().text(NFTA_RULE_CHAIN, chain);
    out().nest(NFTA_RULE_EXPRESSIONS, [&] {
      NftRule rule(out());
      write(rule);
    });
  });
}

}  // namespace fairlead::cni
