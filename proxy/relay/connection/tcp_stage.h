// A permanent TCP connection: the relay between its two streams.
#pragma once

#include <memory>

#include "relay/connection/peer_liveness.h"
#include "relay/connection/session_resources.h"
#include "relay/connection/stage.h"
#include "relay/pipes/tcp_relay.h"

namespace fairlead::relay {

class TcpStage final {
 public:
  static constexpr const char* kName = "TcpStage";
  using Ignores = Events<PermitGranted, GroupConfirmed, GroupRefused, GroupLost, RmbAnnounced,
                         ParkWanted, WorkerEnds>;

  // `from`: the state from which the relay continues.
  TcpStage(SessionResources& session, const UseTcp& from);
  // Continues a connection that another process has parked.
  TcpStage(SessionResources& session, ParkedTcp parked);

  StageResult handle(Entered, TimePoint now);
  StageResult handle(Ready, TimePoint now);
  StageResult handle(DeadlineDue, TimePoint now) {
    liveness_.check(session_, now);
    return Stay{};
  }
  bool parkable(bool) const { return true; }
  ParkedMode park() { return ParkedTcp{relay_.towards_net().park(), relay_.towards_app().park()}; }
  void leave(TimePoint) { session_.report.carried_no_longer(Transport::kTcp); }

 private:
  SessionResources& session_;
  TcpRelay relay_;
  PeerLiveness liveness_;
};

}  // namespace fairlead::relay
