#include "smc/clc/negotiate.h"

#include <algorithm>

#include "base/assert.h"

namespace fairlead::smc {
namespace {

constexpr std::uint8_t kConnectionsPerGroupV1 = 255;
constexpr std::uint8_t kLinksPerGroupV1 = 2;
constexpr unsigned kIpv4Bits = 32;
constexpr unsigned kIpv6Bits = 128;
constexpr std::uint16_t kNoVlan = 0xfffe;  // in the middle of an EUI-64
constexpr std::uint16_t kVlanMax = 4094;

bool offers_smcr(wire::ClcPath path) {
  return path == wire::ClcPath::kSmcr || path == wire::ClcPath::kBoth;
}

std::array<char, 32> padded(const std::string& host_name) {
  std::array<char, 32> bytes = wire::Eid::blank();
  std::size_t i = 0;
  for (char c : host_name) {
    if (i == bytes.size()) break;
    // Linux drops the whole name when a byte is not ASCII.
    bytes[i++] = c > ' ' && static_cast<unsigned char>(c) < 0x7f ? c : '-';
  }
  return bytes;
}

// Version 1 negotiates neither: a server may be content with fewer connections.
Terms terms_v1(std::uint8_t max_connections) {
  Terms terms;
  terms.version = 1;
  terms.release = 0;
  terms.max_connections = max_connections;
  terms.max_links = kLinksPerGroupV1;
  return terms;
}

// Release 0 cannot negotiate: these are its fixed values.
void fix_limits(Terms& terms) {
  terms.max_connections = 255;
  terms.max_links = 2;
}

// REQUIRES: `bits` of both
bool in_prefix(std::span<const std::uint8_t> address, std::span<const std::uint8_t> network,
               unsigned bits) {
  SMC_ASSERT(address.size() == network.size() && bits <= address.size() * 8, bits);
  for (std::size_t i = 0; i * 8 < bits; ++i) {
    const unsigned left = bits - static_cast<unsigned>(i) * 8;
    const unsigned mask = left >= 8 ? 0xffU : 0xff00U >> left & 0xffU;
    if (((address[i] ^ network[i]) & mask) != 0) return false;
  }
  return true;
}

}  // namespace

wire::Proposal make_proposal(const LocalOffer& offer, const Gid& gid, const Mac& mac,
                             const wire::VendorArea& vendor, const std::optional<OfferV1>& v1) {
  SMC_ASSERT(!offer.ueids.empty() && offer.ueids.size() <= wire::kUeidsMax, offer.ueids.size());
  SMC_ASSERT(offer.version_2 || v1);
  wire::Proposal proposal;
  proposal.peer_id = offer.peer_id;
  proposal.mac = mac;
  proposal.vendor = vendor;
  if (v1) {
    proposal.v1_path = wire::ClcPath::kSmcr;
    proposal.v1_gid = v1->gid;
    proposal.ip_area = v1->area;
  }
  if (!offer.version_2) {
    proposal.version = 1;
    proposal.v2_path = wire::ClcPath::kNone;
    return proposal;
  }
  wire::ProposalV2 v2;
  for (const wire::Eid& ueid : offer.ueids) v2.ueids.push(ueid);
  v2.gid = gid;
  v2.max_connections = offer.max_connections;
  // Linux takes two at most, and answers a higher number with its own.
  v2.max_links = offer.max_links;
  proposal.v2 = v2;
  return proposal;
}

Judgement<Terms> judge_proposal(const wire::Proposal& proposal, const LocalOffer& offer,
                                std::uint8_t version) {
  using R = FallbackReason;
  if (version == 1) {
    if (!offer.version_1 || !offers_smcr(proposal.v1_path)) return tl::unexpected(R::kPeerNoSmc);
    return terms_v1(offer.max_connections);
  }
  const bool offered = proposal.version >= 2 && offers_smcr(proposal.v2_path) && proposal.v2;
  if (!offer.version_2 || !offered) return tl::unexpected(R::kPeerNoSmc);
  const wire::ProposalV2& v2 = *proposal.v2;
  if (v2.ueids.count == 0) return tl::unexpected(R::kPeerNoUeid);
  Terms terms;
  terms.release = std::min<std::uint8_t>(v2.release, 1);
  if (v2.release >= 1) {
    if (v2.max_connections < kConnectionsPerGroupMin)
      return tl::unexpected(R::kMaxConnectionsMismatch);
    if (v2.max_links < 1) return tl::unexpected(R::kMaxLinksMismatch);
    terms.max_connections = std::min(v2.max_connections, offer.max_connections);
    terms.max_links = std::min(v2.max_links, offer.max_links);
  } else {
    fix_limits(terms);
  }
  for (const wire::Eid& ueid : v2.ueids.view()) {
    if (std::find(offer.ueids.begin(), offer.ueids.end(), ueid) == offer.ueids.end()) continue;
    terms.eid = ueid;
    return terms;
  }
  return tl::unexpected(R::kNoDevice);
}

std::optional<FallbackReason> judge_subnet(const wire::IpArea& client_area, const Subnets& own,
                                           const SocketAddress& client) {
  using R = FallbackReason;
  const SocketAddress address = client.unmapped();
  if (address.is_v4()) {
    const unsigned bits = client_area.ipv4_length_bits;
    const std::span<const std::uint8_t> network(client_area.ipv4_network);
    const bool its_own = bits <= kIpv4Bits && in_prefix(address.bytes(), network, bits);
    const bool ours =
        bits == own.area.ipv4_length_bits && client_area.ipv4_network == own.area.ipv4_network;
    return its_own && ours ? std::nullopt : std::optional(R::kPrefixMismatch);
  }
  const std::span<const wire::Ipv6Prefix> ours = own.area.ipv6.view();
  for (const wire::Ipv6Prefix& prefix : client_area.ipv6.view())
    if (prefix.length_bits <= kIpv6Bits &&
        in_prefix(address.bytes(), prefix.network, prefix.length_bits) &&
        std::find(ours.begin(), ours.end(), prefix) != ours.end())
      return std::nullopt;
  return R::kPrefixMismatch;
}

std::optional<std::uint16_t> vlan_of(const Gid& gid) {
  const bool link_local = gid.bytes[0] == 0xfe && (gid.bytes[1] & 0xc0U) == 0x80;
  if (!link_local) return std::nullopt;
  const auto middle = static_cast<std::uint16_t>(gid.bytes[11] << 8U | gid.bytes[12]);
  if (middle == kNoVlan) return std::uint16_t{0};
  if (middle > kVlanMax) return std::nullopt;
  return middle;
}

bool vlans_agree(const Gid& one, const Gid& other) {
  const std::optional<std::uint16_t> first = vlan_of(one);
  const std::optional<std::uint16_t> second = vlan_of(other);
  return !first || !second || first == second;
}

Judgement<Terms> judge_accept(const wire::AcceptConfirm& accept, const wire::Proposal& proposal) {
  using R = FallbackReason;
  const bool offered =
      accept.version == 1 ? offers_smcr(proposal.v1_path) : proposal.v2.has_value();
  if (!offered || accept.path != wire::ClcPath::kSmcr) return tl::unexpected(R::kModeMismatch);
  if (accept.version == 1) {
    if (!vlans_agree(proposal.v1_gid, accept.gid)) return tl::unexpected(R::kVlan);
    return terms_v1(kConnectionsPerGroupV1);
  }
  Terms terms;
  terms.eid = accept.eid;
  terms.max_connections = proposal.v2->max_connections;
  terms.max_links = proposal.v2->max_links;
  if (!accept.first_contact) return terms;
  if (!accept.first_contact_v2) return tl::unexpected(R::kModeMismatch);
  const wire::FirstContact& first = *accept.first_contact_v2;
  terms.release = first.release;
  if (first.release > proposal.v2->release) return tl::unexpected(R::kReleaseMismatch);
  if (first.release == 0) {
    fix_limits(terms);
    return terms;
  }
  if (first.max_connections < kConnectionsPerGroupMin ||
      first.max_connections > proposal.v2->max_connections)
    return tl::unexpected(R::kMaxConnectionsMismatch);
  if (first.max_links < 1 || first.max_links > proposal.v2->max_links)
    return tl::unexpected(R::kMaxLinksMismatch);
  terms.max_connections = first.max_connections;
  terms.max_links = first.max_links;
  return terms;
}

Judgement<Terms> judge_confirm(const wire::AcceptConfirm& confirm,
                               const wire::AcceptConfirm& accept, const Terms& terms) {
  using R = FallbackReason;
  if (confirm.version != accept.version) return tl::unexpected(R::kVersionMismatch);
  if (confirm.path != wire::ClcPath::kSmcr) return tl::unexpected(R::kModeMismatch);
  if (confirm.first_contact != accept.first_contact) return tl::unexpected(R::kSyncError);
  if (!confirm.first_contact || confirm.version == 1) return terms;
  if (!confirm.first_contact_v2) return tl::unexpected(R::kModeMismatch);
  const wire::FirstContact& first = *confirm.first_contact_v2;
  if (first.release != terms.release) return tl::unexpected(R::kReleaseMismatch);
  if (terms.release == 0) return terms;
  if (first.max_connections != terms.max_connections)
    return tl::unexpected(R::kMaxConnectionsMismatch);
  if (first.max_links != terms.max_links) return tl::unexpected(R::kMaxLinksMismatch);
  return terms;
}

wire::AcceptConfirm make_answer(wire::ClcType type, const LocalOffer& offer, const Terms& terms,
                                bool first_contact, bool direct) {
  wire::AcceptConfirm answer;
  answer.type = type;
  answer.version = terms.version;
  answer.first_contact = first_contact;
  answer.peer_id = offer.peer_id;
  if (terms.version == 1) return answer;
  answer.eid = terms.eid;
  if (!first_contact) return answer;
  wire::FirstContact first;
  first.direct = direct;
  first.release = terms.release;
  first.host_name = padded(offer.host_name);
  first.max_connections = terms.release >= 1 ? terms.max_connections : std::uint8_t{0};
  first.max_links = terms.release >= 1 ? terms.max_links : std::uint8_t{0};
  answer.first_contact_v2 = first;
  return answer;
}

}  // namespace fairlead::smc
