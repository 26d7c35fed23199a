// Negotiation of a handshake as pure functions: input is a message, output are the terms or the
// reason for TCP. Read first: docs/wire.md, "Proposal", "Accept and Confirm".
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/fallback.h"
#include "base/ids.h"
#include "base/result.h"
#include "wire/clc.h"

namespace fairlead::smc {

inline constexpr std::uint8_t kConnectionsPerGroupMin = 16;
inline constexpr std::uint8_t kLinksPerGroupMax = 3;  // Linux: 2

// Versions of SMC-R, the newer first; servers prefer it.
inline constexpr std::array<std::uint8_t, 2> kVersions = {2, 1};

// Capabilities that this worker offers in every handshake.
struct LocalOffer {
  PeerId peer_id;
  bool version_1 = true;  // at least one of the two
  bool version_2 = true;
  std::vector<wire::Eid> ueids;  // 1 to wire::kUeidsMax, in order of preference
  std::uint8_t max_connections = 255;
  std::uint8_t max_links = 1;
  std::string host_name;
};

// Subnets and VLAN of the interface of a TCP connection on one side; version 1 compares them.
struct Subnets {
  wire::IpArea area;       // IPv4: of the address of the connection; IPv6: of the whole interface
  std::uint16_t vlan = 0;  // 802.1Q id of the interface; 0: untagged
  friend bool operator==(const Subnets&, const Subnets&) = default;
};

// What a client offers in addition to version 2, or instead of it.
struct OfferV1 {
  Gid gid;
  wire::IpArea area;
};

struct Terms {
  std::uint8_t version = 2;
  std::uint8_t release = 1;  // of version 2; in version 1 always 0
  std::uint8_t max_connections = 255;
  std::uint8_t max_links = 1;
  wire::Eid eid;
  friend bool operator==(const Terms&, const Terms&) = default;
};

template <class T>
using Judgement = Result<T, FallbackReason>;

// Proposal for the port that the client wants to use, with the data about its shared-memory fabric.
// REQUIRES: `v1`, unless offer.version_2
wire::Proposal make_proposal(const LocalOffer& offer, const Gid& gid, const Mac& mac,
                             const wire::VendorArea& vendor,
                             const std::optional<OfferV1>& v1 = std::nullopt);

// Server, on a Proposal, for one of kVersions; kPeerNoSmc if one side does not speak it. The
// client's order of UEIDs decides, as in Linux. Neither the subnet nor whether a device reaches the
// client is judged here.
Judgement<Terms> judge_proposal(const wire::Proposal& proposal, const LocalOffer& offer,
                                std::uint8_t version);

// Server, on a Proposal of version 1 from `client`: the reason for TCP, or empty if none. The
// client must be in a subnet that it names and that this side has as well.
std::optional<FallbackReason> judge_subnet(const wire::IpArea& client_area, const Subnets& own,
                                           const SocketAddress& client);

// The VLAN in a link-local GID of RoCEv1; empty if the GID contains none. Such a GID is made of a
// MAC, and of the VLAN id if the interface has one.
std::optional<std::uint16_t> vlan_of(const Gid& gid);
// False if the GIDs of two ports name different VLANs.
bool vlans_agree(const Gid& one, const Gid& other);

// Client, on the Accept that answers `proposal`.
Judgement<Terms> judge_accept(const wire::AcceptConfirm& accept, const wire::Proposal& proposal);

// Server, on the Confirm that answers `accept`.
Judgement<Terms> judge_confirm(const wire::AcceptConfirm& confirm,
                               const wire::AcceptConfirm& accept, const Terms& terms);

// The common part of an Accept or Confirm; the caller fills in link and buffer.
wire::AcceptConfirm make_answer(wire::ClcType type, const LocalOffer& offer, const Terms& terms,
                                bool first_contact, bool direct);

}  // namespace fairlead::smc
