// The links of a group as queue pairs: made, connected and let go as smc::LinkGroup asks for it,
// and what becomes of the connections of one that has failed.

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "relay/connection_owner.h"
#include "relay/group.h"

namespace fairlead::relay {

// The slabs that there are, and those to come, are registered there.
Result<std::size_t> Group::set_foot(LinkDevice& device) {
  for (std::size_t i = 0; i < footholds_.size(); ++i)
    if (footholds_[i].on == &device) return i;
  if (footholds_.size() == smc::kLinksMax) return Error{Errc::kExhausted, "devices of the group"};
  Foothold foothold{&device, SMC_TRY(device.device->create_protection_domain()), nullptr};
  rdma::ProtectionDomain& domain = *foothold.domain;
  if (device.shared_pool == nullptr && device.device->capabilities().shared_receive_queues)
    foothold.own_pool = SMC_TRY(ReceivePool::create(device.receives, *device.device, domain,
                                                    kPoolOfGroup, *shared_.budget));
  if (footholds_.empty()) {
    const auto slabs = [&](rdma::BufferUse use) {
      return std::make_unique<BufferSlabs>(use, *device.device, domain, *shared_.budget,
                                           *shared_.stats);
    };
    rmbs_ = slabs(rdma::BufferUse::kRmb);
    staging_ = slabs(rdma::BufferUse::kSendRing);
  } else {
    SMC_TRY(rmbs_->add_device(*device.device, domain));
    if (const Result<void> added = staging_->add_device(*device.device, domain); !added) {
      rmbs_->remove_device();
      return added.error();
    }
  }
  footholds_.push_back(std::move(foothold));
  return footholds_.size() - 1;
}

// Whose queue the lane's queue pair takes its messages from.
Result<ReceivePool*> Group::pool_for(Lane& lane) {
  const Foothold& foothold = footholds_[lane.foothold];
  if (foothold.own_pool) return foothold.own_pool.get();
  LinkDevice& on = *foothold.on;
  if (on.shared_pool != nullptr) return on.shared_pool;
  lane.own_pool = SMC_TRY(
      ReceivePool::create(on.receives, *on.device, *foothold.domain, kPoolOfLink, *shared_.budget));
  return lane.own_pool.get();
}

Result<void> Group::make_lane(smc::LinkIndex link, const Outlet& outlet) {
  drop_lane(link);
  Lane& lane = lanes_[link];
  lane.foothold = SMC_TRY(set_foot(*outlet.device));
  rdma::QueuePairOptions options;
  options.domain = footholds_[lane.foothold].domain.get();
  options.receive_queue = &SMC_TRY(pool_for(lane))->queue();
  options.port = outlet.port.number;
  options.gid = outlet.port.gid;
  options.prefer_roce_v1 = protocol_.terms().version == 1;
  options.peer = start_.peer;
  rdma::Device& device = *outlet.device->device;
  options.send_requests = std::min(kSendRequestsPerLink, device.capabilities().send_requests_max);
  Result<std::unique_ptr<rdma::QueuePair>> made = device.create_queue_pair(options);
  if (!made) {
    lane.own_pool.reset();
    return made.error();
  }
  lane.queue_pair = std::move(*made);
  lane.port = outlet.port;
  outlet.device->queue_pairs[lane.queue_pair->number()] = {this, link};
  return {};
}

void Group::drop_lane(smc::LinkIndex link) {
  Lane& lane = lanes_[link];
  if (!lane.queue_pair) return;
  device_of(lane).queue_pairs.erase(lane.queue_pair->number());
  lane.queue_pair.reset();  // before its pool
  const std::uint64_t next_id = lane.next_id;
  lane = {};
  lane.next_id = next_id;
  lane.done_id = next_id - 1;
}

// Nothing goes over it any more, and nothing that was posted to it will be reported.
bool Group::fail_lane(smc::LinkIndex link) {
  Lane& lane = lanes_[link];
  if (lane.failed || !lane.queue_pair) return false;
  lane.failed = true;
  lane.queue_pair->fail();
  lane.records.clear();
  // A connection that is still there says everything again by itself.
  for (const LastWord& word : lane.last_words)
    if (table_.find(word.token) == nullptr) last_words_.push_back(word);
  lane.last_words.clear();
  return true;
}

void Group::handle_link_failure(smc::LinkIndex link, const char* why, TimePoint now) {
  if (!fail_lane(link)) return;
  // A peer that parted from us takes its queue pair away.
  if (!protocol_.terminated()) shared_.stats->link_failed.add();
  protocol_.handle_link_down(link, now, why);
  protocol_changed(now);
}

void Group::perform_tasks(TimePoint now) {
  // What goes wrong with one task makes others, which the loop below finds.
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
        (void)fail_lane(task->link);
        break;
    }
  }
  performing_ = false;
}

