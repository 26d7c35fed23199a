#include "smc/negotiate.h"

#include <algorithm>

#include "base/assert.h"

namespace fairlead::smc {
namespace {

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

}  // namespace

wire::Proposal make_proposal(const LocalOffer& offer, const Gid& gid, const Mac& mac,
                             const wire::VendorArea& vendor) {
  SMC_ASSERT(!offer.ueids.empty() && offer.ueids.size() <= wire::kUeidsMax, offer.ueids.size());
  wire::Proposal proposal;
  proposal.peer_id = offer.peer_id;
  proposal.mac = mac;
  proposal.vendor = vendor;
  wire::ProposalV2 v2;
  for (const wire::Eid& ueid : offer.ueids) v2.ueids.push(ueid);
  v2.gid = gid;
  v2.max_connections = offer.max_connections;
  // Linux takes two at most, and answers a higher number with its own.
  v2.max_links = offer.max_links;
  proposal.v2 = v2;
  return proposal;
}

Judgement<Terms> judge_proposal(const wire::Proposal& proposal, const LocalOffer& offer) {
  using R = FallbackReason;
  const bool v1_offered = offers_smcr(proposal.v1_path);
  const bool v2_offered = proposal.version >= 2 && offers_smcr(proposal.v2_path) && proposal.v2;
  // Version 1 needs RoCEv1 or InfiniBand ports, which no device has.
  if (!v2_offered) return tl::unexpected(v1_offered ? R::kNoRdmaDevice : R::kPeerNoSmc);
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
    // Release 0 cannot negotiate: these are its fixed values.
    terms.max_connections = 255;
    terms.max_links = 2;
  }
  for (const wire::Eid& ueid : v2.ueids.view()) {
    if (std::find(offer.ueids.begin(), offer.ueids.end(), ueid) == offer.ueids.end()) continue;
    terms.eid = ueid;
    return terms;
  }
  return tl::unexpected(R::kNoDevice);
}

Judgement<Terms> judge_accept(const wire::AcceptConfirm& accept, const wire::Proposal& proposal) {
  using R = FallbackReason;
  SMC_ASSERT(proposal.v2.has_value());
  if (accept.version != proposal.version || accept.path != wire::ClcPath::kSmcr)
    return tl::unexpected(R::kModeMismatch);
  Terms terms;
  terms.version = accept.version;
  terms.eid = accept.eid;
  terms.max_connections = proposal.v2->max_connections;
  terms.max_links = proposal.v2->max_links;
  if (!accept.first_contact) return terms;
  if (!accept.first_contact_v2) return tl::unexpected(R::kModeMismatch);
  const wire::FirstContact& first = *accept.first_contact_v2;
  terms.release = first.release;
  if (first.release > proposal.v2->release) return tl::unexpected(R::kReleaseMismatch);
  if (first.release == 0) {
    terms.max_connections = 255;
    terms.max_links = 2;
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
  if (confirm.version != accept.version || confirm.path != wire::ClcPath::kSmcr)
    return tl::unexpected(R::kModeMismatch);
  if (confirm.first_contact != accept.first_contact) return tl::unexpected(R::kSyncError);
  if (!confirm.first_contact) return terms;
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
