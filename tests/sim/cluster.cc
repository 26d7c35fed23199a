#include "sim/cluster.h"

#include "sim/sim_queue_pair.h"
#include "sim/spare.h"

namespace fairlead::sim {
namespace {

constexpr std::uint16_t kFirstPort = 1000;
// Duration and interval of the search for a moment in which a link is redundant.
constexpr Duration kSpareWait = std::chrono::milliseconds(100);
constexpr Duration kSpareLook = std::chrono::microseconds(300);

}  // namespace

class Cluster::FabricPace final : public Pace {
 public:
  FabricPace(World& world, const FabricWeather& weather) : world_(world), weather_(weather) {}
  void soon(std::function<void()> move) override {
    Duration delay = draw(std::chrono::microseconds(1), weather_.delay_max);
    if (chance(weather_.straggler_per_mille)) delay += draw(Duration{}, weather_.straggle_max);
    world_.after(delay, std::move(move));
  }
  void after_retries(std::function<void()> move) override {
    world_.after(draw(weather_.retry_min, weather_.retry_max), std::move(move));
  }
  bool announced() override { return chance(weather_.announced_per_mille); }
  bool chance(unsigned per_mille) override {
    return per_mille != 0 && world_.random.chance(per_mille);
  }

 private:
  Duration draw(Duration least, Duration most) {
    return Duration{static_cast<std::int64_t>(world_.random.between(
        static_cast<std::uint64_t>(least.count()), static_cast<std::uint64_t>(most.count())))};
  }
  World& world_;
  const FabricWeather& weather_;
};

Cluster::Cluster(World& world, Plan plan)
    : world_(world),
      plan_(std::move(plan)),
      net_(world),
      pace_(std::make_unique<FabricPace>(world, plan_.fabric)),
      fabric_(*pace_),
      message_checks_(world),
      turn_checks_(world) {
  net_.weather = plan_.tcp;
  net_.faults = plan_.net;
  fabric_.on_message = [this](const SimQueuePair& sender, std::span<const std::byte> message) {
    record_message(sender, message);
    message_checks_.check(sender, message);
  };
  if (world_.digest) record_posts();
  fabric_.events = world_.events;
  for (const ProxySettings& settings : plan_.proxies) {
    proxies_.push_back(std::make_unique<SimProxy>(world_, net_, fabric_, settings));
    proxies_.back()->after_turn = [this, &settings](SimProxy& proxy) {
      turn_checks_.check(proxy, settings);
    };
    proxies_.back()->start();
  }
  for (const ConnectionPlan& connection : plan_.connections) {
    auto conversation = std::make_unique<Conversation>();
    conversation->plan = &connection;
    conversation->number = static_cast<unsigned>(conversations_.size());
    Conversation& opened = *conversation;
    conversations_.push_back(std::move(conversation));
    world_.after(connection.at, [this, &opened] { open(opened); });
  }
  for (const Fault& fault : plan_.faults) world_.after(fault.at, [this, &fault] { strike(fault); });
}

Cluster::~Cluster() { take_down(); }

void Cluster::open(Conversation& conversation) {
  const ConnectionPlan& plan = *conversation.plan;
  const unsigned number = conversation.number;
  const SocketAddress to = address_of(plan.to, static_cast<std::uint16_t>(kFirstPort + number));
  conversation.client = std::make_unique<Application>(world_, number, true, plan.client);
  if (plan.listening)
    net_.listen(to, [this, &conversation](auto stream, const SocketAddress&) {
      world_.trace("#%u server: accepts", conversation.number);
      auto server = std::make_unique<Application>(world_, conversation.number, false,
                                                  conversation.plan->server);
      server->set_peer(conversation.client->report());
      conversation.client->set_peer(server->report());
      server->attach(std::move(stream));
      conversation.servers.push_back(std::move(server));
    });
  world_.trace("#%u client: pod %u connects to pod %u", number, plan.from, plan.to);
  conversation.client->attach(net_.dial_as_application(plan.from, to));
}

void Cluster::record_posts() {
  fabric_.on_post = [this](const SimQueuePair& sender, const rdma::WorkRequest& request) {
    Digest& digest = *world_.record("post");
    digest.number(sender.number().value)
        .number(static_cast<std::uint64_t>(request.kind))
        .number(static_cast<std::uint64_t>(request.id))
        .number(request.signaled ? 1 : 0);
    if (request.kind == rdma::WorkRequest::Kind::kSend) return void(digest.bytes(request.message));
    digest.number(request.to.rkey.value)
        .number(request.to.address.value)
        .bytes(
            request.from.buffer->bytes().subspan(request.from.offset, request.from.length_bytes));
  };
}

void Cluster::record_message(const SimQueuePair& sender, std::span<const std::byte> message) {
  if (Digest* digest = world_.record("message"))
    digest->number(sender.number().value).bytes(message);
}

void Cluster::strike(const Fault& fault) {
  SimProxy& proxy = *proxies_[fault.pod - 1];
  if (fault.kind == Fault::Kind::kCut) return void(net_.cut_one());
  if (!proxy.running()) return;
  const auto start_again = [this, &proxy, lasting = fault.lasting] {
    world_.after(lasting, [this, &proxy] {
      if (proxy.running()) return;
      world_.trace("pod %u: the proxy starts", proxy.pod());
      proxy.start();
    });
  };
  switch (fault.kind) {
    case Fault::Kind::kKill:
      for (const auto& conversation : conversations_)
        conversation->excused = conversation->excused || conversation->plan->from == fault.pod ||
                                conversation->plan->to == fault.pod;
      smc_of_the_dead_ += count_smc();
      proxy.kill();
      smc_of_the_dead_ -= count_smc();
      return start_again();
    case Fault::Kind::kTerminate:
      proxy.terminate(fault.grace);
      // Not before the old one has ended, which takes the deadline and two seconds at most.
      return world_.after(fault.grace + std::chrono::seconds(3), start_again);
    case Fault::Kind::kDrain:
      return proxy.drain();
    case Fault::Kind::kHandOver:
      return proxy.hand_over(fault.grace);
    case Fault::Kind::kStall:
      world_.trace("pod %u: the worker stalls", fault.pod);
      return proxy.stall(fault.lasting);
    case Fault::Kind::kCut:
    case Fault::Kind::kQueuePairDies:
    case Fault::Kind::kPortDown:
    case Fault::Kind::kSpareQueuePairDies:
    case Fault::Kind::kSparePortDown:
    case Fault::Kind::kRefuseMemory:
    case Fault::Kind::kRefuseQueuePairs:
    case Fault::Kind::kRefuseConnect:
    case Fault::Kind::kRefuseRemote:
      break;
  }
  if (!proxy.devices().empty()) strike_device(fault);
}

void Cluster::strike_device(const Fault& fault) {
  SimProxy& proxy = *proxies_[fault.pod - 1];
  const std::size_t count = proxy.devices().size();
  const std::size_t index = count == 1 ? 0 : world_.random.between(0, count - 1);
  SimDevice& device = *proxy.devices()[index];
  const bool spare =
      fault.kind == Fault::Kind::kSpareQueuePairDies || fault.kind == Fault::Kind::kSparePortDown;
  const auto later = [&] {
    if (world_.now() < TimePoint(std::chrono::seconds(1)) + fault.at + kSpareWait)
      world_.after(kSpareLook, [this, &fault] { strike(fault); });
  };
  if (fault.kind == Fault::Kind::kQueuePairDies || fault.kind == Fault::Kind::kSpareQueuePairDies) {
    const std::vector<QpNumber> numbers = device.connected_queue_pairs();
    if (numbers.empty()) return spare ? later() : void();
    const QpNumber number = numbers[world_.random.between(0, numbers.size() - 1)];
    if (spare && !can_spare(proxies_, fabric_, {fault.pod, index, {}, number})) return later();
    world_.trace("pod %u: a queue pair dies", fault.pod);
    return device.fail_queue_pair(number);
  }
  if (fault.kind == Fault::Kind::kPortDown || fault.kind == Fault::Kind::kSparePortDown) {
    const PortNumber port(
        static_cast<std::uint8_t>(world_.random.between(1, device.ports().size())));
    if (spare && !can_spare(proxies_, fabric_, {fault.pod, index, port, {}})) return later();
    world_.trace("pod %u: port %u of %s goes down", fault.pod, port.value, device.name().c_str());
    device.set_port_state(port, rdma::PortState::kDown);
    return world_.after(fault.lasting, [this, &proxy, index, port] {
      if (proxy.devices().empty()) return;
      SimDevice& same = *proxy.devices()[index];
      world_.trace("pod %u: port %u of %s comes up", proxy.pod(), port.value, same.name().c_str());
      same.set_port_state(port, rdma::PortState::kActive);
    });
  }
  const auto setting = [kind = fault.kind](SimDeviceFaults& faults) -> unsigned& {
    return kind == Fault::Kind::kRefuseMemory       ? faults.refuse_memory_per_mille
           : kind == Fault::Kind::kRefuseQueuePairs ? faults.refuse_queue_pair_per_mille
           : kind == Fault::Kind::kRefuseConnect    ? faults.refuse_connect_per_mille
                                                    : faults.refuse_remote_per_mille;
  };
  world_.trace("pod %u: the device refuses (kind %u)", fault.pod,
               static_cast<unsigned>(fault.kind));
  setting(device.faults) = fault.per_mille;
  world_.after(fault.lasting, [&proxy, index, setting] {
    if (!proxy.devices().empty()) setting(proxy.devices()[index]->faults) = 0;
  });
}

bool Cluster::run_until(const std::function<bool()>& done, Duration within) {
  const TimePoint until = world_.now() + within;
  while (!done()) {
    if (!world_.step(until)) return false;
    if (world_.steps() > kStepsMax) {
      world_.fail("no end after %llu steps", static_cast<unsigned long long>(kStepsMax));
      return false;
    }
  }
  return true;
}

bool Cluster::all_over() const {
  for (const auto& conversation : conversations_)
    if (!conversation->over()) return false;
  return true;
}

bool Cluster::all_idle() const {
  for (const auto& proxy : proxies_)
    if (!proxy->idle()) return false;
  return net_.live() == 0;
}

std::uint64_t Cluster::count_smc() const {
  std::uint64_t count = 0;
  for (const auto& proxy : proxies_)
    for (const auto& direction : proxy->stats().traffic)
      count += direction[Transport::kSmcr].connections_total.get();
  return count;
}

Outcome Cluster::run() {
  if (!run_until([this] { return all_over(); }, kRunMax) && !world_.failure())
    for (const auto& conversation : conversations_)
      if (!conversation->over()) world_.fail("#%u has not ended", conversation->number);
  if (!world_.failure())
    for (const auto& conversation : conversations_) judge(world_, *conversation, plan_);
  if (!world_.failure() && !run_until([this] { return all_idle(); }, kRunMax))
    for (const auto& proxy : proxies_)
      if (!proxy->idle())
        world_.fail("pod %u: left are %zu sessions, %llu bytes registered", proxy->pod(),
                    proxy->running() ? proxy->worker()->session_count() : 0,
                    static_cast<unsigned long long>(proxy->stats().pinned_bytes.get()));
  Outcome outcome;
  outcome.connections = conversations_.size();
  outcome.over_smc = smc_of_the_dead_ + count_smc();
  outcome.pages_returned = fabric_.pages_returned();
  for (const auto& proxy : proxies_) {
    const WorkerStats& stats = proxy->stats();
    outcome.moved += stats.connections_moved.get();
    outcome.refused += stats.refused_memory.get();
    for (const auto& direction : stats.fallback)
      outcome.tcp_for_memory += direction[Side::kLocal][FallbackReason::kMemory].get();
  }
  outcome.links_most = turn_checks_.links_most();
  outcome.continuations = message_checks_.continuations();
  outcome.speakers_v1 = message_checks_.speakers(wire::LlcVersion::k1);
  outcome.speakers_v2 = message_checks_.speakers(wire::LlcVersion::k2);
  for (const auto& conversation : conversations_) {
    Ends& ends = outcome.ends.emplace_back();
    if (conversation->client) ends.client = conversation->client->report();
    ends.servers = conversation->servers.size();
    if (ends.servers != 0) ends.server = conversation->servers.back()->report();
  }
  const bool failed = world_.failure().has_value();
  take_down();
  if (!failed && (!fabric_.counts().none() || net_.live() != 0))
    world_.fail("left are %zu queue pairs, %zu buffers, %zu domains, %zu TCP connections",
                fabric_.counts().queue_pairs, fabric_.counts().buffers, fabric_.counts().domains,
                net_.live());
  outcome.failure = world_.failure();
  outcome.steps = world_.steps();
  return outcome;
}

void Cluster::take_down() {
  for (const auto& proxy : proxies_)
    if (proxy->running()) proxy->kill();
  conversations_.clear();
  world_.forget_all();
}

Outcome simulate(World& world) {
  Cluster cluster(world, draw_plan(world.random.fork(), world.seed));
  return cluster.run();
}

}  // namespace fairlead::sim
