#include "relay/group.h"

#include <algorithm>

#include "base/assert.h"
#include "base/log.h"

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

Group::Group(GroupResources& shared, std::string id, smc::GroupRole role, const PeerId& peer,
             const smc::Terms& terms, std::uint32_t random, TimePoint now)
    : shared_(shared),
      id_(std::move(id)),
      protocol_(role, peer, terms, shared.times, now),
      table_(random),
      timer_(*shared.timers, [this] {
        protocol_.handle_deadline(shared_.now());
        protocol_changed();
      }) {}

Result<std::unique_ptr<Group>> Group::create(GroupResources& shared, std::string id,
                                             smc::GroupRole role, const PeerId& peer,
                                             const smc::Terms& terms, const rdma::Port& port,
                                             std::uint32_t random, TimePoint now) {
  std::unique_ptr<Group> group(new Group(shared, std::move(id), role, peer, terms, random, now));
  group->domain_ = shared.receive_domain;
  if (shared.device->capabilities().receive_queue_crosses_domains) {
    // A domain of its own makes this peer's keys worthless to every other.
    group->own_domain_ = SMC_TRY(shared.device->create_protection_domain());
    group->domain_ = group->own_domain_.get();
  }
  group->rmbs_ =
      std::make_unique<BufferSlabs>(*shared.device, *group->domain_, *shared.budget, *shared.stats);
  group->staging_ =
      std::make_unique<BufferSlabs>(*shared.device, *group->domain_, *shared.budget, *shared.stats);
  rdma::QueuePairOptions options;
  options.domain = group->domain_;
  options.receive_queue = shared.receive_queue;
  options.port = port.number;
  options.gid = port.gid;
  options.send_requests =
      std::min(kSendRequestsPerLink, shared.device->capabilities().send_requests_max);
  group->lanes_[0].queue_pair = SMC_TRY(shared.device->create_queue_pair(options));
  group->port_ = port;
  group->identity_ = {group->port_.gid, group->port_.mac, group->lanes_[0].queue_pair->number()};
  group->count_state(true);
  return group;
}

Group::~Group() {
  // What could not be made whole was never counted.
  if (lanes_[0].queue_pair) count_state(false);
  // Before the slabs, whose memory the peer might still be writing.
  for (Lane& lane : lanes_) lane.queue_pair.reset();
}

void Group::count_state(bool present) {
  Counter& counter =
      protocol_.usable() ? shared_.stats->link_groups_single : shared_.stats->link_groups_none;
  if (!present) {
    (counted_active_ ? shared_.stats->link_groups_single : shared_.stats->link_groups_none).sub();
    if (counted_active_) shared_.stats->links_active.sub();
    return;
  }
  counter.add();
  counted_active_ = protocol_.usable();
  if (counted_active_) shared_.stats->links_active.add();
}

void Group::protocol_changed() {
  if (counted_active_ != protocol_.usable()) {
    count_state(false);
    count_state(true);
  }
  timer_.set(protocol_.next_deadline());
  llc_due_ = true;
  if (on_protocol_news) on_protocol_news(*this);
}

Result<void> Group::connect_first_link(const rdma::PeerEndpoint& peer, TimePoint now) {
  SMC_TRY(lanes_[0].queue_pair->connect(peer));
  lanes_[0].peer = peer;
  protocol_.start_first_contact(identity_, {peer.gid, peer.mac, peer.queue_pair}, now);
  protocol_changed();
  return {};
}

smc::LinkIndex Group::link_of(QpNumber local_queue_pair) const {
  for (smc::LinkIndex i = 0; i < smc::kLinksMax; ++i)
    if (lanes_[i].queue_pair && lanes_[i].queue_pair->number() == local_queue_pair) return i;
  SMC_UNREACHABLE();
}

std::optional<smc::LinkIndex> Group::link_to(QpNumber peer_queue_pair) const {
  for (smc::LinkIndex i = 0; i < smc::kLinksMax; ++i)
    if (lanes_[i].queue_pair && !lanes_[i].failed && lanes_[i].peer.queue_pair == peer_queue_pair)
      return i;
  return std::nullopt;
}

Result<Group::Seat> Group::take_seat(const BufferSizes& sizes, smc::LinkIndex link) {
  const std::optional<AlertToken> token = table_.reserve();
  if (!token) return Error{Errc::kExhausted, "connections of the link group"};
  const Result<smc::ElementId> element = rmbs_->take(sizes);
  if (!element) {
    table_.release(*token);
    return element.error();
  }
  protocol_.connection_added(link);
  timer_.set(protocol_.next_deadline());
  return Seat{*token, *element};
}

void Group::leave_seat(const Seat& seat, smc::LinkIndex link, bool quarantine, TimePoint now) {
  table_.release(seat.token);
  if (quarantine)
    ++quarantined_;
  else
    rmbs_->release(seat.element);
  protocol_.connection_removed(link, now);
  timer_.set(protocol_.next_deadline());
  if (quarantined_ >= kQuarantinedMax && protocol_.connection_count() == 0 && protocol_.usable())
    terminate("too many connections that the peer never finished");
}

