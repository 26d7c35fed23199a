// A connection over SMC-R, from the end of its handshake until both sides have closed.
#pragma once

#include <memory>
#include <optional>

#include "relay/connection/group_membership.h"
#include "relay/connection/idle_pages.h"
#include "relay/connection/session_resources.h"
#include "relay/connection/smc_return.h"
#include "relay/connection/stage.h"

namespace fairlead::relay {

// Both applications have ended and all bytes were read, but the peer does not confirm the end.
inline constexpr Duration kCloseAnswerWait = std::chrono::seconds(60);
// After our abort, the CLC connection stays open this long, unless the peer answers before. Its RST
// could overtake the last bytes on a device that has to retransmit them.
inline constexpr Duration kClcConnectionKept = std::chrono::seconds(2);
// The peer has ended the CLC connection, but its link answers. This is how long it may take to
// announce the end of the SMC-R connection too; longer than a link test and a failover validation.
inline constexpr Duration kClcConnectionEndWait = std::chrono::seconds(10);

// The CLC connection carries nothing. But its reset means that the peer's group, or the peer
// itself, has gone silently. Its end means either that the peer is done and its final message is
// about to arrive, or that its process is dead.
class ClcConnectionWatch {
 public:
  // `reset`: the peer had reset it before the connection became SMC-R.
  explicit ClcConnectionWatch(bool reset) : reset_(reset) {}

  // Passes bytes that arrive on the connection to `back`.
  void check(SessionResources& session, SmcRelay& relay, SmcReturn& back, TimePoint now);
  Deadline next_deadline() const { return ended_until_; }

 private:
  void read(SessionResources& session, SmcRelay& relay, SmcReturn& back, TimePoint now);
  void handle_end(SessionResources& session, SmcRelay& relay, const event::IoResult& end,
                  TimePoint now);

  bool reset_;
  bool reset_known_ = false;              // the next turn acts on it
  std::optional<TimePoint> ended_until_;  // since its end: until when the peer may announce why
};

class SmcStage final {
 public:
  static constexpr const char* kName = "SmcStage";
  using Ignores =
      Events<DeadlineDue, PermitGranted, GroupConfirmed, GroupRefused, RmbAnnounced, ParkWanted>;

  SmcStage(SessionResources& session, UseSmc from);

  StageResult handle(Entered, TimePoint now);
  StageResult handle(Ready, TimePoint now);
  StageResult handle(GroupLost, TimePoint now);
  // Sends bytes that the application considers sent, and tells the peer that the connection ends.
  StageResult handle(WorkerEnds, TimePoint now);
  void leave(TimePoint now);
  SmcRelay* smc() { return &membership_.relay(); }
  bool try_read();

 private:
  std::uint32_t publish_bytes() const;
  StageResult await_peer_close(TimePoint now);
  // Empty unless the connection continues in frames, or ends.
  std::optional<StageResult> return_to_frames(TimePoint now);
  void wake_at(Deadline deadline) { session_.deadlines.set(DeadlineKind::kSmc, deadline); }

  SessionResources& session_;
  GroupMembership membership_;
  ClcConnectionWatch clc_connection_;
  IdlePages idle_pages_;
  SmcReturn back_;
  bool link_lost_ = false;  // the group is gone
  std::optional<TimePoint> close_wait_;
};

}  // namespace fairlead::relay