void Group::prepare_link(const smc::LinkTask& task, TimePoint now) {
  const auto outlet = protocol_.usable() ? outlet_for_link(task.peer) : std::nullopt;
  if (!outlet || !make_lane(task.link, *outlet)) return protocol_.task_done(task, now);
  for (std::size_t slab = 0; slab < rows_.size(); ++slab)
    if (rows_[slab])
      protocol_.local_rmbs().set_key(*rows_[slab], task.link,
                                     rmb_key(static_cast<std::uint16_t>(slab), task.link));
  const PacketSeq first_psn = lanes_[task.link].queue_pair->first_psn();
  protocol_.task_done(task, now, smc::LinkOffer{identity(task.link), first_psn, outlet->port.mtu});
}

void Group::connect_link(const smc::LinkTask& task, TimePoint now) {
  Lane& lane = lanes_[task.link];
  const smc::LinkIdentity& peer = task.peer.identity;
  const std::optional<bool> direct = device_of(lane).reachability->direct(lane.port.gid, peer.gid);
  lane.peer = {peer.gid,        peer.mac,
               peer.queue_pair, task.peer.first_psn,
               task.peer.mtu,   direct.value_or(true)};
  if (const Result<void> connected = lane.queue_pair->connect(lane.peer); !connected)
    return handle_link_failure(task.link, connected.error().what, now);
  protocol_.task_done(task, now);
}

void Group::move_connections(const smc::LinkTask& task, TimePoint now) {
  unsigned moved = 0;
  bool reached = true;
  table_.for_each([&](SmcRelay& relay) {
    if (relay.link != task.link) return;
    relay.link = task.to;
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

// False when the new link is of no use either. The connection keeps its old way then: until it is
// told that it is lost it may still write there, into memory that nobody looks at any more.
bool Group::move(SmcRelay& relay) {
  // Without an element of the peer's it is in negotiation, and will be told of one for any link.
  if (relay.connection.lost() || relay.buffers.peer.size_bytes == 0) return true;
  Result<smc::RmbElement> element = find_element(relay.buffers, relay.link);
  if (!element) {
    shared_.lines.write(LogLevel::kWarn, "smc.link", "connection_left_behind", shared_.now(),
                        [&](LogEvent& line) {
                          line.field("group", start_.id)
                              .code("token", relay.connection.local_token().value)
                              .field("why", element.error().what);
                        });
    relay.connection.abort();
    element = relay.connection.peer_element();
  } else if (!open_way(relay, *element)) {
    return false;
  }
  relay.connection.handle_link_switched(*element);
  mark_dirty(relay);
  relay.owner->handle_connection_event();
  return true;
}

Result<smc::RmbElement> Group::find_element(const SmcBuffers& buffers, smc::LinkIndex on) const {
  const auto key = protocol_.peer_rmbs().translate(buffers.named_on, buffers.peer.rmb, on);
  if (!key) return Error{Errc::kNotFound, "the peer did not tell the key of its buffer there"};
  return buffers.peer.over(*key);
}

// Where the peer's memory is addressable its element, else nothing but its key is needed.
Result<void> Group::open_way(SmcRelay& relay, const smc::RmbElement& element) {
  const Lane& lane = lanes_[relay.link];
  if (device_of(lane).device->capabilities().remote_memory_addressable)
    relay.buffers.remote = SMC_TRY(
        lane.queue_pair->remote_memory({element.rkey, element.address}, element.size_bytes));
  relay.buffers.peer.rmb = {element.rkey,
                            RemoteAddress{element.address.value - relay.buffers.peer.offset}};
  relay.buffers.named_on = relay.link;
  return {};
}

smc::RmbKey Group::rmb_key(std::uint16_t slab, smc::LinkIndex link) const {
  const rdma::RegisteredBuffer& buffer = rmbs_->buffer({slab, RmbIndex{1}}, lanes_[link].foothold);
  return {buffer.rkey(), buffer.address()};
}

// The peer must know each slab on each link before an element of it is named, where it is told.
Result<void> Group::list_slabs(smc::LinkIndex link) {
  for (std::size_t i = 0; i < rmbs_->slab_numbers(); ++i) {
    if (rows_[i] || !rmbs_->has(i)) continue;
    const auto slab = static_cast<std::uint16_t>(i);
    const smc::RmbRow row = SMC_TRY(protocol_.local_rmbs().add(link, rmb_key(slab, link)));
    rows_[slab] = row;
    for (smc::LinkIndex on = 0; on < smc::kLinksMax; ++on)
      if (protocol_.links()[on]) protocol_.local_rmbs().set_key(row, on, rmb_key(slab, on));
    if (protocol_.local_rmbs().announced(row, protocol_.links())) continue;
    const TimePoint now = shared_.now();
    protocol_.start_next_flow(now);
    protocol_changed(now);
  }
  return {};
}

Group::Telling Group::telling(const Seat& seat) {
  const std::optional<smc::RmbRow>& row = rows_[seat.element.slab];
  if (row && protocol_.local_rmbs().refused(*row)) return Telling::kRefused;
  return !row || protocol_.local_rmbs().announced(*row, protocol_.links()) ? Telling::kDone
                                                                           : Telling::kUnderWay;
}

}  // namespace fairlead::relay
