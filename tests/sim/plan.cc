#include "sim/plan.h"

#include <algorithm>

namespace fairlead::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

class Draw {
 public:
  Draw(Random random, bool calm) : random_(random), calm_(calm) {}

  Plan plan() {
    plan_.stormy = random_.chance(500) && !calm_;
    const auto pods = static_cast<Pod>(random_.between(2, random_.chance(200) ? 4 : 2));
    const bool addressable = random_.chance(500);
    for (Pod pod = 1; pod <= pods; ++pod) plan_.proxies.push_back(proxy(pod, addressable));
    weather();
    const auto count = random_.chance(150) ? random_.between(8, 30) : random_.between(1, 6);
    for (std::uint64_t i = 0; i < count; ++i) plan_.connections.push_back(connection(pods));
    for (auto n = random_.between(0, 2); n != 0; --n) plan_.faults.push_back(refusal(pods));
    break_silence(plan_);
    if (plan_.stormy) storm(pods);
    if (random_.chance(600)) flapping(pods);
    defer();
    for (ProxySettings& settings : plan_.proxies)
      settings.receive_queue_crosses_domains = random_.chance(500);
    for (ProxySettings& settings : plan_.proxies)
      settings.shared_receive_queues = !random_.chance(250);
    return std::move(plan_);
  }

  // One of a pair may speak version 1 alone, both, or offer it beside version 2. A pair without a
  // version or a subnet in common uses TCP.
  void mix_versions(Plan& plan) {
    const bool one_for_all = random_.chance(400);
    for (ProxySettings& settings : plan.proxies) {
      config::SmcVersion& version = settings.config.smc.version;
      if (one_for_all || random_.chance(300))
        version = config::SmcVersion::kOne;
      else if (random_.chance(200))
        version = config::SmcVersion::kTwo;
      if (random_.chance(500))
        settings.roce_v1_vlan = random_.chance(50) ? std::uint16_t{0} : std::uint16_t{42};
      if (random_.chance(30)) settings.subnet_bits = kSubnetBits - 8;
    }
  }

  // Some proxies are older than the windows of frames.
  void age_some(Plan& plan) {
    for (ProxySettings& settings : plan.proxies) settings.knows_windows = !random_.chance(125);
  }

  // Connections reach memory.limit or that of rings, at one end or both: when they begin, in
  // frames, at the hand-over, when their buffers would grow, in a drain. Some applications do not
  // read for a while, so that what they are sent waits in the proxies.
  void make_scarce(Plan& plan) {
    const auto pods = static_cast<Pod>(plan.proxies.size());
    const bool deferred = random_.chance(750);
    const std::size_t defer_bytes = power(12, 16);
    for (ProxySettings& settings : plan.proxies) {
      if (deferred) {
        settings.config.smc.defer_bytes = defer_bytes;
        settings.config.smc.defer_turns = 1000;
        settings.config.smc.defer_time = milliseconds(1) + up_to(seconds(2));
      }
      if (random_.chance(800))
        settings.memory_limit_bytes =
            kScarceStepBytes * random_.between(14, random_.chance(500) ? 40 : 160);
      if (random_.chance(300)) settings.memory_bytes = power(14, 17);
      if (random_.chance(300))
        settings.unmappable_one_in = static_cast<unsigned>(random_.between(2, 5));
    }
    for (auto n = random_.between(5, 40); n != 0; --n) {
      ConnectionPlan made = connection(pods);
      made.at = up_to(milliseconds(20));
      for (Script* script : {&made.client, &made.server}) {
        if (!random_.chance(400)) continue;
        script->stall_after = random_.between(0, 2000);
        script->stall = up_to(seconds(2));
      }
      plan.connections.push_back(made);
    }
    break_silence(plan);
    if (!random_.chance(300)) return;
    Fault fault;
    fault.kind = Fault::Kind::kDrain;
    fault.pod = static_cast<Pod>(random_.between(1, pods));
    fault.at = up_to(milliseconds(40));
    plan.faults.push_back(fault);
  }

  // One proxy, up to six times, at moments near each other as often as not. Where two wait for each
  // other's handshakes, connections end when hand_over.settle has passed.
  void replace_proxies(Plan& plan) {
    const auto pods = static_cast<Pod>(plan.proxies.size());
    for (ProxySettings& settings : plan.proxies) settings.own_kind_only = true;
    const bool deferred = random_.chance(700);
    const std::size_t defer_bytes = power(10, 16);
    for (ProxySettings& settings : plan.proxies)
      settings.config.smc.defer_bytes = deferred ? defer_bytes : 0;
    const auto replaced = static_cast<Pod>(random_.between(1, pods));
    const Duration within = random_.chance(600) ? Duration(milliseconds(15)) : seconds(8);
    for (auto n = random_.between(1, 6); n != 0; --n) {
      Fault fault;
      fault.kind = Fault::Kind::kHandOver;
      fault.pod = replaced;
      fault.at = up_to(within);
      fault.grace = seconds(5);
      plan.faults.push_back(fault);
    }
  }

 private:
  static constexpr std::size_t kScarceStepBytes = 65536;  // of the smallest connection

