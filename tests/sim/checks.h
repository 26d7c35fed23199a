// Properties that must hold in every simulation, with any plan.
//
//   always    bytes arrive as they were sent, in order (application.cc); a FIN means that all of
//             them have arrived; no byte reaches two servers; cursors on the wire never go back;
//             counters of memory agree with each other and with the limit; no negotiation outlasts
//             its timers; a queue pair carries LLC messages of one version
//   unless    a connection is reset only if an application was `rude`, no listener existed, or
//   stormy    the plan is stormy. For want of memory a proxy may refuse it before its server has
//             heard of it, and never later
//   at last   every application has ended, every session and group is gone, and with the proxies
//             every queue pair, buffer and TCP connection
#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "sim/plan.h"
#include "wire/cdc.h"
#include "wire/llc.h"

namespace fairlead::sim {

// Result of one planned connection. Only the last server counts.
struct Conversation {
  const ConnectionPlan* plan = nullptr;
  unsigned number = 0;
  std::unique_ptr<Application> client;
  std::vector<std::unique_ptr<Application>> servers;
  bool excused = false;  // a proxy on the path was killed, and the kernel sent FIN for it

  bool over() const;
};

void judge(World& world, const Conversation& conversation, const Plan& plan);

// After each turn of a proxy.
class TurnChecks {
 public:
  explicit TurnChecks(World& world) : world_(world) {}
  void check(SimProxy& proxy, const ProxySettings& settings);
  // The most active links that a group has had.
  unsigned links_most() const { return links_most_; }

 private:
  void check_rows(SimProxy& proxy);

  World& world_;
  unsigned links_most_ = 0;
  std::uint64_t turns_ = 0;
  std::map<std::pair<std::uint64_t, std::string>, std::pair<std::uint64_t, std::uint64_t>> bytes_;
};

// Sees every message on the fabric.
class MessageChecks {
 public:
  explicit MessageChecks(World& world) : world_(world) {}
  void check(const SimQueuePair& sender, std::span<const std::byte> message);
  // CONFIRM_RKEY_CONT, requests and responses.
  std::uint64_t continuations() const { return continuations_; }
  // Queue pairs that have sent LLC messages of this version.
  std::uint64_t speakers(wire::LlcVersion version) const;

 private:
  void check_llc(const SimQueuePair& sender, std::span<const std::byte> message);

  World& world_;
  std::uint64_t continuations_ = 0;
  std::map<std::uint64_t, wire::LlcVersion> versions_;  // by sender
  std::map<std::pair<std::uint64_t, std::uint32_t>, wire::CdcMessage> last_;
};

}  // namespace fairlead::sim
