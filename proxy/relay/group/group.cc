#include "relay/group/group.h"

#include "base/log.h"
#include "relay/connection/connection_owner.h"

namespace fairlead::relay {

Group::Group(GroupResources& shared, const GroupStart& start, TimePoint now)
    : shared_(shared),
      start_(start),
      protocol_(start.role, start.terms, shared.times, now,
                static_cast<std::uint8_t>(start.links_max)),
      table_(start.random),
      transport_(shared, start_, this),
      memory_(shared, start_, protocol_, transport_),
      peer_memory_(*shared.budget, protocol_, transport_, table_),
      sender_(shared, protocol_, transport_, memory_, table_, *this),
      report_(*shared.stats),
      timer_(*shared.timers, [this] {
        const TimePoint due = shared_.now();
        protocol_.handle_deadline(due);
        protocol_changed(due);
      }) {}

Result<std::unique_ptr<Group>> Group::create(GroupResources& shared, const GroupStart& start,
                                             TimePoint now) {
  auto charge = MemoryCharge::take(*shared.budget, MemoryUse::kMessages, kGroupBytes,
                                   shared.budget->limit_bytes() / kGroupsLeave);
  if (!charge) return Error{Errc::kMemoryLimit, kBudgetSpent};
  std::unique_ptr<Group> group(new Group(shared, start, now));
  group->charge_ = std::move(*charge);
  SMC_TRY(group->create_link(0, {start.device, start.port}));
  group->report_.count(group->protocol_);
  return group;
}

Group::~Group() {
  // Destroy queue pairs before the slabs, whose memory the peer may still be writing.
  for (smc::LinkIndex i = 0; i < smc::kLinksMax; ++i) transport_.destroy(i);
}

void Group::protocol_changed(TimePoint now) {
  memory_.bar_refused_slabs();
  // Not from within a task, which may be about to name a slab.
  if (!performing_) memory_.return_slabs(sender_.done_requests(), now);
  perform_tasks(now);
  report_.count(protocol_);
  set_timer();
  sender_.schedule_llc();
  shared_.changed.push_back(this);
}

void Group::set_timer() {
  timer_.set(earliest(protocol_.next_deadline(), memory_.next_deadline()));
}

// Connections: their place, and the way to the peer's memory.

Result<Group::Member> Group::join(const BufferSizes& sizes, smc::LinkIndex link) {
  const std::optional<AlertToken> token = table_.reserve();
  if (!token) return Error{Errc::kExhausted, "connections of the link group"};
  const Result<smc::ElementId> element = memory_.take_element(sizes);
  if (!element) {
    table_.release(*token);
    return element.error();
  }
  const TimePoint now = shared_.now();
  const Result<bool> listed = memory_.list_slabs(link);
  if (!listed) {
    memory_.release_element(*element, false, now);
    table_.release(*token);
    return listed.error();
  }
  if (*listed) {
    protocol_.start_next_flow(now);
    protocol_changed(now);
  }
  protocol_.connection_added(link);
  set_timer();
  return Member{*token, *element};
}

void Group::leave(const Member& member, smc::LinkIndex link, bool quarantine, TimePoint now) {
  table_.release(member.token);
  memory_.release_element(member.element, quarantine, now);
  protocol_.connection_removed(link, now);
  set_timer();
  if (memory_.quarantine_full() && protocol_.links().connections() == 0 && protocol_.usable())
    terminate("too many connections that the peer never finished");
}

Result<void> Group::take_send_ring(SmcRelay& relay, const RingSizes& sizes) {
  if (transport_.remote_memory_addressable()) {
    relay.buffers().reserved() =
        SMC_TRY(peer_memory_.reserve(sizes.peer_bytes.value_or(relay.buffers().local().size())));
    return {};
  }
  const smc::ElementId ring = SMC_TRY(memory_.take_send_ring(sizes.own));
  relay.buffers().take_send_ring(ring, memory_.send_rings().bytes(ring));
  return {};
}

Result<void> Group::prepare_sending(SmcRelay& relay, const PeerElement& element,
                                    std::optional<smc::LinkIndex> named, AlertToken peer_token) {
  relay.buffers().name_peer(element, named);
  smc::RmbElement found = SMC_TRY(peer_memory_.find(relay.buffers(), relay.link()));
  for (Result<void> open = peer_memory_.open(relay, found); !open;
       open = peer_memory_.open(relay, found)) {
    // The link has died without our noticing. If another link is left, the failure moves the
    // connection to it.
    if (protocol_.links().active_count() <= 1) return open.error();
    const smc::LinkIndex tried = relay.link();
    handle_link_failure(tried, open.error().what, shared_.now());
    if (!protocol_.usable() || relay.link() == tried) return open.error();
    found = SMC_TRY(peer_memory_.find(relay.buffers(), relay.link()));
  }
  SMC_TRY(peer_memory_.claim(relay, found));
  const auto send_ring_bytes = static_cast<std::uint32_t>(relay.buffers().send_ring_bytes().size());
  // If memory is addressable, the peer is Fairlead, which repeats everything.
  const bool reserved = protocol_.links().max() > 1 && send_ring_bytes != 0;
  relay.connection().set_peer(peer_token, found, send_ring_bytes,
                              reserved ? smc::kSwitchReserveBytes : 0);
  return {};
}

void Group::release_sending(SmcRelay& relay) {
  if (const std::optional<smc::ElementId> ring = relay.buffers().release_send_ring()) {
    memory_.release_send_ring(*ring, relay.link(), sender_.last_request(relay.link()),
                              shared_.now());
    set_timer();
  }
  peer_memory_.release(relay);
  sender_.unschedule(relay);
}

// Messages.

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
    // A late message to a connection that is gone, or an invalid one. Neither is answered.
    shared_.stats->cdc_rejected.add();
    return;
  }
  if (const Result<void> taken = relay->connection().handle_cdc(*cdc, now); !taken) {
    shared_.stats->cdc_rejected.add();
    shared_.lines.write(LogLevel::kWarn, "smc.cdc", "violation", now, [&](LogEvent& line) {
      line.field("group", start_.id)
          .field("link", std::uint64_t{link})
          .code("token", cdc->token.value)
          .field("what", taken.error().what);
    });
  }
  relay->owner().handle_connection_event();
}