  // If the answer's option was lost, the server waits until the client sends data.
  static void break_silence(Plan& plan) {
    if (plan.net.strip_answer_per_mille == 0) return;
    for (ConnectionPlan& made : plan.connections)
      if (made.client.ending == Script::Ending::kAnswer && made.client.bytes == 0)
        made.client.bytes = 1;
  }
  Duration up_to(Duration most) {
    return Duration{
        static_cast<std::int64_t>(random_.between(0, static_cast<std::uint64_t>(most.count())))};
  }
  std::size_t power(unsigned least, unsigned most) {
    return std::size_t{1} << random_.between(least, most);
  }

  ProxySettings proxy(Pod pod, bool addressable) {
    ProxySettings settings = default_proxy(pod);
    settings.addressable = addressable;
    settings.handshakes_per_peer_max = pod % 2 == 1 ? 2 : 100;
    if (pod % 2 == 0) settings.turn_max = Duration{};
    settings.config.buffers.size = power(14, 16);
    settings.config.buffers.publish = power(12, 14);
    settings.config.smc.max_connections_per_group = 16;
    settings.config.smc.max_links = static_cast<unsigned>(random_.between(1, 3));
    settings.config.smc.group_idle_timeout = up_to(seconds(3));
    settings.config.smc.test_link_interval = random_.chance(300) ? Duration{} : seconds(1);
    Random coin = random_;  // so that what is drawn after it does not depend on it
    if (coin.chance(600))
      settings.config.buffers.idle_timeout =
          coin.chance(300) ? milliseconds(0)
                           : milliseconds(static_cast<std::int64_t>(coin.between(0, 300)));
    settings.ports = static_cast<unsigned>(random_.between(1, 2));
    settings.memory_bytes = random_.chance(200) ? power(14, 17) : power(18, 22);
    if (random_.chance(100)) settings.handshakes_max = random_.between(1, 3);
    if (random_.chance(30)) settings.config.smc.enabled = false;
    if (random_.chance(30)) settings.devices = 0;
    return settings;
  }

  void weather() {
    if (random_.chance(300)) plan_.tcp.delay_max = milliseconds(2);
    if (random_.chance(300)) plan_.tcp.coalesced_per_mille = 800;
    if (random_.chance(200)) plan_.tcp.straggler_per_mille = 60;
    if (random_.chance(300)) plan_.tcp.buffer_bytes_max = 4096;
    if (random_.chance(300)) plan_.fabric.delay_max = milliseconds(1);
    if (random_.chance(200)) plan_.fabric.straggler_per_mille = 50;
    if (random_.chance(150)) plan_.net.strip_syn_per_mille = 300;
    if (random_.chance(150)) plan_.net.strip_answer_per_mille = 300;
  }

  std::uint64_t bytes() {
    switch (random_.between(0, 4)) {
      case 0:
        return 0;
      case 1:
        return random_.between(1, 200);
      case 2:
        return random_.between(1, 9000);
      default:
        return random_.between(1, 150000);
    }
  }

  Script script() {
    Script script;
    script.bytes = bytes();
    script.chunk_max = power(6, 14);
    script.read_max = power(8, 14);
    if (script.bytes > 40000) {
      script.chunk_max = power(11, 14);
      script.read_max = power(11, 14);
    }
    if (random_.chance(300)) script.pause_max = up_to(milliseconds(2));
    if (random_.chance(300)) script.start_delay = up_to(milliseconds(5));
    if (random_.chance(200)) {
      script.stall_after = random_.between(0, 30000);
      script.stall = up_to(random_.chance(100) ? Duration(seconds(5)) : milliseconds(200));
    }
    if (random_.chance(80)) script.reset_after = random_.between(0, 2 * script.bytes);
    return script;
  }

  ConnectionPlan connection(Pod pods) {
    ConnectionPlan plan;
    plan.from = static_cast<Pod>(random_.between(1, pods));
    plan.to = static_cast<Pod>(random_.between(1, pods - 1));
    if (plan.to >= plan.from) ++plan.to;
    plan.at = up_to(random_.chance(300) ? Duration(seconds(8)) : milliseconds(5));
    plan.listening = !random_.chance(30);
    plan.client = script();
    plan.server = script();
    if (random_.chance(250)) {
      // Ping-pong.
      plan.client.bytes = plan.server.bytes = random_.between(1, 4000);
      plan.client.lead = random_.between(1, 300);
      plan.server.lead = 0;
    }
    switch (random_.between(0, 5)) {
      case 0:
        plan.server.ending = Script::Ending::kAnswer;
        break;
      case 1:
        plan.client.ending = Script::Ending::kAnswer;
        break;
      case 2:
        (random_.chance(500) ? plan.client : plan.server).ending = Script::Ending::kClose;
        break;
      default:
        break;
    }
    return plan;
  }

