#include "relay/group/link_group_registry.h"

#include "base/log.h"

namespace fairlead::relay {
namespace {

// How often a terminated group is checked until it can be destroyed.
constexpr Duration kClosingInterval = std::chrono::milliseconds(10);

void fill_link(LogEvent& line, Group& group, const smc::GroupEvent& event) {
  line.field("group", group.id())
      .field("link", std::uint64_t{event.number.value})
      .field("type", smc::to_string(group.protocol().links().type()))
      .field("links", std::uint64_t{group.protocol().links().active_count()});
  if (*event.why != 0) line.field("why", event.why);
}

}  // namespace

Result<Group*> LinkGroupRegistry::create(const PeerKey& key, const SocketAddress& address,
                                         GroupStart start) {
  if (peers_.full_for(key.role, address, shared_.budget->limit_bytes()))
    return Error{Errc::kExhausted,
                 peers_.full() ? "link groups of the worker" : "link groups with one address"};
  start.id = "g-" + std::to_string(worker_) + "." + std::to_string(++created_);
  start.role = key.role;
  start.peer = key.peer;
  start.random = static_cast<std::uint32_t>(random_());
  Result<std::unique_ptr<Group>> group = Group::create(shared_, start, shared_.now());
  if (!group) {
    shared_.lines.write(LogLevel::kWarn, "relay.group", "create_failed", shared_.now(),
                        [&](LogEvent& line) { line.field("what", to_string(group.error())); });
    return group.error();
  }
  Group& added = peers_.add(key, address, std::move(*group));
  shared_.stats->link_added.add();
  shared_.lines.write(LogLevel::kInfo, "smc.group", "forming", shared_.now(), [&](LogEvent& line) {
    line.field("group", added.id())
        .field("role", key.role == smc::GroupRole::kServer ? "server" : "client")
        .field("peer_id", to_string(key.peer));
  });
  return &added;
}

bool LinkGroupRegistry::wait_for(Group& group, ConnectionOwner& owner) {
  if (waiting_.size() >= kWaitersMax) return false;
  waiting_.emplace(&group, &owner);
  return true;
}

void LinkGroupRegistry::stop_waiting(const ConnectionOwner& owner) {
  if (waiting_.empty()) return;
  std::erase_if(waiting_, [&](const auto& entry) { return entry.second == &owner; });
}

void LinkGroupRegistry::handle_events() {
  std::vector<Group*> changed;
  changed.swap(shared_.changed);
  for (Group* group : changed) handle_events_of(*group);
}

void LinkGroupRegistry::handle_events_of(Group& group) {
  const TimePoint now = shared_.now();
  const auto log_link = [&](LogLevel level, const char* name, const smc::GroupEvent& event) {
    shared_.lines.write(level, "smc.link", name, now,
                        [&](LogEvent& line) { fill_link(line, group, event); });
  };
  while (const std::optional<smc::GroupEvent> event = group.protocol().output().poll_event()) {
    switch (event->kind) {
      case smc::GroupEvent::Kind::kLinkConfirmed: {
        shared_.lines.write(LogLevel::kInfo, "smc.group", "established", now,
                            [&](LogEvent& line) { line.field("group", group.id()); });
        for (ConnectionOwner* owner : owners_of(group)) owner->handle(GroupConfirmed{}, now);
        break;
      }
      case smc::GroupEvent::Kind::kLinkRefused:
        for (ConnectionOwner* owner : owners_of_connections(group))
          owner->handle(GroupRefused{event->reason}, now);
        break;
      case smc::GroupEvent::Kind::kLinkTested:
        shared_.stats->link_test_ok.add();
        group.handle_event(*event);
        break;
      case smc::GroupEvent::Kind::kLinkDead:
        shared_.stats->link_test_timeout.add();
        break;
      case smc::GroupEvent::Kind::kLinkAdded:
        shared_.stats->link_added.add();
        log_link(LogLevel::kInfo, "link_added", *event);
        break;
      case smc::GroupEvent::Kind::kLinkNotAdded:
        log_link(LogLevel::kInfo, "link_not_added", *event);
        break;
      case smc::GroupEvent::Kind::kLinkLost:
        log_link(LogLevel::kWarn, "link_lost", *event);
        break;
      case smc::GroupEvent::Kind::kLinkDeleted:
        shared_.stats->link_deleted.add();
        log_link(LogLevel::kInfo, "link_deleted", *event);
        break;
      case smc::GroupEvent::Kind::kRmbRefused:
        shared_.lines.write(LogLevel::kWarn, "smc.group", "keys_refused", now, [&](LogEvent& line) {
          line.field("group", group.id())
              .field("hint", group.protocol().local_rmbs().refused(event->rmb)
                                 ? "connections that need this buffer are TCP"
                                 : "connections in this buffer end with their link");
        });
        notify_announced(group);
        break;
      case smc::GroupEvent::Kind::kRmbAnnounced:
        notify_announced(group);
        break;
      case smc::GroupEvent::Kind::kRkeyDeleted:
        // A peer deletes a key only after the connections that used it, so there is nobody left to
        // stop.
        group.handle_event(*event);
        break;
      case smc::GroupEvent::Kind::kTerminated:
        handle_terminated(group, event->why);
        return;
    }
  }
}

void LinkGroupRegistry::notify_announced(Group& group) {
  for (ConnectionOwner* owner : owners_of_connections(group))
    owner->handle(RmbAnnounced{}, shared_.now());
}

std::vector<ConnectionOwner*> LinkGroupRegistry::owners_of_connections(Group& group) {
  std::vector<ConnectionOwner*> owners;
  group.connections().for_each([&](SmcRelay& relay) { owners.push_back(&relay.owner()); });
  return owners;
}

std::vector<ConnectionOwner*> LinkGroupRegistry::owners_of(Group& group) {
  std::vector<ConnectionOwner*> owners = owners_of_connections(group);
  for (auto [at, end] = waiting_.equal_range(&group); at != end; ++at) owners.push_back(at->second);
  waiting_.erase(&group);
  return owners;
}

void LinkGroupRegistry::handle_terminated(Group& group, const char* why) {
  const TimePoint now = shared_.now();
  shared_.stats->link_deleted.add();
  const std::vector<ConnectionOwner*> owners = owners_of(group);
  shared_.lines.write(owners.empty() ? LogLevel::kInfo : LogLevel::kWarn, "smc.group", "terminated",
                      now, [&](LogEvent& line) {
                        line.field("group", group.id())
                            .field("connections", std::uint64_t{owners.size()})
                            .field("why", why);
                      });
  closing_.push_back({&group, now + kClosingWait});
  for (ConnectionOwner* owner : owners) owner->handle(GroupLost{}, now);
}

bool LinkGroupRegistry::flush(TimePoint now) {
  bool any = false;
  peers_.for_each([&](Group& group) {
    if (!group.sender().pending()) return;
    group.sender().flush(now);
    any = true;
  });
  return any;
}

void LinkGroupRegistry::destroy_closed() {
  if (closing_.empty()) return;
  const TimePoint now = shared_.now();
  std::erase_if(closing_, [&](const ClosingGroup& closing) {
    Group& group = *closing.group;
    const bool termination_complete = group.termination_complete() || now >= closing.until;
    if (group.connections().count() != 0 || !termination_complete) return false;
    std::erase(shared_.changed, &group);
    peers_.remove(group);
    return true;
  });
  if (closing_.empty()) return;
  if (!closing_timer_) closing_timer_.emplace(*shared_.timers, [] {});
  closing_timer_->set(now + kClosingInterval);
}

void LinkGroupRegistry::terminate_all(const char* why) {
  const TimePoint now = shared_.now();
  peers_.for_each([&](Group& group) {
    if (!group.protocol().terminated()) group.terminate(why);
    group.sender().flush(now);
  });
}

std::vector<LinkGroupRow> LinkGroupRegistry::rows(TimePoint now) {
  std::vector<LinkGroupRow> rows;
  peers_.for_each([&](Group& group) { rows.push_back(group.row(worker_, now)); });
  return rows;
}

}  // namespace fairlead::relay
