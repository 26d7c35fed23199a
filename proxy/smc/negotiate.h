// What the two sides of a handshake must agree on, as pure judgements: a message in, terms or the
// reason for TCP out. Read first: docs/wire.md, "Proposal", "Accept and Confirm".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/fallback.h"
#include "base/ids.h"
#include "wire/clc.h"

namespace fairlead::smc {

inline constexpr std::uint8_t kConnectionsPerGroupMin = 16;
inline constexpr std::uint8_t kLinksPerGroupMax = 3;  // Linux: 2

// What this worker offers in every handshake.
struct LocalOffer {
  PeerId peer_id;
  std::vector<wire::Eid> ueids;  // 1 to wire::kUeidsMax, in order of preference
  std::uint8_t max_connections = 255;
  std::uint8_t max_links = 1;
  std::string host_name;
};

struct Terms {
  std::uint8_t version = 2;
  std::uint8_t release = 1;
  std::uint8_t max_connections = 255;
  std::uint8_t max_links = 1;
  wire::Eid eid;
  friend bool operator==(const Terms&, const Terms&) = default;
};

template <class T>
using Judgement = tl::expected<T, FallbackReason>;

// The port that the client wants to use, and what it says of its shared-memory fabric.
wire::Proposal make_proposal(const LocalOffer& offer, const Gid& gid, const Mac& mac,
                             const wire::VendorArea& vendor);

// Server, on a Proposal. The client's order of UEIDs decides, as in Linux. Whether a device reaches
// the client is not judged here.
Judgement<Terms> judge_proposal(const wire::Proposal& proposal, const LocalOffer& offer);

// Client, on the Accept that answers `proposal`.
Judgement<Terms> judge_accept(const wire::AcceptConfirm& accept, const wire::Proposal& proposal);

// Server, on the Confirm that answers `accept`.
Judgement<Terms> judge_confirm(const wire::AcceptConfirm& confirm,
                               const wire::AcceptConfirm& accept, const Terms& terms);

// The common part of an Accept or Confirm; the caller fills in link and buffer.
wire::AcceptConfirm make_answer(wire::ClcType type, const LocalOffer& offer, const Terms& terms,
                                bool first_contact, bool direct);

}  // namespace fairlead::smc
