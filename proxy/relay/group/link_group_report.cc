#include "relay/group/link_group_report.h"

namespace fairlead::relay {
namespace {

unsigned mtu_bytes(Mtu mtu) { return 128U << static_cast<unsigned>(mtu); }

const char* link_state_name(smc::LinkState state) {
  switch (state) {
    case smc::LinkState::kActivating:
      return "activating";
    case smc::LinkState::kActive:
      return "active";
    case smc::LinkState::kDown:
      return "down";
  }
  return "?";
}

Counter& counter_of(smc::GroupType type, WorkerStats& stats) {
  switch (type) {
    case smc::GroupType::kNone:
      return stats.link_groups_none;
    case smc::GroupType::kSingle:
      return stats.link_groups_single;
    case smc::GroupType::kSymmetric:
      return stats.link_groups_symmetric;
    case smc::GroupType::kAsymmetricLocal:
      return stats.link_groups_asymmetric_local;
    case smc::GroupType::kAsymmetricPeer:
      return stats.link_groups_asymmetric_peer;
  }
  return stats.link_groups_none;
}

}  // namespace

LinkGroupReport::~LinkGroupReport() { count(std::nullopt, 0); }

void LinkGroupReport::count(std::optional<smc::GroupType> type, unsigned links) {
  stats_.links_active.add(links);
  stats_.links_active.sub(counted_links_);
  counted_links_ = links;
  if (counted_type_ == type) return;
  if (counted_type_) counter_of(*counted_type_, stats_).sub();
  if (type) counter_of(*type, stats_).add();
  counted_type_ = type;
}

void LinkGroupReport::set_peer_host(const std::array<char, 32>& padded) {
  peer_host_.clear();
  for (char c : padded) {
    if (c <= ' ' || static_cast<unsigned char>(c) >= 0x7f) break;
    peer_host_ += c;
  }
}

LinkGroupRow LinkGroupReport::row(const GroupStart& start, const smc::LinkGroup& protocol,
                                  const LinkTransport& transport, const GroupMemory& memory,
                                  TimePoint now) const {
  LinkGroupRow row;
  row.id = start.id;
  row.role = protocol.role() == smc::GroupRole::kServer ? "server" : "client";
  row.type = smc::to_string(protocol.links().type());
  row.peer_id = to_string(start.peer);
  row.peer_host = peer_host_;
  const smc::Terms& terms = protocol.terms();
  row.version = terms.version == 1 ? "1" : terms.release >= 1 ? "2.1" : "2.0";
  if (terms.version != 1) row.ueid = wire::to_string(terms.eid);
  row.connections = protocol.links().connections();
  row.connections_max = protocol.terms().max_connections;
  row.links_max = protocol.links().max();
  row.rmb_bytes = memory.rmbs().total_bytes();
  if (const auto idle = protocol.links().idle_since())
    row.idle_seconds = std::chrono::duration<double>(now - *idle).count();
  for (smc::LinkIndex i = 0; i < smc::kLinksMax; ++i) {
    const std::optional<smc::Link>& link = protocol.links()[i];
    if (!link) continue;
    LinkRow entry;
    entry.group = start.id;
    entry.number = link->number().value;
    entry.state = link_state_name(link->state());
    entry.rnic = transport.device(i).device->name();
    entry.port = transport.port(i).number.value;
    entry.local_gid = to_string(transport.port(i).gid);
    entry.peer_gid = to_string(transport.peer(i).gid);
    entry.local_qp = link->local().queue_pair.value;
    entry.peer_qp = transport.peer(i).queue_pair.value;
    entry.mtu_bytes = mtu_bytes(transport.peer(i).mtu);
    entry.connections = protocol.links().connections(i);
    entry.rtt_seconds = std::chrono::duration<double>(transport.round_trip(i)).count();
    row.links.push_back(entry);
  }
  return row;
}

}  // namespace fairlead::relay
