// Which entry of a port's GID table to use, by type and address. An entry is known as ours by its
// address alone: interface names and indexes of the table are those of another network namespace.
// Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/address.h"
#include "base/ids.h"

namespace fairlead::rdma::verbs {

enum class GidType : std::uint8_t { kInfiniBand, kRoceV1, kRoceV2 };

struct GidEntry {
  Gid gid;
  GidType type = GidType::kRoceV2;
  std::uint32_t index = 0;         // in the port's table
  std::uint32_t netdev_index = 0;  // interface index in the namespace of the device; 0: none known
  friend bool operator==(const GidEntry&, const GidEntry&) = default;
};

bool is_link_local(const Gid& gid);  // fe80::/10

// The rank of an entry: less is better, nothing is unusable. A Linux kernel speaks
// SMC-R version 2 from IPv4-mapped RoCEv2 GIDs only, so these come first; then IPv6, then what
// reaches no farther than the own segment.
std::optional<unsigned> gid_rank(const GidEntry& entry);

// What an operator takes away from the choice (config.h, Smc).
struct GidPolicy {
  std::vector<Cidr> subnets;           // of the GIDs that may be used; empty: all
  std::optional<std::uint32_t> index;  // the only one
  std::optional<GidType> type;         // the only one
  friend bool operator==(const GidPolicy&, const GidPolicy&) = default;
};
std::vector<GidEntry> allowed_gids(std::span<const GidEntry> table, const GidPolicy& policy);

enum class GidSource : std::uint8_t {
  kOwn,    // an address of this network namespace
  kNode,   // the node named it as its own
  kTable,  // neither is known: by type and family
};
const char* to_string(GidSource source);  // "pod", "node", "table"

struct GidChoice {
  GidEntry entry;
  GidSource source = GidSource::kTable;
  friend bool operator==(const GidChoice&, const GidChoice&) = default;
};
// The best entry of the table. Our own addresses come first, then those that the node named, then
// others; among these the best rank, and the first of equals. A link-local address never counts as
// our own.
std::optional<GidChoice> choose_gid(std::span<const GidEntry> table, std::span<const Gid> own,
                                    std::span<const Gid> named);
// Where nothing is known of addresses.
std::optional<GidEntry> choose_gid(std::span<const GidEntry> table);
// The entries for version 1 of SMC-R: those of RoCEv1 if there are any, else all. If the peer's GID
// is not known, only the link-local ones of these if there are any, as Linux chooses.
std::vector<GidEntry> gids_of_version_1(std::span<const GidEntry> table,
                                        const std::optional<Gid>& peer);
// The entry with this address; of several types the best, or RoCEv1.
std::optional<GidEntry> find_gid(std::span<const GidEntry> table, const Gid& gid,
                                 bool prefer_roce_v1 = false);

const char* to_string(GidType type);  // "RoCEv2"

// The MAC that an EUI-64 was made of: the link-local GID of a RoCE port, a node GUID. Nothing when
// it was made of something else.
std::optional<Mac> mac_from_eui64(std::span<const std::uint8_t, 8> eui64);
// Of a port, from its table; the address of its interface may be out of sight in a pod.
std::optional<Mac> mac_of_port(std::span<const GidEntry> table);

// An InfiniBand port has no MAC, and CLC has no field for its LID: between two Fairlead proxies the
// MAC field carries it, as the locally administered 02:49:42:00:LL:LL ("IB").
Mac mac_of_lid(std::uint16_t lid);
std::optional<std::uint16_t> lid_of_mac(const Mac& mac);

}  // namespace fairlead::rdma::verbs
