// What a session may use of its worker.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "base/paced_lines.h"
#include "base/stats.h"
#include "config/config.h"
#include "event/timer_queue.h"
#include "relay/connection/announcing_peers.h"
#include "relay/group/device_registry.h"
#include "relay/group/link_group_registry.h"
#include "relay/pipes/tcp_relay.h"
#include "relay/worker/admission.h"
#include "relay/worker/decision_log.h"
#include "relay/worker/destinations.h"
#include "relay/worker/fallback_log.h"
#include "relay/worker/network.h"
#include "smc/clc/negotiate.h"

namespace fairlead::relay {

class Session;

class SessionHost {
 public:
  // The session's handle() is called with Ready in this turn or the next one.
  virtual void mark_ready(Session& session) = 0;
  // The session has ended. It is destroyed at the end of the turn.
  virtual void retire(Session& session) = 0;
  // A permit for a handshake with its peer is passed to the session with this number.
  virtual void grant_permit(std::uint64_t session) = 0;
  // True if more than a few sessions move bytes.
  virtual bool many_active() const = 0;

 protected:
  ~SessionHost() = default;
};

// The subnets of the interface with a local address; empty if no interface has the address.
using LocalSubnetsOf = std::function<std::optional<smc::Subnets>(const SocketAddress& local)>;

// All of these outlive the session.
struct SessionServices {
  SessionHost& host;
  const config::Config& config;
  const smc::LocalOffer& offer;
  const LocalSubnetsOf& subnets;
  Network& network;
  event::TimerQueue& timers;
  WorkerStats& stats;
  PacedLines& lines;
  Admission& admission;
  DeviceRegistry& devices;
  LinkGroupRegistry& groups;
  FallbackLog& fallbacks;
  DecisionLog& decisions;
  AnnouncingPeers& announcing;
  Destinations* destinations;  // null where every connection comes through the sidecar
  TcpRelayResources& tcp;
};

}  // namespace fairlead::relay
