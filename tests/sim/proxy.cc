#include "sim/proxy.h"

#include "base/assert.h"
#include "parking/description.h"
#include "sim/event_file.h"
#include "wire/eid.h"

namespace fairlead::sim {
namespace {

constexpr Duration kTurnDelayMax = std::chrono::microseconds(20);
constexpr Duration kShutdownWait = std::chrono::seconds(2);
constexpr std::size_t kMemoryBytes = 1 << 30;
constexpr unsigned kDeviceNumbers = 1024;  // to a proxy's next device

// Devices find each other by the GIDs in the messages, as RNICs do.
class SimReach final : public relay::Reachability {
 public:
  SimReach(const Fabric& fabric, const ProxySettings& settings)
      : fabric_(fabric), settings_(settings) {}
  const char* kind() const override { return "sim"; }
  wire::VendorArea vendor_area() const override { return {}; }
  std::optional<Gid> client_gid(const wire::Proposal& proposal,
                                std::uint8_t version) const override {
    const Gid gid = version == 1 ? proposal.v1_gid : proposal.v2->gid;
    return fabric_.knows(gid) ? std::optional(gid) : std::nullopt;
  }
  std::optional<rdma::Port> roce_v1_port(const rdma::Port& port,
                                         const relay::Place& place) const override {
    return settings_.roce_v1_vlan ? choose_port({&port, 1}, place) : std::nullopt;
  }
  bool server_reachable(const Gid& gid) const override { return fabric_.knows(gid); }
  relay::PnetOfPort pnet(const rdma::Port&) const override { return {"SIM", "simulation"}; }
  // Reasons for a missing device concern devices that lead to other nodes.
  bool leaves_node() const override { return !settings_.in_network; }
  bool in_network(const rdma::Port&) const override { return settings_.in_network; }
  bool withheld(const relay::Place&) const override { return settings_.withheld; }
  std::optional<rdma::Port> choose_port(std::span<const rdma::Port> ports,
                                        const relay::Place& place) const override {
    if (!settings_.in_network || settings_.withheld) return std::nullopt;
    return Reachability::choose_port(ports, place);
  }

