// What is told of a link group to people and metrics.

#include "relay/group.h"

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

}  // namespace

Counter& Group::counter_of(smc::GroupType type) const {
  WorkerStats& stats = *shared_.stats;
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

void Group::count_state(std::optional<smc::GroupType> type) {
  const unsigned links = type && protocol_.usable() ? protocol_.links().active_count() : 0;
  shared_.stats->links_active.add(links);
  shared_.stats->links_active.sub(counted_links_);
  counted_links_ = links;
  if (counted_type_ == type) return;
  if (counted_type_) counter_of(*counted_type_).sub();
  if (type) counter_of(*type).add();
  counted_type_ = type;
}

void Group::set_peer_host(const std::array<char, 32>& padded) {
  peer_host_.clear();
  for (char c : padded) {
    if (c <= ' ' || static_cast<unsigned char>(c) >= 0x7f) break;
    peer_host_ += c;
  }
}

LinkGroupRow Group::row(unsigned worker, TimePoint now) const {
  LinkGroupRow row;
  row.id = start_.id;
  row.worker = worker;
  row.role = protocol_.role() == smc::GroupRole::kServer ? "server" : "client";
  row.type = smc::to_string(protocol_.links().type());
  row.peer_id = to_string(start_.peer);
  row.peer_host = peer_host_;
  const smc::Terms& terms = protocol_.terms();
  row.version = terms.version == 1 ? "1" : terms.release >= 1 ? "2.1" : "2.0";
  if (terms.version != 1) row.ueid = wire::to_string(terms.eid);
  row.connections = protocol_.links().connections();
  row.connections_max = protocol_.terms().max_connections;
  row.links_max = protocol_.links().max();
  row.rmb_bytes = rmbs_->total_bytes();
  if (const auto idle = protocol_.links().idle_since())
    row.idle_seconds = std::chrono::duration<double>(now - *idle).count();
  for (smc::LinkIndex i = 0; i < smc::kLinksMax; ++i) {
    const std::optional<smc::Link>& link = protocol_.links()[i];
    if (!link) continue;
    LinkRow entry;
    entry.group = start_.id;
    entry.number = link->number().value;
    entry.state = link_state_name(link->state());
    entry.rnic = device_of(lanes_[i]).device->name();
    entry.port = lanes_[i].port.number.value;
    entry.local_gid = to_string(lanes_[i].port.gid);
    entry.peer_gid = to_string(lanes_[i].peer.gid);
    entry.local_qp = link->local().queue_pair.value;
    entry.peer_qp = lanes_[i].peer.queue_pair.value;
    entry.mtu_bytes = mtu_bytes(lanes_[i].peer.mtu);
    entry.connections = protocol_.links().connections(i);
    entry.rtt_seconds = std::chrono::duration<double>(lanes_[i].round_trip).count();
    row.links.push_back(entry);
  }
  return row;
}

}  // namespace fairlead::relay
