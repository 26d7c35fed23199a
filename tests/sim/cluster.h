// Executes a plan: proxies, applications and networks of one simulation, from the first connection
// until everything is freed.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "sim/checks.h"

namespace fairlead::sim {

// Virtual time after the last planned event within which everything must end. It is several times
// the longest waits of the proxies (60 s for a close, 20 s for idle groups).
inline constexpr Duration kRunMax = std::chrono::seconds(400);
// More steps mean that there is no progress.
inline constexpr std::uint64_t kStepsMax = 5'000'000;

struct Ends {
  EndReport client;
  EndReport server;  // the last that was dialled
  std::size_t servers = 0;
};

struct Outcome {
  std::optional<std::string> failure;
  std::vector<Ends> ends;  // in the order of the plan
  std::uint64_t steps = 0;
  std::uint64_t connections = 0;
  std::uint64_t over_smc = 0;  // ends of connections that were SMC-R
  std::uint64_t pages_returned = 0;
  std::uint64_t moved = 0;    // … that went on over another link
  std::uint64_t refused = 0;  // connections, for want of memory
  std::uint64_t tcp_for_memory = 0;
  unsigned links_most = 0;          // of a group
  std::uint64_t continuations = 0;  // of CONFIRM_RKEY
  std::uint64_t speakers_v1 = 0;    // queue pairs that sent LLC messages of version 1
  std::uint64_t speakers_v2 = 0;
};

class Cluster {
 public:
  Cluster(World& world, Plan plan);
  ~Cluster();

  // Runs to the end, then checks the result and destroys everything.
  Outcome run();

  // For scenarios that inspect or change something during the run. False if no event is left before
  // that time.
  bool run_until(const std::function<bool()>& done, Duration within);
  SimProxy& proxy(Pod pod) { return *proxies_[pod - 1]; }
  Net& net() { return net_; }
  const Conversation& conversation(std::size_t index) const { return *conversations_[index]; }

 private:
  class FabricPace;

  void open(Conversation& conversation);
  void strike(const Fault& fault);
  void strike_device(const Fault& fault);
  bool all_over() const;
  bool all_idle() const;
  std::uint64_t count_smc() const;
  void take_down();
  void record_posts();
  void record_message(const SimQueuePair& sender, std::span<const std::byte> message);

  World& world_;
  Plan plan_;
  Net net_;
  std::unique_ptr<FabricPace> pace_;
  Fabric fabric_;
  MessageChecks message_checks_;
  TurnChecks turn_checks_;
  std::deque<std::unique_ptr<Conversation>> conversations_;
  std::vector<std::unique_ptr<SimProxy>> proxies_;
  std::uint64_t smc_of_the_dead_ = 0;
};

// A whole simulation: the plan is drawn from the world's seed.
Outcome simulate(World& world);

}  // namespace fairlead::sim