Result<void> Group::take_send_ring(SmcRelay& relay, const BufferSizes& sizes) {
  if (shared_.device->capabilities().remote_memory_addressable) return {};
  const smc::ElementId staging = SMC_TRY(staging_->take(sizes));
  relay.buffers.staging = staging;
  relay.buffers.staging_bytes = staging_->bytes(staging);
  return {};
}

Result<void> Group::prepare_sending(SmcRelay& relay, const smc::RmbElement& element,
                                    AlertToken peer_token) {
  Lane& lane = lanes_[relay.link];
  if (shared_.device->capabilities().remote_memory_addressable) {
    relay.buffers.remote = SMC_TRY(
        lane.queue_pair->remote_memory({element.rkey, element.address}, element.size_bytes));
    relay.connection.set_peer(peer_token, element, 0);
    return {};
  }
  relay.connection.set_peer(peer_token, element,
                            static_cast<std::uint32_t>(relay.buffers.staging_bytes.size()));
  return {};
}

void Group::release_sending(SmcRelay& relay) {
  if (relay.buffers.staging) staging_->release(*relay.buffers.staging);
  relay.buffers.staging.reset();
  if (relay.in_dirty_list) std::erase(dirty_, &relay);
  relay.in_dirty_list = false;
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
    LogEvent(LogLevel::kWarn, "smc.cdc", "violation")
        .field("group", id_)
        .field("link", std::uint64_t{link})
        .code("token", cdc->token.value)
        .field("what", taken.error().what);
  }
  if (on_connection_news) on_connection_news(*relay);
}

void Group::handle_llc(smc::LinkIndex link, std::span<const std::byte> message, TimePoint now) {
  shared_.stats->llc_received.add();
  const Result<wire::LlcMessage> llc = wire::decode_llc(message);
  if (!llc) {
    shared_.stats->llc_rejected.add();
    LogEvent(LogLevel::kDebug, "smc.llc", "rejected")
        .field("group", id_)
        .field("what", llc.error().what);
    return;
  }
  protocol_.handle_llc(link, *llc, now);
  protocol_changed();
}

void Group::handle_link_failure(smc::LinkIndex link, const char* why, TimePoint now) {
  Lane& lane = lanes_[link];
  if (lane.failed || !lane.queue_pair) return;
  lane.failed = true;
  lane.queue_pair->fail();
  lane.records.clear();
  // A peer that parted from us takes its queue pair away.
  if (!protocol_.terminated()) shared_.stats->link_failed.add();
  protocol_.handle_link_down(link, now, why);
  protocol_changed();
}

void Group::doubt(smc::LinkIndex link, TimePoint now) {
  protocol_.doubt(link, now);
  timer_.set(protocol_.next_deadline());
}

void Group::terminate(const char* why) {
  protocol_.terminate(wire::DeleteLinkReason::kOperator, true, why);
  protocol_changed();
}

bool Group::parted() const {
  if (llc_waiting_ || llc_due_) return false;
  const std::uint32_t all_room =
      std::min(kSendRequestsPerLink, shared_.device->capabilities().send_requests_max);
  for (smc::LinkIndex i = 0; i < smc::kLinksMax; ++i) {
    const Lane& lane = lanes_[i];
    // Without a link the queue pair was never connected.
    if (!lane.queue_pair || lane.failed || !protocol_.link(i)) continue;
    if (!protocol_.peer_parted() || lane.queue_pair->send_room() < all_room) return false;
  }
  return true;
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
  row.id = id_;
  row.worker = worker;
  row.role = protocol_.role() == smc::GroupRole::kServer ? "server" : "client";
  row.type = protocol_.usable() ? "single" : "none";
  row.peer_id = to_string(protocol_.peer());
  row.peer_host = peer_host_;
  row.version = protocol_.terms().release >= 1 ? "2.1" : "2.0";
  row.ueid = wire::to_string(protocol_.terms().eid);
  row.connections = protocol_.connection_count();
  row.connections_max = protocol_.terms().max_connections;
  row.links_max = protocol_.terms().max_links;
  row.rmb_bytes = rmbs_->total_bytes();
  if (const auto idle = protocol_.idle_since())
    row.idle_seconds = std::chrono::duration<double>(now - *idle).count();
  for (smc::LinkIndex i = 0; i < smc::kLinksMax; ++i) {
    const std::optional<smc::Link>& link = protocol_.link(i);
    if (!link) continue;
    LinkRow entry;
    entry.group = id_;
    entry.number = link->number().value;
    entry.state = link_state_name(link->state());
    entry.rnic = shared_.device->name();
    entry.port = port_.number.value;
    entry.local_gid = to_string(port_.gid);
    entry.peer_gid = to_string(lanes_[i].peer.gid);
    entry.local_qp = link->local().queue_pair.value;
    entry.peer_qp = lanes_[i].peer.queue_pair.value;
    entry.mtu_bytes = mtu_bytes(lanes_[i].peer.mtu);
    entry.connections = protocol_.connection_count();
    entry.rtt_seconds = std::chrono::duration<double>(round_trip_).count();
    row.links.push_back(entry);
  }
  return row;
}

}  // namespace fairlead::relay
