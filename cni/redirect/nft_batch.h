// Writes the messages of one nf_tables transaction: rules of a few kinds in chains of one table of
// family inet. Pure. Source: linux/netfilter/nf_tables.h.
#pragma once

#include <linux/netfilter/nf_tables.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cni/netlink/message.h"
#include "cni/redirect/ranges.h"

namespace fairlead::cni {

inline constexpr const char* kTableName = "fairlead";  // in family inet

// A request of several messages that the kernel applies completely or not at all.
struct Batch {
  netlink::Writer request;
  unsigned acknowledged = 0;
  // Purpose of the message with sequence number i, for errors: "rule outbound 3".
  std::vector<std::string> names;
};

// A packet field that sets contain; `type` determines how nft(8) prints it.
struct PacketField {
  std::uint32_t payload_base;
  std::uint16_t offset;
  std::uint32_t key_bytes;
  std::uint32_t type;
};
inline constexpr PacketField kPort = {NFT_PAYLOAD_TRANSPORT_HEADER, 2, 2, 13};  // destination
inline constexpr PacketField kAddress4 = {NFT_PAYLOAD_NETWORK_HEADER, 16, 4, 7};
inline constexpr PacketField kAddress6 = {NFT_PAYLOAD_NETWORK_HEADER, 24, 16, 8};

// The expressions of one rule, in the order in which the kernel runs them.
class NftRule {
 public:
  explicit NftRule(netlink::Writer& out) : out_(out) {}

  void match_meta(std::uint32_t key, netlink::Bytes value);
  void match_meta(std::uint32_t key, std::uint8_t value) {
    match_meta(key, netlink::bytes_of(value));
  }
  void match_loopback(std::uint32_t key);  // NFT_META_IIFNAME or NFT_META_OIFNAME
  void match_set(const PacketField& field, std::string_view set);
  void match_smc_option();
  void leave();  // the chain
  void redirect(std::uint16_t port);

 private:
  template <class Body>
  void expression(std::string_view name, Body body);
  void compare(netlink::Bytes value);
  netlink::Writer& out_;
};

// Builds a transaction on the table `fairlead`.
class NftBatch {
 public:
  NftBatch();
  Batch finish() &&;

  // `type`: NFT_MSG_NEWTABLE, which does nothing to one that exists, or NFT_MSG_DELTABLE.
  void table(std::uint16_t type, std::string_view comment);
  void nat_chain(std::string_view name, std::uint32_t hook, std::int32_t priority);
  // Does nothing without values, because no rule refers to an empty set.
  void set(std::string_view name, const PacketField& field, const Intervals& values);
  void rule(std::string_view chain, const std::function<void(NftRule&)>& write);

 private:
  netlink::Writer& out() { return batch_.request; }
  void control(std::uint16_t type);
  template <class Body>
  void message(std::uint16_t type, std::string name, Body body);
  std::uint32_t sequence(std::string name);
  void element(const Key& key, std::size_t key_bytes, std::uint32_t flags);

  Batch batch_;
  unsigned rules_ = 0;  // of the chain that was begun last
};

}  // namespace fairlead::cni