void Group::handle_llc(smc::LinkIndex link, std::span<const std::byte> message, TimePoint now) {
  shared_.stats->llc_received.add();
  const Result<wire::LlcMessage> llc = wire::decode_llc(message);
  if (!llc) {
    shared_.stats->llc_rejected.add();
    shared_.lines.write(LogLevel::kDebug, "smc.llc", "rejected", now, [&](LogEvent& line) {
      line.field("group", start_.id).field("what", llc.error().what);
    });
    // The type is known, so what the peer has told about its memory and links is not reliable.
    if (llc.error().code != Errc::kMalformed) return;
    protocol_.terminate(wire::DeleteLinkReason::kProtocolViolation, false,
                        "the peer broke the protocol of links");
    return protocol_changed(now);
  }
  const Result<void> writable = peer_memory_.check(link, *llc);
  protocol_.handle_llc(link, *llc, now, writable ? nullptr : writable.error().what);
  protocol_changed(now);
}

void Group::doubt(smc::LinkIndex link, smc::Doubt why, TimePoint now) {
  protocol_.doubt(link, why, now);
  set_timer();
}

void Group::handle_event(const smc::GroupEvent& event) {
  if (event.kind == smc::GroupEvent::Kind::kLinkTested)
    transport_.set_round_trip(event.link, event.round_trip);
  if (event.kind == smc::GroupEvent::Kind::kRkeyDeleted) peer_memory_.forget(event.rkey);
}

// Links.

void Group::start_first_contact(TimePoint now) {
  const rdma::PeerEndpoint& peer = transport_.peer(0);
  protocol_.start_first_contact(transport_.identity(0), {peer.gid, peer.mac, peer.queue_pair}, now);
  protocol_changed(now);
}

Result<void> Group::create_link(smc::LinkIndex link, const LinkTransport::PortCandidate& at) {
  sender_.reset_link(link);
  return transport_.create(link, at, memory_);
}

bool Group::fail_link(smc::LinkIndex link) {
  if (!transport_.fail(link)) return false;
  sender_.handle_link_failed(link);
  return true;
}

void Group::handle_link_failure(smc::LinkIndex link, const char* why, TimePoint now) {
  if (!fail_link(link)) return;
  // A peer that has terminated the group takes its queue pair away.
  if (!protocol_.terminated()) shared_.stats->link_failed.add();
  protocol_.handle_link_down(link, now, why);
  protocol_changed(now);
}

void Group::perform_tasks(TimePoint now) {
  // If a task fails, it creates others; the loop below finds them.
  if (performing_) return;
  performing_ = true;
  while (const std::optional<smc::LinkTask> task = protocol_.poll_task(now)) {
    switch (task->kind) {
      case smc::LinkTask::Kind::kPrepare:
        prepare_link(*task, now);
        break;
      case smc::LinkTask::Kind::kConnect:
        connect_link(*task, now);
        break;
      case smc::LinkTask::Kind::kMove:
        move_connections(*task, now);
        break;
      case smc::LinkTask::Kind::kRelease:
        (void)fail_link(task->link);
        break;
    }
  }
  performing_ = false;
}

void Group::prepare_link(const smc::LinkTask& task, TimePoint now) {
  const auto at =
      protocol_.usable() ? transport_.choose_port(task.peer, protocol_.links()) : std::nullopt;
  if (!at || !create_link(task.link, *at)) return protocol_.task_done(task, now);
  memory_.set_keys(task.link);
  const PacketSeq first_psn = transport_.queue_pair(task.link)->first_psn();
  protocol_.task_done(task, now,
                      smc::LinkOffer{transport_.identity(task.link), first_psn, at->port.mtu});
}

void Group::connect_link(const smc::LinkTask& task, TimePoint now) {
  if (const Result<void> connected = transport_.connect(task.link, task.peer); !connected)
    return handle_link_failure(task.link, connected.error().what, now);
  protocol_.task_done(task, now);
}

