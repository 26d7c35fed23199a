// What comes to a device beside messages: channels, memory and refusals that the connector brings,
// and the control messages of peers.
#pragma once

#include "rdma/shm/shm_device_parts.h"

namespace fairlead::rdma::shm {

class ControlPath {
 public:
  explicit ControlPath(DeviceParts& parts) : parts_(parts) {}

  void take_arrivals();
  // The peer has rung, or has closed its end.
  void handle_bell(Channel& channel);
  // Reads all that the peer has told so far, new channels included.
  void drain(PeerId peer);
  // Handles control messages of the channel; returns how many.
  int handle(Channel& channel, int messages_max);
  // Gives up what has waited too long. True if something still waits.
  bool check_waits(TimePoint now);

 private:
  void handle_arrival(ConnectorEvent event);
  void keep_grant(ConnectorEvent event);
  void check_peer(Channel& channel);
  Result<void> apply(Channel& channel, const ControlMessage& message);
  Result<void> handle_announce(Channel& channel, const ControlMessage& message);
  Result<void> wait_for_grant(Channel& channel, const BufferId& buffer);
  Result<void> handle_ready(Channel& channel, const ControlMessage& message);
  Result<void> handle_gone(Channel& channel, const ControlMessage& message);

  DeviceParts& parts_;
};

}  // namespace fairlead::rdma::shm
