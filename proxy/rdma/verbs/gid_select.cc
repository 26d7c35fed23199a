#include "rdma/verbs/gid_select.h"

#include <algorithm>
#include <cstring>

namespace fairlead::rdma::verbs {
namespace {

constexpr std::uint8_t kUniversalBit = 0x02;  // inverted in an EUI-64 made of a MAC
constexpr std::array<std::uint8_t, 4> kLidMark = {0x02, 'I', 'B', 0};

bool is_loopback(const Gid& gid) {
  Gid v6;
  v6.bytes[15] = 1;
  return gid == v6 || (gid.is_ipv4_mapped() && gid.bytes[12] == 127);
}

bool contains(std::span<const Gid> gids, const Gid& gid) {
  return std::find(gids.begin(), gids.end(), gid) != gids.end();
}

SocketAddress address_of(const Gid& gid) {
  in6_addr address{};
  std::memcpy(address.s6_addr, gid.bytes.data(), gid.bytes.size());
  return SocketAddress(address, 0).unmapped();
}

}  // namespace

bool is_link_local(const Gid& gid) { return gid.bytes[0] == 0xfe && (gid.bytes[1] & 0xc0) == 0x80; }

std::optional<unsigned> gid_rank(const GidEntry& entry) {
  if (entry.gid.is_zero() || is_loopback(entry.gid)) return std::nullopt;
  const unsigned reach = entry.gid.is_ipv4_mapped() ? 0 : is_link_local(entry.gid) ? 2 : 1;
  switch (entry.type) {
    case GidType::kRoceV2:
      return reach;
    case GidType::kInfiniBand:
      return 3;
    case GidType::kRoceV1:
      return 4 + reach;
  }
  return std::nullopt;
}

std::vector<GidEntry> allowed_gids(std::span<const GidEntry> table, const GidPolicy& policy) {
  std::vector<GidEntry> allowed;
  for (const GidEntry& entry : table) {
    if (policy.index && entry.index != *policy.index) continue;
    if (policy.type && entry.type != *policy.type) continue;
    const SocketAddress address = address_of(entry.gid);
    const auto holds = [&address](const Cidr& block) { return block.contains(address); };
    if (!policy.subnets.empty() &&
        std::none_of(policy.subnets.begin(), policy.subnets.end(), holds))
      continue;
    allowed.push_back(entry);
  }
  return allowed;
}

const char* to_string(GidSource source) {
  switch (source) {
    case GidSource::kOwn:
      return "pod";
    case GidSource::kNode:
      return "node";
    case GidSource::kTable:
      return "table";
  }
  return "?";
}

std::optional<GidChoice> choose_gid(std::span<const GidEntry> table, std::span<const Gid> own,
                                    std::span<const Gid> named) {
  const auto source_of = [&](const GidEntry& entry) {
    if (!is_link_local(entry.gid) && contains(own, entry.gid)) return GidSource::kOwn;
    return contains(named, entry.gid) ? GidSource::kNode : GidSource::kTable;
  };
  std::optional<GidChoice> best;
  for (const GidEntry& entry : table) {
    const std::optional<unsigned> rank = gid_rank(entry);
    if (!rank) continue;
    const GidSource source = source_of(entry);
    if (!best || source < best->source ||
        (source == best->source && *rank < *gid_rank(best->entry)))
      best = GidChoice{entry, source};
  }
  return best;
}

std::optional<GidEntry> choose_gid(std::span<const GidEntry> table) {
  const std::optional<GidChoice> best = choose_gid(table, {}, {});
  return best ? std::optional(best->entry) : std::nullopt;
}

std::vector<GidEntry> gids_of_version_1(std::span<const GidEntry> table,
                                        const std::optional<Gid>& peer) {
  std::vector<GidEntry> chosen(table.begin(), table.end());
  const auto keep = [&chosen](auto fits) {
    if (std::any_of(chosen.begin(), chosen.end(), fits))
      std::erase_if(chosen, [&fits](const GidEntry& entry) { return !fits(entry); });
  };
  keep([](const GidEntry& entry) { return entry.type == GidType::kRoceV1; });
  if (!peer)
    keep([](const GidEntry& entry) {
      return entry.type != GidType::kRoceV1 || is_link_local(entry.gid);
    });
  return chosen;
}

std::optional<GidEntry> find_gid(std::span<const GidEntry> table, const Gid& gid,
                                 bool prefer_roce_v1) {
  std::optional<GidEntry> best;
  for (const GidEntry& entry : table) {
    if (entry.gid != gid) continue;
    if (prefer_roce_v1 && entry.type == GidType::kRoceV1) return entry;
    const std::optional<unsigned> rank = gid_rank(entry);
    if (rank && (!best || *rank < *gid_rank(*best))) best = entry;
  }
  return best;
}

const char* to_string(GidType type) {
  switch (type) {
    case GidType::kInfiniBand:
      return "InfiniBand";
    case GidType::kRoceV1:
      return "RoCEv1";
    case GidType::kRoceV2:
      return "RoCEv2";
  }
  return "?";
}

std::optional<Mac> mac_from_eui64(std::span<const std::uint8_t, 8> eui64) {
  if (eui64[3] != 0xff || eui64[4] != 0xfe) return std::nullopt;
  return Mac{{static_cast<std::uint8_t>(eui64[0] ^ kUniversalBit), eui64[1], eui64[2], eui64[5],
              eui64[6], eui64[7]}};
}

std::optional<Mac> mac_of_port(std::span<const GidEntry> table) {
  for (const GidEntry& entry : table) {
    if (entry.type == GidType::kInfiniBand || !is_link_local(entry.gid)) continue;
    if (const auto mac = mac_from_eui64(std::span(entry.gid.bytes).last<8>())) return mac;
  }
  return std::nullopt;
}

Mac mac_of_lid(std::uint16_t lid) {
  Mac mac;
  std::copy(kLidMark.begin(), kLidMark.end(), mac.bytes.begin());
  mac.bytes[4] = static_cast<std::uint8_t>(lid >> 8);
  mac.bytes[5] = static_cast<std::uint8_t>(lid & 0xff);
  return mac;
}

std::optional<std::uint16_t> lid_of_mac(const Mac& mac) {
  if (!std::equal(kLidMark.begin(), kLidMark.end(), mac.bytes.begin())) return std::nullopt;
  return static_cast<std::uint16_t>(mac.bytes[4] << 8 | mac.bytes[5]);
}

}  // namespace fairlead::rdma::verbs