void Group::move_connections(const smc::LinkTask& task, TimePoint now) {
  unsigned moved = 0;
  bool reached = true;
  table_.for_each([&](SmcRelay& relay) {
    if (relay.link() != task.link) return;
    relay.move_to(task.to);
    ++moved;
    reached = move(relay) && reached;
  });
  shared_.stats->link_moved.add();
  shared_.stats->connections_moved.add(moved);
  shared_.lines.write(LogLevel::kInfo, "smc.link", "connections_moved", now, [&](LogEvent& line) {
    line.field("group", start_.id)
        .field("from", std::uint64_t{protocol_.links()[task.link]->number().value})
        .field("to", std::uint64_t{protocol_.links()[task.to]->number().value})
        .field("connections", std::uint64_t{moved});
  });
  if (!reached) handle_link_failure(task.to, "the peer's memory is out of reach there", now);
}

// False if the new link is useless as well. The connection then keeps its old way: until it learns
// that it is lost, it may still write there, into memory that nobody reads any more.
bool Group::move(SmcRelay& relay) {
  // Without an element of the peer the connection still negotiates, and will learn one for any
  // link.
  if (relay.connection().closing().lost() || relay.buffers().peer().size_bytes == 0) return true;
  Result<smc::RmbElement> element = peer_memory_.find(relay.buffers(), relay.link());
  if (!element) {
    shared_.lines.write(LogLevel::kWarn, "smc.link", "connection_left_behind", shared_.now(),
                        [&](LogEvent& line) {
                          line.field("group", start_.id)
                              .code("token", relay.connection().local_token().value)
                              .field("why", element.error().what);
                        });
    relay.connection().abort();
    element = relay.connection().tx().element();
  } else if (!peer_memory_.open(relay, *element)) {
    return false;
  }
  relay.connection().handle_link_switched(*element);
  sender_.schedule(relay);
  relay.owner().handle_connection_event();
  return true;
}

void Group::handle_device_down(const LinkDevice& device, TimePoint now) {
  for (smc::LinkIndex i = 0; i < smc::kLinksMax; ++i)
    if (transport_.queue_pair(i) && &transport_.device(i) == &device)
      handle_link_failure(i, "the device has failed", now);
}

void Group::handle_port(const LinkDevice& device, PortNumber port, PortChange change,
                        TimePoint now) {
  return change == PortChange::kUp ? handle_port_up(device, port, now)
                                   : handle_port_down(device, port, now);
}

void Group::handle_port_down(const LinkDevice& device, PortNumber port, TimePoint now) {
  const rdma::Port& changed = device.device->ports()[port.value - 1U];
  // The event is stale: the port is active again, and its links have survived the outage.
  if (changed.state == rdma::PortState::kActive) return;
  const smc::LinkSet& links = protocol_.links();
  const auto hit = [&](smc::LinkIndex i) { return links[i] && transport_.is_at(i, device, port); };
  bool another = false;
  bool lost = false;
  for (smc::LinkIndex i = 0; i < smc::kLinksMax; ++i)
    if (links.active(i)) (hit(i) ? lost : another) = true;
  if (!another) return;
  for (smc::LinkIndex i = 0; i < smc::kLinksMax; ++i)
    if (hit(i)) handle_link_failure(i, "its port went down", now);
  // The port's link was found dead before, and its replacement may have been tried on this port
  // again.
  if (!lost && links.active_count() < links.max() && transport_.leads_to_peers(device, changed))
    want_link(now);
}

void Group::handle_port_up(const LinkDevice& device, PortNumber port, TimePoint now) {
  if (protocol_.links().max() <= 1) return;
  for (const LinkTransport::PortCandidate& at : transport_.candidates())
    if (at.device == &device && at.port.number == port) return want_link(now);
}

void Group::want_link(TimePoint now) {
  std::vector<Gid> gids;
  for (const LinkTransport::PortCandidate& at : transport_.candidates())
    gids.push_back(at.port.gid);
  protocol_.handle_ports_changed(gids, now);
  protocol_changed(now);
}

// The end.

void Group::terminate(const char* why) {
  protocol_.terminate(wire::DeleteLinkReason::kOperator, true, why);
  protocol_changed(shared_.now());
}

bool Group::termination_complete() const {
  if (!sender_.drained()) return false;
  for (smc::LinkIndex i = 0; i < smc::kLinksMax; ++i) {
    // Without a protocol link, the queue pair was never connected.
    if (!transport_.works(i) || !protocol_.links()[i]) continue;
    const std::uint32_t room = transport_.queue_pair(i)->send_room();
    if (!protocol_.peer_terminated() || room < transport_.send_requests_max(i)) return false;
  }
  return true;
}

LinkGroupRow Group::row(unsigned worker, TimePoint now) const {
  LinkGroupRow row = report_.row(start_, protocol_, transport_, memory_, now);
  row.worker = worker;
  return row;
}

}  // namespace fairlead::relay
