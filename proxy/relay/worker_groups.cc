// What a worker does about the news of its link groups.

#include <algorithm>

#include "base/log.h"
#include "relay/worker.h"

namespace fairlead::relay {
namespace {

void fill_link(LogEvent& line, Group& group, const smc::GroupEvent& event) {
  line.field("group", group.id())
      .field("link", std::uint64_t{event.number.value})
      .field("type", smc::to_string(group.protocol().links().type()))
      .field("links", std::uint64_t{group.protocol().links().active_count()});
  if (*event.why != 0) line.field("why", event.why);
}

}  // namespace

void Worker::handle_group_events(Group& group) {
  const TimePoint now = network_.now();
  const auto log_link = [&](LogLevel level, const char* name, const smc::GroupEvent& event) {
    lines().write(level, "smc.link", name, now,
                  [&](LogEvent& line) { fill_link(line, group, event); });
  };
  while (const std::optional<smc::GroupEvent> event = group.protocol().output().poll_event()) {
    switch (event->kind) {
      case smc::GroupEvent::Kind::kLinkConfirmed: {
        lines().write(LogLevel::kInfo, "smc.group", "established", now,
                      [&](LogEvent& line) { line.field("group", group.id()); });
        for (ConnectionOwner* owner : owners_of(group)) owner->handle_group_confirmed(now);
        break;
      }
      case smc::GroupEvent::Kind::kLinkRefused:
        for (ConnectionOwner* owner : owners_of(group))
          owner->handle_group_refused(event->reason, now);
        break;
      case smc::GroupEvent::Kind::kLinkTested:
        stats_.link_test_ok.add();
        group.handle_event(*event);
        break;
      case smc::GroupEvent::Kind::kLinkDead:
        stats_.link_test_timeout.add();
        break;
      case smc::GroupEvent::Kind::kLinkAdded:
        stats_.link_added.add();
        log_link(LogLevel::kInfo, "link_added", *event);
        break;
      case smc::GroupEvent::Kind::kLinkNotAdded:
        log_link(LogLevel::kInfo, "link_not_added", *event);
        break;
      case smc::GroupEvent::Kind::kLinkLost:
        log_link(LogLevel::kWarn, "link_lost", *event);
        break;
      case smc::GroupEvent::Kind::kLinkDeleted:
        stats_.link_deleted.add();
        log_link(LogLevel::kInfo, "link_deleted", *event);
        break;
      case smc::GroupEvent::Kind::kRmbRefused:
        lines().write(LogLevel::kWarn, "smc.group", "keys_refused", now, [&](LogEvent& line) {
          line.field("group", group.id())
              .field("hint", group.protocol().local_rmbs().refused(event->rmb)
                                 ? "connections that need this buffer are TCP"
                                 : "connections in this buffer end with their link");
        });
        tell_told(group);
        break;
      case smc::GroupEvent::Kind::kRmbTold:
        tell_told(group);
        break;
      case smc::GroupEvent::Kind::kRkeyDeleted:
        // A peer deletes a key only after the connections that used it, so there is nobody left to
        // stop.
        group.handle_event(*event);
        break;
      case smc::GroupEvent::Kind::kTerminated:
        group_terminated(group, event->why);
        return;
    }
  }
}

void Worker::tell_told(Group& group) {
  std::vector<ConnectionOwner*> owners;
  group.connections().for_each([&](SmcRelay& relay) { owners.push_back(relay.owner); });
  for (ConnectionOwner* owner : owners) owner->handle_rmb_told(network_.now());
}

std::vector<ConnectionOwner*> Worker::owners_of(Group& group) {
  std::vector<ConnectionOwner*> owners;
  group.connections().for_each([&](SmcRelay& relay) { owners.push_back(relay.owner); });
  for (auto [at, end] = waiting_.equal_range(&group); at != end; ++at) owners.push_back(at->second);
  waiting_.erase(&group);
  return owners;
}

void Worker::group_terminated(Group& group, const char* why) {
  const TimePoint now = network_.now();
  stats_.link_deleted.add();
  const std::vector<ConnectionOwner*> owners = owners_of(group);
  lines().write(owners.empty() ? LogLevel::kInfo : LogLevel::kWarn, "smc.group", "terminated", now,
                [&](LogEvent& line) {
                  line.field("group", group.id())
                      .field("connections", std::uint64_t{owners.size()})
                      .field("why", why);
                });
  closing_.push_back({&group, now + kClosingWait});
  for (ConnectionOwner* owner : owners) owner->handle_group_lost(now);
}

// A terminated group dies when its connections have left and both sides have had their last words.
void Worker::reap_groups() {
  if (closing_.empty()) return;
  const TimePoint now = network_.now();
  std::erase_if(closing_, [&](const ClosingGroup& closing) {
    Group& group = *closing.group;
    const bool parted = group.parted() || now >= closing.until;
    if (group.connections().count() != 0 || !parted) return false;
    std::erase(group_resources_.changed, &group);
    peers_.remove(group);
    return true;
  });
  if (closing_.empty()) return;
  if (!closing_timer_) closing_timer_.emplace(timers_, [] {});
  closing_timer_->set(now + std::chrono::milliseconds(10));
}

}  // namespace fairlead::relay
