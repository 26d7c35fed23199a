// The ports at which links of a group may begin, on all devices of the worker, and the reaction to
// one that comes or goes.

#include <algorithm>

#include "relay/group.h"

namespace fairlead::relay {

// Ports that work and lead to the peers of the first link; those of its own device come first.
std::vector<Group::Outlet> Group::outlets() const {
  const LinkDevice& first = *footholds_[0].on;
  std::vector<Outlet> own, others;
  for (LinkDevice* device : shared_.devices)
    for (const rdma::Port& port : device->device->ports())
      if (usable(port) && alike(*first.reachability, start_.port, *device->reachability, port))
        (device == &first ? own : others).push_back({device, port});
  own.insert(own.end(), others.begin(), others.end());
  return own;
}

// A port without a link, else one whose link can be spared. One port may carry two links only where
// the other side has two, and only if no two other links are apart: it would be deleted at once.
std::optional<Group::Outlet> Group::outlet_for_link(const smc::LinkPeer& peer) const {
  Place place = *start_.place;
  const bool server = protocol_.role() == smc::GroupRole::kServer;
  place.peer_gid = server ? lanes_[protocol_.links().least_used()].peer.gid : peer.identity.gid;
  std::vector<Outlet> fitting;
  for (const Outlet& outlet : outlets())
    if (const auto port = outlet.device->reachability->choose_port({&outlet.port, 1}, place))
      fitting.push_back({outlet.device, *port});
  for (const bool may_be_spare : {false, true})
    for (const Outlet& outlet : fitting)
      if (!outlet_taken(outlet, may_be_spare)) return outlet;
  if (fitting.empty()) return std::nullopt;
  const bool crowded = server ? protocol_.links().active_count() > 1
                              : leads_to(peer.identity.gid, peer.identity.mac) ||
                                    protocol_.links().type() == smc::GroupType::kSymmetric;
  if (crowded) return std::nullopt;
  return fitting.front();
}

bool Group::outlet_taken(const Outlet& outlet, bool may_be_spare) const {
  for (smc::LinkIndex i = 0; i < smc::kLinksMax; ++i)
    if (protocol_.links().active(i) && &device_of(lanes_[i]) == outlet.device &&
        lanes_[i].port.number == outlet.port.number &&
        !(may_be_spare && protocol_.links().is_asymmetric(i)))
      return true;
  return false;
}

void Group::handle_device_down(const LinkDevice& device, TimePoint now) {
  for (smc::LinkIndex i = 0; i < smc::kLinksMax; ++i)
    if (lanes_[i].queue_pair && &device_of(lanes_[i]) == &device)
      handle_link_failure(i, "the device has failed", now);
}

bool Group::uses(const LinkDevice& device) const {
  return std::any_of(footholds_.begin(), footholds_.end(),
                     [&](const Foothold& foothold) { return foothold.on == &device; });
}

void Group::handle_port_down(const LinkDevice& device, PortNumber port, TimePoint now) {
  const rdma::Port& changed = device.device->ports()[port.value - 1U];
  // Old news: what has survived the outage is needed more than ever when the next one is at hand.
  if (changed.state == rdma::PortState::kActive) return;
  const auto hit = [&](smc::LinkIndex i) {
    return protocol_.links()[i] && &device_of(lanes_[i]) == &device &&
           lanes_[i].port.number == port;
  };
  bool another = false;
  bool lost = false;
  for (smc::LinkIndex i = 0; i < smc::kLinksMax; ++i)
    if (protocol_.links().active(i)) (hit(i) ? lost : another) = true;
  if (!another) return;
  for (smc::LinkIndex i = 0; i < smc::kLinksMax; ++i)
    if (hit(i)) handle_link_failure(i, "its port went down", now);
  // Its link was found dead before, and what was tried instead may have led to this port again.
  if (!lost && protocol_.links().active_count() < protocol_.links().max() &&
      alike(*footholds_[0].on->reachability, start_.port, *device.reachability, changed))
    want_link(now);
}

void Group::handle_port_up(const LinkDevice& device, PortNumber port, TimePoint now) {
  if (!several_links()) return;
  for (const Outlet& outlet : outlets())
    if (outlet.device == &device && outlet.port.number == port) return want_link(now);
}

void Group::want_link(TimePoint now) {
  std::vector<Gid> gids;
  for (const Outlet& outlet : outlets()) gids.push_back(outlet.port.gid);
  protocol_.handle_ports_changed(gids, now);
  protocol_changed(now);
}

}  // namespace fairlead::relay
