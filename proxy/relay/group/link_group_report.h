// What operators and metrics see of a link group.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "base/snapshot.h"
#include "base/stats.h"
#include "relay/group/group_memory.h"
#include "relay/group/group_resources.h"
#include "relay/group/link_transport.h"
#include "smc/group/link_group.h"

namespace fairlead::relay {

class LinkGroupReport {
 public:
  explicit LinkGroupReport(WorkerStats& stats) : stats_(stats) {}
  ~LinkGroupReport();
  LinkGroupReport(const LinkGroupReport&) = delete;
  LinkGroupReport& operator=(const LinkGroupReport&) = delete;

  // Updates the gauges of groups by type, and of active links.
  void count(const smc::LinkGroup& protocol) {
    count(protocol.links().type(), protocol.usable() ? protocol.links().active_count() : 0);
  }
  // Sets the peer's host name from its first contact; padded with spaces or zeros.
  void set_peer_host(const std::array<char, 32>& padded);
  // The row without its worker number.
  LinkGroupRow row(const GroupStart& start, const smc::LinkGroup& protocol,
                   const LinkTransport& transport, const GroupMemory& memory, TimePoint now) const;

 private:
  void count(std::optional<smc::GroupType> type, unsigned links);  // no type: the group is gone

  WorkerStats& stats_;
  std::string peer_host_;
  std::optional<smc::GroupType> counted_type_;
  unsigned counted_links_ = 0;
};

}  // namespace fairlead::relay