 private:
  const Fabric& fabric_;
  const ProxySettings& settings_;
};

// All interfaces are in one IPv4 network, as long as they have the same mask.
smc::Subnets subnets_of(const SocketAddress& local, unsigned bits) {
  smc::Subnets subnets;
  const std::span<const std::uint8_t> address = local.bytes();
  for (unsigned i = 0; i * 8 < bits; ++i) subnets.area.ipv4_network[i] = address[i];
  subnets.area.ipv4_length_bits = static_cast<std::uint8_t>(bits);
  return subnets;
}

}  // namespace

SimProxy::SimProxy(World& world, Net& net, Fabric& fabric, ProxySettings settings)
    : world_(world),
      net_(net),
      fabric_(fabric),
      settings_(std::move(settings)),
      stats_(std::make_unique<WorkerStats>()) {}

SimProxy::~SimProxy() { end(); }

void SimProxy::start() {
  SMC_ASSERT(!running());
  ++life_;
  stats_ = std::make_unique<WorkerStats>();
  relay::WorkerSettings settings;
  settings.config = &settings_.config;
  settings.limits.connections_max = settings_.connections_max;
  settings.limits.handshakes_max = settings_.handshakes_max;
  settings.limits.handshakes_per_peer_max = settings_.handshakes_per_peer_max;
  // The limiting resource in most simulations is memory for rings.
  const std::size_t limit = settings_.memory_limit_bytes;
  settings.memory_bytes = limit != 0 ? limit : kMemoryBytes;
  settings.streams_count = limit != 0;
  settings.rings_max = settings_.memory_bytes;
  settings.turn_max = settings_.turn_max;
  settings.seed = world_.random.next();
  for (std::uint8_t& byte : settings.offer.peer_id.bytes)
    byte = static_cast<std::uint8_t>(world_.random.next());
  for (const std::string& name : settings_.config.smc.ueids)
    settings.offer.ueids.push_back(*wire::eid_from(name));
  settings.offer.version_1 = settings_.config.smc.version != config::SmcVersion::kTwo;
  settings.offer.version_2 = settings_.config.smc.version != config::SmcVersion::kOne;
  settings.subnets = [this](const SocketAddress& local) {
    return settings_.subnet_bits == 0 ? std::nullopt
                                      : std::optional(subnets_of(local, settings_.subnet_bits));
  };
  settings.offer.max_connections =
      static_cast<std::uint8_t>(settings_.config.smc.max_connections_per_group);
  settings.offer.max_links = smc::kLinksPerGroupMax;
  settings.offer.host_name = "pod";
  worker_ = std::make_unique<relay::Worker>(std::move(settings), *this, *stats_);
  for (unsigned i = 0; i < settings_.devices; ++i) {
    const unsigned number = settings_.pod << 4 | static_cast<unsigned>(life_ & 15);
    auto device = std::make_unique<SimDevice>(
        fabric_,
        SimDeviceOptions{.name = "sim" + std::to_string(i),
                         .number = i * kDeviceNumbers + number,
                         .roce_v1_vlan = settings_.roce_v1_vlan,
                         .ports = settings_.ports,
                         .addressable = settings_.addressable,
                         .receive_queue_crosses_domains = settings_.receive_queue_crosses_domains,
                         .shared_receive_queues = settings_.shared_receive_queues,
                         .own_kind_only = settings_.own_kind_only,
                         .lock_limit_bytes = settings_.lock_limit_bytes,
                         .unmappable_one_in = settings_.unmappable_one_in});
    device->on_wake = [this] { poke(); };
    devices_.push_back(device.get());
    const Result<void> added =
        worker_->devices().add(std::move(device), std::make_unique<SimReach>(fabric_, settings_));
    // The buffers of its messages may be more than the limit.
    SMC_ASSERT(added.has_value() || limit != 0);
    if (!added) devices_.pop_back();
  }
  net_.set_announced(settings_.pod, !config::accepts_deferred(settings_.config)
                                        ? bpf::Announced::kSmc
                                    : settings_.knows_windows ? bpf::Announced::kFramesWithWindows
                                                              : bpf::Announced::kFrames);
  net_.set_inbound(settings_.pod, [this](auto stream, const SocketAddress& to) {
    accept(Direction::kInbound, std::move(stream), to);
  });
  net_.set_outbound(settings_.pod, [this](auto stream, const SocketAddress& to) {
    accept(Direction::kOutbound, std::move(stream), to);
  });
  poke();
}

void SimProxy::end() {
  ++life_;
  if (world_.events != nullptr && running())
    world_.events->proxy(settings_.pod, EventFile::ProxyEnd::kGone);
  if (!parked_) {
    net_.set_inbound(settings_.pod, nullptr);
    net_.set_outbound(settings_.pod, nullptr);
  }
  if (Digest* digest = running() ? world_.record("stats") : nullptr)
    digest->number(settings_.pod).stats(*stats_);
  worker_.reset();
  devices_.clear();
  scheduled_ = false;
  alarm_.reset();
  drain_deadline_.reset();
  shutdown_deadline_.reset();
}

void SimProxy::kill() {
  world_.trace("pod %u: the proxy is killed", settings_.pod);
  end();
}

void SimProxy::drain() {
  world_.trace("pod %u: the proxy drains", settings_.pod);
  worker_->start_drain();
}

void SimProxy::terminate(Duration deadline) {
  drain();
  drain_deadline_ = world_.now() + deadline;
  world_.at(*drain_deadline_, [this, life = life_] {
    if (life == life_) poke();
  });
  poke();
}

void SimProxy::hand_over(Duration settle) {
  if (!running() || drain_deadline_ || parking_) return;
  world_.trace("pod %u: the proxy is replaced", settings_.pod);
  parking_ = true;
  worker_->start_parking(world_.now() + settle);
  poke();
}

void SimProxy::park_when_due() {
  if (!parking_ || parked_) return;
  std::optional<std::vector<relay::ParkedConnection>> parked = worker_->park_when_due();
  if (!parked) return;
  parked_ = true;
  parked_connections_ = std::move(*parked);
  world_.trace("pod %u: %zu connections are parked", settings_.pod, parked_connections_.size());
  drain_deadline_ = world_.now();
}

// As the next process reads it. Whatever occurs must be taken back.
relay::ParkedConnection SimProxy::described(relay::ParkedConnection parked) {
  std::unique_ptr<event::Stream> app = std::move(parked.app), net = std::move(parked.net);
  relay::ParkedSockets sockets;
  const auto describe = [](const std::unique_ptr<event::Stream>& stream,
                           std::optional<event::ParkedStream>& into) {
    if (stream) into.emplace(event::ParkedStream{{}, stream->peer_address(), 0});
  };
  describe(app, sockets.app);
  describe(net, sockets.net);
  sockets.state = std::move(parked);
  parking::Parked all;
  all.connections.push_back(std::move(sockets));
  parking::EncodedDescription encoded = parking::encode(std::move(all));
  auto decoded = parking::decode(encoded.bytes, std::move(encoded.descriptors));
  if (!decoded || decoded->refused) {
    world_.fail("a parked connection is refused: %s",
                decoded ? decoded->refused->what : decoded.error().what);
    return {};
  }
  parked = std::move(decoded->connections[0].state);
  parked.app = std::move(app);
  parked.net = std::move(net);
  return parked;
}

void SimProxy::take_back() {
  if (!std::exchange(parked_, false)) return;
  parking_ = false;
  start();
  for (relay::ParkedConnection& one : std::exchange(parked_connections_, {})) {
    relay::ParkedConnection parked = described(std::move(one));
    if ((parked.app || parked.net) && !worker_->take_back(std::move(parked)))
      world_.fail("a parked connection is not taken back");
  }
  for (Waiting& one : std::exchange(waiting_, {}))
    accept(one.direction, std::move(one.stream), one.to);
}

void SimProxy::stall(Duration duration) { stalled_until_ = world_.now() + duration; }

bool SimProxy::idle() const {
  const std::uint64_t groups = stats_->link_groups_none.get() + stats_->link_groups_single.get() +
                               stats_->link_groups_symmetric.get() +
                               stats_->link_groups_asymmetric_local.get() +
                               stats_->link_groups_asymmetric_peer.get();
  return stats_->pinned_bytes.get() == 0 && groups == 0 && stats_->links_active.get() == 0 &&
         (!worker_ || worker_->session_count() == 0);
}

void SimProxy::accept(Direction direction, std::unique_ptr<SimStream> stream,
                      const SocketAddress& to) {
  // They wait at the listener for the next process.
  if (parking_) {
    waiting_.push_back({direction, std::move(stream), to});
    return;
  }
  // The listener was closed after the SYN.
  if (!running() || shutdown_deadline_) return stream->reset_on_close();
  stream->on_notify = [this] { poke(); };
  worker_->accept(direction, to, std::move(stream));
  poke();
}

Result<std::unique_ptr<event::Stream>> SimProxy::dial_peer(const SocketAddress& to,
                                                           bpf::Announced announce,
                                                           const SocketAddress*, unsigned) {
  std::unique_ptr<SimStream> stream = net_.dial(settings_.pod, to, announce);
  stream->on_notify = [this] { poke(); };
  return std::unique_ptr<event::Stream>(std::move(stream));
}

bpf::Announced SimProxy::option_answered(event::Stream& stream) {
  if (!settings_.option_available) return bpf::Announced::kNothing;
  return static_cast<SimStream&>(stream).connection().option_answered;
}

bpf::Announced SimProxy::option_requested(event::Stream& stream) {
  if (!settings_.option_available) return bpf::Announced::kNothing;
  return static_cast<SimStream&>(stream).connection().option_requested;
}

void SimProxy::poke() {
  if (scheduled_ || !running()) return;
  scheduled_ = true;
  const auto most = static_cast<std::uint64_t>(kTurnDelayMax.count());
  TimePoint when =
      world_.now() + Duration{static_cast<std::int64_t>(world_.random.between(1, most))};
  when = std::max(when, stalled_until_);
  world_.at(when, [this, life = life_] {
    if (life == life_) turn();
  });
}

void SimProxy::turn() {
  scheduled_ = false;
  for (SimDevice* device : devices_) device->disarm();
  const bool more = worker_->turn();
  park_when_due();
  record_deadline();
  if (after_turn) after_turn(*this);
  if (finish()) return;
  if (more) return poke();
  for (SimDevice* device : devices_)
    if (!device->arm()) return poke();
  set_alarm();
}

void SimProxy::record_deadline() {
  Digest* digest = world_.record("deadline");
  if (digest == nullptr) return;
  const std::optional<TimePoint> deadline = worker_->next_deadline();
  digest->number(settings_.pod)
      .number(deadline ? static_cast<std::uint64_t>(deadline->time_since_epoch().count()) : 0);
}

// As WorkerThread::drain_finished().
bool SimProxy::finish() {
  if (!drain_deadline_) return false;
  const TimePoint now = world_.now();
  if (!shutdown_deadline_) {
    if (worker_->session_count() != 0 && now < *drain_deadline_) return false;
    if (!parked_) {
      net_.set_inbound(settings_.pod, nullptr);
      net_.set_outbound(settings_.pod, nullptr);
    }
    if (world_.events != nullptr) world_.events->proxy(settings_.pod, EventFile::ProxyEnd::kBegins);
    worker_->shut_down("the proxy is shutting down");
    shutdown_deadline_ = now + kShutdownWait;
    world_.at(*shutdown_deadline_, [this, life = life_] {
      if (life == life_) poke();
    });
  }
  if (!worker_->shut_down_done() && now < *shutdown_deadline_) return false;
  world_.trace("pod %u: the proxy ends", settings_.pod);
  end();
  take_back();
  return true;
}

void SimProxy::set_alarm() {
  const std::optional<TimePoint> deadline = worker_->next_deadline();
  if (!deadline || (alarm_ && *alarm_ <= *deadline)) return;
  alarm_ = deadline;
  world_.at(*deadline, [this, life = life_, when = *deadline] {
    if (life != life_ || alarm_ != when) return;
    alarm_.reset();
    poke();
  });
}

}  // namespace fairlead::sim
