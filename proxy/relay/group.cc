#include "relay/group.h"

#include <algorithm>

#include "base/assert.h"
#include "base/log.h"
#include "relay/connection_owner.h"

namespace fairlead::relay {
Group::Group(GroupResources& shared, const GroupStart& start, TimePoint now)
    : shared_(shared),
      start_(start),
      protocol_(start.role, start.terms, shared.times, now,
                static_cast<std::uint8_t>(start.links_max)),
      peer_rings_(*shared.budget),
      table_(start.random),
      timer_(*shared.timers, [this] {
        const TimePoint due = shared_.now();
        protocol_.handle_deadline(due);
        protocol_changed(due);
      }) {}

Result<std::unique_ptr<Group>> Group::create(GroupResources& shared, const GroupStart& start,
                                             TimePoint now) {
  auto charge = MemoryCharge::take(*shared.budget, MemoryUse::kMessages, kGroupBytes,
                                   shared.budget->limit_bytes() / kGroupsLeave);
  if (!charge) return Error{Errc::kExhausted, kBudgetSpent};
  std::unique_ptr<Group> group(new Group(shared, start, now));
  group->charge_ = std::move(*charge);
  SMC_TRY(group->make_lane(0, {start.device, start.port}));
  group->count_state(group->protocol_.links().type());
  return group;
}

Group::~Group() {
  count_state(std::nullopt);
  // Before the slabs, whose memory the peer might still be writing.
  for (smc::LinkIndex i = 0; i < smc::kLinksMax; ++i) drop_lane(i);
}

void Group::protocol_changed(TimePoint now) {
  bar_refused_slabs();
  return_slabs(now);
  perform_tasks(now);
  count_state(protocol_.links().type());
  set_timer();
  llc_due_ = true;
  shared_.changed.push_back(this);
}

void Group::set_timer() {
  std::optional<TimePoint> due = protocol_.next_deadline();
  if (const auto slabs = slabs_due(); slabs && (!due || *slabs < *due)) due = slabs;
  timer_.set(due);
}

Result<void> Group::connect_first_link(const rdma::PeerEndpoint& peer) {
  SMC_TRY(lanes_[0].queue_pair->connect(peer));
  lanes_[0].peer = peer;
  return {};
}

void Group::start_first_contact(TimePoint now) {
  const rdma::PeerEndpoint& peer = lanes_[0].peer;
  protocol_.start_first_contact(identity(0), {peer.gid, peer.mac, peer.queue_pair}, now);
  protocol_changed(now);
}

smc::LinkIdentity Group::identity(smc::LinkIndex link) const {
  const Lane& lane = lanes_[link];
  return {lane.port.gid, lane.port.mac, lane.queue_pair->number()};
}

bool Group::at_port(const rdma::PeerEndpoint& peer, const Gid& gid, const Mac& mac) const {
  return peer.gid == gid && (protocol_.terms().version != 1 || peer.mac == mac);
}

std::optional<smc::LinkIndex> Group::link_to(QpNumber queue_pair, const Gid& gid,
                                             const Mac& mac) const {
  for (smc::LinkIndex i = 0; i < smc::kLinksMax; ++i)
    if (lanes_[i].queue_pair && lanes_[i].peer.queue_pair == queue_pair &&
        at_port(lanes_[i].peer, gid, mac))
      return i;
  return std::nullopt;
}

bool Group::leads_to(const Gid& peer, const Mac& mac) const {
  for (smc::LinkIndex i = 0; i < smc::kLinksMax; ++i)
    if (protocol_.links().active(i) && at_port(lanes_[i].peer, peer, mac)) return true;
  return false;
}

Result<Group::Seat> Group::take_seat(const BufferSizes& sizes, smc::LinkIndex link) {
  const std::optional<AlertToken> token = table_.reserve();
  if (!token) return Error{Errc::kExhausted, "connections of the link group"};
  const Result<smc::ElementId> element = rmbs_->take(sizes);
  if (!element) {
    table_.release(*token);
    return element.error();
  }
  if (const Result<void> listed = list_slabs(link); !listed) {
    rmbs_->release(*element, shared_.now());
    table_.release(*token);
    return listed.error();
  }
  protocol_.connection_added(link);
  set_timer();
  return Seat{*token, *element};
}

void Group::leave_seat(const Seat& seat, smc::LinkIndex link, bool quarantine, TimePoint now) {
  table_.release(seat.token);
  if (quarantine)
    ++quarantined_;
  else
    rmbs_->release(seat.element, now);
  protocol_.connection_removed(link, now);
  set_timer();
  if (quarantined_ >= kQuarantinedMax && protocol_.links().connections() == 0 && protocol_.usable())
    terminate("too many connections that the peer never finished");
}

Result<void> Group::take_send_ring(SmcRelay& relay, const RingSizes& sizes) {
  if (footholds_[0].on->device->capabilities().remote_memory_addressable) {
    relay.buffers.reserved =
        SMC_TRY(peer_rings_.reserve(sizes.peer_bytes.value_or(relay.buffers.local.size())));
    return {};
  }
  const smc::ElementId staging = SMC_TRY(staging_->take(sizes.own));
  relay.buffers.staging = staging;
  relay.buffers.staging_bytes = staging_->bytes(staging);
  return {};
}

Result<void> Group::prepare_sending(SmcRelay& relay, const PeerElement& element,
                                    std::optional<smc::LinkIndex> named, AlertToken peer_token) {
  relay.buffers.peer = element;
  relay.buffers.named_on = named;
  smc::RmbElement found = SMC_TRY(find_element(relay.buffers, relay.link));
  for (Result<void> open = open_way(relay, found); !open; open = open_way(relay, found)) {
    // A link that has died without our knowing leads nowhere. Where another one is left, the
    // connection is on that afterwards.
    if (protocol_.links().active_count() <= 1) return open.error();
    const smc::LinkIndex tried = relay.link;
    handle_link_failure(tried, open.error().what, shared_.now());
    if (!protocol_.usable() || relay.link == tried) return open.error();
    found = SMC_TRY(find_element(relay.buffers, relay.link));
  }
  if (!relay.buffers.staging && !relay.buffers.peer_ring) {
    const PeerRingId ring{found.rkey, found.address};
    if (auto paid = peer_rings_.claim(relay.buffers.reserved, ring, found.size_bytes); !paid) {
      relay.buffers.remote = {};  // nobody keeps the view for who does not pay
      return paid;
    }
    relay.buffers.peer_ring = ring;
  }
  const auto staging_bytes = static_cast<std::uint32_t>(relay.buffers.staging_bytes.size());
  // Where memory is addressable the peer is Fairlead, which repeats everything.
  const bool reserved = several_links() && staging_bytes != 0;
  relay.connection.set_peer(peer_token, found, staging_bytes,
                            reserved ? smc::kSwitchReserveBytes : 0);
  return {};
}

void Group::release_sending(SmcRelay& relay) {
  if (relay.buffers.staging) {
    note_last_writes(relay);
    staging_->release(*relay.buffers.staging, shared_.now());
    set_timer();
  }
  relay.buffers.staging.reset();
  relay.buffers.remote = {};
  if (relay.buffers.peer_ring && peer_rings_.release(*relay.buffers.peer_ring)) {
    drop_views(relay.buffers.peer_ring->rkey);
    drop_views(relay.buffers.peer.rmb.rkey);  // another one after a move
  }
  relay.buffers.peer_ring.reset();
  relay.buffers.reserved = {};
  if (relay.in_dirty_list) std::erase(dirty_, &relay);
  relay.in_dirty_list = false;
}

void Group::forget_peer_rings(RemoteKey rkey) {
  if (peer_rings_.forget(rkey)) drop_views(rkey);
}

// Keys may be the same on all links. What a connection writes to stays, whatever the peer says.
void Group::drop_views(RemoteKey rkey) {
  bool used = false;
  table_.for_each([&](const SmcRelay& relay) {
    used = used || (!relay.buffers.remote.empty() && relay.buffers.peer.rmb.rkey == rkey);
  });
  if (used) return;
  for (const Lane& lane : lanes_)
    if (lane.queue_pair) lane.queue_pair->release_remote_memory(rkey);
}

void Group::handle_message(smc::LinkIndex link, std::span<const std::byte> message, TimePoint now) {
  protocol_.handle_received(link, now);
  if (wire::is_cdc(message))
    handle_cdc(link, message, now);
  else
    handle_llc(link, message, now);
}

void Group::handle_cdc(smc::LinkIndex link, std::span<const std::byte> message, TimePoint now) {
  shared_.stats->cdc_received.add();
  const Result<wire::CdcMessage> cdc = wire::decode_cdc(message);
  SmcRelay* relay = cdc ? table_.find(cdc->token) : nullptr;
  if (relay == nullptr) {
    // A late word to a connection that has gone, or nonsense; neither is answered.
    shared_.stats->cdc_rejected.add();
    return;
  }
  if (const Result<void> taken = relay->connection.handle_cdc(*cdc, now); !taken) {
    shared_.stats->cdc_rejected.add();
    shared_.lines.write(LogLevel::kWarn, "smc.cdc", "violation", now, [&](LogEvent& line) {
      line.field("group", start_.id)
          .field("link", std::uint64_t{link})
          .code("token", cdc->token.value)
          .field("what", taken.error().what);
    });
  }
  relay->owner->handle_connection_event();
}

void Group::handle_llc(smc::LinkIndex link, std::span<const std::byte> message, TimePoint now) {
  shared_.stats->llc_received.add();
  const Result<wire::LlcMessage> llc = wire::decode_llc(message);
  if (!llc) {
    shared_.stats->llc_rejected.add();
    shared_.lines.write(LogLevel::kDebug, "smc.llc", "rejected", now, [&](LogEvent& line) {
      line.field("group", start_.id).field("what", llc.error().what);
    });
    // Of a type that is known: what the peer has told of its memory and links cannot be relied on.
    if (llc.error().code != Errc::kMalformed) return;
    protocol_.terminate(wire::DeleteLinkReason::kProtocolViolation, false,
                        "the peer broke the protocol of links");
    return protocol_changed(now);
  }
  const Result<void> writable = check_memory_of(link, *llc);
  protocol_.handle_llc(link, *llc, now, writable ? nullptr : writable.error().what);
  protocol_changed(now);
}

// Whether the peer's memory that this message makes usable can be written to. It is asked before a
// connection depends on it: a peer that has sent its Confirm, or has answered CONFIRM_LINK, hears
// no Decline.
Result<void> Group::check_memory_of(smc::LinkIndex link, const wire::LlcMessage& message) {
  const smc::RmbKeys& rmbs = protocol_.peer_rmbs();
  if (std::holds_alternative<wire::ConfirmLink>(message.body) && !protocol_.links().active(link)) {
    for (std::size_t row = 0; row < rmbs.rows(); ++row)
      if (const auto& key = rmbs.key(static_cast<smc::RmbRow>(row), link))
        SMC_TRY(check_peer_memory(link, *key));
    return {};
  }
  const auto* announced = std::get_if<wire::ConfirmRkey>(&message.body);
  if (announced == nullptr || announced->kind != wire::LlcKind::kRequest) return {};
  SMC_TRY(check_peer_memory(link, {announced->rkey, announced->address}));
  for (const wire::RkeyOnLink& other : announced->others.view())
    for (smc::LinkIndex on = 0; on < smc::kLinksMax; ++on)
      if (protocol_.links().active(on) && protocol_.links()[on]->number() == other.link)
        SMC_TRY(check_peer_memory(on, {other.rkey, other.address}));
  return {};
}

// An error where memory is addressable, and what begins at the key cannot be written to. A link
// that leads nowhere is noticed elsewhere.
Result<void> Group::check_peer_memory(smc::LinkIndex link, const smc::RmbKey& key) {
  const Lane& lane = lanes_[link];
  if (!lane.queue_pair || !device_of(lane).device->capabilities().remote_memory_addressable)
    return {};
  const auto view = lane.queue_pair->remote_memory({key.rkey, key.address}, 1);
  drop_views(key.rkey);  // nobody uses it yet
  const bool refused =
      !view && (view.error().code == Errc::kNotFound || view.error().code == Errc::kExhausted);
  if (refused) return view.error();
  return {};
}

void Group::doubt(smc::LinkIndex link, smc::Doubt why, TimePoint now) {
  protocol_.doubt(link, why, now);
  set_timer();
}

void Group::terminate(const char* why) {
  protocol_.terminate(wire::DeleteLinkReason::kOperator, true, why);
  protocol_changed(shared_.now());
}

bool Group::parted() const {
  if (llc_waiting_ || llc_due_ || !last_words_.empty()) return false;
  for (smc::LinkIndex i = 0; i < smc::kLinksMax; ++i) {
    const Lane& lane = lanes_[i];
    // Without a link the queue pair was never connected.
    if (!lane.queue_pair || lane.failed || !protocol_.links()[i]) continue;
    const std::uint32_t all_room =
        std::min(kSendRequestsPerLink, device_of(lane).device->capabilities().send_requests_max);
    if (!protocol_.peer_parted() || lane.queue_pair->send_room() < all_room) return false;
  }
  return true;
}

}  // namespace fairlead::relay
