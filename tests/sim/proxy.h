// A proxy of one worker in a pod. It replaces WorkerThread, on the virtual clock. A turn follows
// some time after an event. Between turns the worker sleeps with its device armed, so a missing
// wake-up stalls the simulation.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "config/config.h"
#include "relay/worker/worker.h"
#include "sim/net.h"
#include "sim/sim_device.h"

namespace fairlead::sim {

inline constexpr unsigned kSubnetBits = 24;

struct ProxySettings {
  Pod pod = 1;
  config::Config config;
  std::size_t memory_bytes = 1 << 20;  // for rings
  // For everything, sockets too; 0: more than is needed, and sockets do not count.
  std::size_t memory_limit_bytes = 0;
  std::size_t lock_limit_bytes = 0;  // of the device; 0 for none
  unsigned unmappable_one_in = 0;    // SimDeviceOptions
  std::size_t connections_max = 1000;
  std::size_t handshakes_max = 100;
  std::size_t handshakes_per_peer_max = 100;
  Duration turn_max = relay::kTurnMax;  // takes no time here: all that are ready, or 0 for one
  unsigned ports = 1;                   // of each device
  unsigned devices = 1;                 // on one physical network
  bool addressable = true;
  bool receive_queue_crosses_domains = true;
  bool shared_receive_queues = true;
  bool own_kind_only = false;
  bool option_available = true;
  bool knows_windows = true;  // of frames; older proxies do not
  bool in_network = true;     // the devices have the PNET of the connections
  bool withheld = false;      // the paths of the connections are encrypted
  // The GIDs are RoCEv1 in this VLAN, or in none. Version 1 is then offered beside version 2.
  std::optional<std::uint16_t> roce_v1_vlan;
  unsigned subnet_bits = kSubnetBits;  // of the interface of the connections; 0: there is none
};

class SimProxy final : public relay::Network {
 public:
  SimProxy(World& world, Net& net, Fabric& fabric, ProxySettings settings);
  ~SimProxy() override;

  // Starts a new process with another system id and another device.
  void start();
  bool running() const { return worker_ != nullptr; }
  // Ends it as SIGKILL does.
  void kill();
  // Ends it as SIGTERM does: drains, resets remaining connections at `deadline`, notifies peers and
  // ends.
  void terminate(Duration deadline);
  void drain();
  // Replaces it by another process that goes on with its connections. What cannot be parked within
  // `settle` ends.
  void hand_over(Duration settle);
  // Stops the worker for this time.
  void stall(Duration duration);

  Pod pod() const { return settings_.pod; }
  // Identifies the process among those of all pods.
  std::uint64_t life() const { return life_ << 8 | settings_.pod; }
  const WorkerStats& stats() const { return *stats_; }
  relay::Worker* worker() { return worker_.get(); }
  // The worker's; none while it does not run.
  std::span<SimDevice* const> devices() const { return devices_; }
  // True if no connection and no group is left.
  bool idle() const;
  // Called after each turn.
  std::function<void(SimProxy&)> after_turn;

 private:
  TimePoint now() const override { return world_.now(); }
  std::chrono::system_clock::time_point wall_now() const override {
    return std::chrono::system_clock::time_point(
        std::chrono::duration_cast<std::chrono::system_clock::duration>(
            world_.now().time_since_epoch()));
  }
  Result<relay::ApplicationLeg> dial_application(const SocketAddress& to, const SocketAddress&,
                                                 unsigned) override {
    relay::ApplicationLeg leg;
    leg.stream =
        SMC_TRY(dial_peer(to, bpf::Announced::kNothing, nullptr, relay::kApplicationLevel));
    return leg;
  }
  void probe_peer(event::Stream&) override {}
  Result<std::unique_ptr<event::Stream>> dial_peer(const SocketAddress& to, bpf::Announced announce,
                                                   const SocketAddress* client, unsigned) override;
  bool option_available() const override { return settings_.option_available; }
  bpf::Announced option_answered(event::Stream& stream) override;
  bpf::Announced option_requested(event::Stream& stream) override;

  void accept(Direction direction, std::unique_ptr<SimStream> stream, const SocketAddress& to);
  void poke();
  void turn();
  void record_deadline();
  bool finish();
  void park_when_due();
  relay::ParkedConnection described(relay::ParkedConnection parked);
  void take_back();
  void set_alarm();
  void end();

  World& world_;
  Net& net_;
  Fabric& fabric_;
  ProxySettings settings_;
  std::unique_ptr<WorkerStats> stats_;
  std::unique_ptr<relay::Worker> worker_;
  std::vector<SimDevice*> devices_;
  std::uint64_t life_ = 0;  // of which process an event is
  bool scheduled_ = false;
  std::optional<TimePoint> alarm_;
  std::optional<TimePoint> drain_deadline_;
  std::optional<TimePoint> shutdown_deadline_;
  TimePoint stalled_until_;
  // Of a hand-over: what was parked, and what has come to the listeners meanwhile.
  bool parking_ = false;
  bool parked_ = false;
  std::vector<relay::ParkedConnection> parked_connections_;
  struct Waiting {
    Direction direction;
    std::unique_ptr<SimStream> stream;
    SocketAddress to;
  };
  std::vector<Waiting> waiting_;
};

}  // namespace fairlead::sim