  // These lead to TCP, not to resets.
  Fault refusal(Pod pods) {
    constexpr Fault::Kind kKinds[] = {Fault::Kind::kRefuseMemory, Fault::Kind::kRefuseQueuePairs,
                                      Fault::Kind::kRefuseConnect, Fault::Kind::kStall};
    Fault fault;
    fault.kind = kKinds[random_.between(0, std::size(kKinds) - 1)];
    fault.pod = static_cast<Pod>(random_.between(1, pods));
    fault.at = up_to(milliseconds(20));
    fault.lasting = up_to(milliseconds(400));
    fault.per_mille = static_cast<unsigned>(random_.between(50, 1000));
    return fault;
  }

  void storm(Pod pods) {
    if (random_.chance(250)) plan_.net.refuse_per_mille = 100;
    if (random_.chance(150)) plan_.net.swallow_per_mille = 60;
    if (random_.chance(400)) plan_.net.reset_per_mille = 300;
    plan_.net.reset_within = up_to(milliseconds(20));
    // Without TEST_LINK, a peer that vanished without outstanding requests would not be noticed.
    for (ProxySettings& settings : plan_.proxies)
      settings.config.smc.test_link_interval = seconds(1);
    plan_.fabric.announced_per_mille = static_cast<unsigned>(random_.between(0, 1000));
    for (auto n = random_.between(0, 3); n != 0; --n) {
      constexpr Fault::Kind kKinds[] = {Fault::Kind::kQueuePairDies, Fault::Kind::kQueuePairDies,
                                        Fault::Kind::kPortDown,      Fault::Kind::kPortDown,
                                        Fault::Kind::kTerminate,     Fault::Kind::kKill,
                                        Fault::Kind::kDrain,         Fault::Kind::kCut,
                                        Fault::Kind::kStall,         Fault::Kind::kRefuseRemote};
      Fault fault;
      fault.kind = kKinds[random_.between(0, std::size(kKinds) - 1)];
      fault.pod = static_cast<Pod>(random_.between(1, pods));
      fault.at = up_to(random_.chance(700) ? Duration(milliseconds(20)) : seconds(8));
      fault.lasting = up_to(random_.chance(500) ? Duration(milliseconds(50)) : seconds(6));
      fault.grace = up_to(milliseconds(50));
      plan_.faults.push_back(fault);
    }
  }

  // Several links, of which one fails at times. No connection may be reset.
  void flapping(Pod pods) {
    Random links = random_;  // so that what is drawn after it does not depend on it
    const bool three = links.chance(500);
    for (ProxySettings& settings : plan_.proxies) {
      settings.config.smc.max_links = three && links.chance(900) ? 3 : 2;
      settings.ports = random_.chance(150) ? 1 : static_cast<unsigned>(random_.between(2, 3));
      // Three ports are those of three devices as often as not.
      Random coin = random_;  // so that what is drawn after it does not depend on it
      if (settings.ports == 3 && settings.devices == 1 && coin.chance(500))
        std::swap(settings.ports, settings.devices);
    }
    const bool fast = random_.chance(500);
    for (auto n = random_.between(1, 20); n != 0; --n) {
      Fault fault;
      fault.kind =
          random_.chance(300) ? Fault::Kind::kSpareQueuePairDies : Fault::Kind::kSparePortDown;
      fault.pod = static_cast<Pod>(random_.between(1, pods));
      fault.at = up_to(fast ? Duration(milliseconds(15)) : seconds(8));
      fault.lasting = up_to(fast ? Duration(milliseconds(3)) : seconds(4));
      plan_.faults.push_back(fault);
    }
  }

  // Connections begin in frames if both ends enable them.
  void defer() {
    Random coin = random_;  // so that what is drawn after it does not depend on it
    if (!coin.chance(600)) return;
    for (ProxySettings& settings : plan_.proxies) {
      if (coin.chance(150)) continue;
      settings.config.smc.defer_bytes = std::size_t{1} << coin.between(10, 16);
      settings.config.smc.defer_turns = static_cast<unsigned>(coin.between(1, 30));
      settings.config.smc.defer_time =
          milliseconds(static_cast<std::int64_t>(coin.chance(500) ? coin.between(1, 20) : 1000));
    }
  }

  Random random_;
  const bool calm_;
  Plan plan_;
};

}  // namespace

bool Plan::scarce() const {
  return std::any_of(proxies.begin(), proxies.end(), [](const ProxySettings& settings) {
    return settings.memory_limit_bytes != 0;
  });
}

ProxySettings default_proxy(Pod pod) {
  ProxySettings settings;
  settings.pod = pod;
  settings.config.buffers.size = settings.config.buffers.size_min = 16 * config::kKibibyte;
  settings.config.buffers.publish = 8 * config::kKibibyte;
  settings.config.smc.group_idle_timeout = seconds(2);
  settings.config.smc.defer_bytes = 0;  // see defer()
  return settings;
}

Plan draw_plan(Random random, std::uint64_t seed) {
  const bool replaced = seed >= kReplacedSeedsBegin;
  const bool scarce = seed >= kScarceSeedsBegin && !replaced;
  Draw draw(random, scarce || replaced);
  Plan plan = draw.plan();
  if (seed >= kMixedSeedsBegin) draw.mix_versions(plan);
  if (replaced) draw.replace_proxies(plan);
  if (scarce) draw.make_scarce(plan);
  draw.age_some(plan);
  return plan;
}

}  // namespace fairlead::sim
