// All that one stage of a session needs, made of fakes: the session around it, the network, and the
// worker's parts. A test begins a stage, plays both ends of the session's streams, and looks at
// what the stage returns.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "fake_device.h"
#include "fake_stream.h"
#include "relay/connection/handshake_permit.h"
#include "relay/connection/session_resources.h"
#include "relay/connection/stage.h"

namespace fairlead::relay {

inline SocketAddress address(const char* text) { return SocketAddress::parse(text).value(); }

// For tests over a table: each line has a name.
struct Case {
  const char* name;
  friend void PrintTo(const Case& line, std::ostream* out) { *out << line.name; }
};
struct CaseName {
  template <class Line>
  std::string operator()(const testing::TestParamInfo<Line>& line) const {
    return line.param.name;
  }
};

// The session without its stages. Keeps the first result that is not Stay.
class FakeSession final : public StageHost {
 public:
  void handle_ready(event::Stream&) override { mark_ready(); }
  void mark_ready() override { ready = true; }
  void handle_connection_event() override { mark_ready(); }
  void handle(const Event& event, TimePoint) override { call(event); }

  // The stage acts, unless it has returned what follows already.
  void call(const Event& event) {
    if (!stage || !std::holds_alternative<Stay>(result)) return;
    result = stage.handle(event, clock->now());
  }

  const Clock* clock = nullptr;
  Stage stage;
  StageResult result;
  bool ready = false;
};

class FakeNetwork final : public Network {
 public:
  TimePoint now() const override { return time; }
  std::chrono::system_clock::time_point wall_now() const override { return {}; }

  Result<ApplicationLeg> dial_application(const SocketAddress& to, const SocketAddress& client,
                                          unsigned) override {
    application_client = client;
    ApplicationLeg leg;
    leg.stream = SMC_TRY(dial(to));
    leg.client_address = ClientAddress::kShown;
    return leg;
  }
  Result<std::unique_ptr<event::Stream>> dial_peer(const SocketAddress& to, bpf::Announced announce,
                                                   const SocketAddress* client, unsigned) override {
    announced = announce;
    redirected_client.reset();
    if (client != nullptr) redirected_client = *client;
    return dial(to);
  }
  bool answer_application(event::Stream&) override {
    ++applications_answered;
    return !application_waits;
  }
  bool application_connected(event::Stream&) override { return !application_waits; }
  void refuse_application(event::Stream&, int error) override { application_refused_with = error; }
  void probe_peer(event::Stream&) override { ++probed; }
  bool option_available() const override { return has_option; }
  bpf::Announced option_answered(event::Stream&) override { return answered; }
  bpf::Announced option_requested(event::Stream&) override { return requested; }

  TimePoint time{std::chrono::hours(1)};
  bool has_option = true;
  bpf::Announced answered = bpf::Announced::kSmc;
  bpf::Announced requested = bpf::Announced::kSmc;
  int dial_error = 0;  // of the next dials
  bool connect_at_once = false;
  std::size_t room_when_dialled = std::size_t{1} << 40;
  int write_error_when_dialled = 0;
  // What was dialled.
  unsigned dials = 0;
  FakeStream* dialled = nullptr;  // the latest; the session owns it
  std::optional<SocketAddress> dialled_to;
  std::optional<bpf::Announced> announced;
  std::optional<SocketAddress> redirected_client;
  std::optional<SocketAddress> application_client;
  int probed = 0;
  unsigned applications_answered = 0;
  bool application_waits = false;  // for its answer
  std::optional<int> application_refused_with;

 private:
  Result<std::unique_ptr<event::Stream>> dial(const SocketAddress& to) {
    ++dials;
    dialled_to = to;
    if (dial_error != 0) return system_error("connect", dial_error);
    auto stream = std::make_unique<FakeStream>();
    stream->peer = to;
    if (!connect_at_once) stream->set_connecting();
    stream->room = room_when_dialled;
    stream->write_error = write_error_when_dialled;
    dialled = stream.get();
    return std::unique_ptr<event::Stream>(std::move(stream));
  }
};

class FakeWorker final : public SessionHost, public DeviceUsers {
 public:
  void mark_ready(Session&) override {}
  void retire(Session&) override {}
  void grant_permit(std::uint64_t session) override { granted.push_back(session); }
  bool many_active() const override { return false; }
  bool uses(const DeviceSlot&) const override { return false; }

  std::vector<std::uint64_t> granted;
};

// Settings are changed before open().
class StageTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kNumber = 7;
  static constexpr std::size_t kMemoryBytes = std::size_t{64} << 20;
  static constexpr AdmissionLimits kLimits{
      .connections_max = 8, .handshakes_max = 4, .handshakes_per_peer_max = 1};

  StageTest() {
    offer.peer_id.bytes[0] = 1;
    offer.ueids = {wire::Eid{}};
    host.clock = &network;
    tcp.budget = &budget;
    config.smc.defer_bytes = 0;
  }
  ~StageTest() override { close(); }

  // The streams of a session at its beginning: the accepted one.
  void open(Direction direction) {
    session.emplace(services, host, kNumber, direction, destination, SocketMemory(), network.now());
    (session->outbound() ? app : net) = accept();
  }
  // As open(), and the other stream stands too.
  void open_both(Direction direction) {
    open(direction);
    (session->outbound() ? net : app) =
        place(session->outbound() ? session->net : session->app, destination);
  }
  // The session pays for its memory, as one whose streams have descriptors.
  void pay() { session->memory = SocketMemory::begin(budget, session->direction).value(); }
  void spend_memory(std::size_t leave_bytes = 0) {
    ASSERT_TRUE(budget.take(MemoryUse::kConnections, budget.left_bytes() - leave_bytes));
  }
  // The device stays its owner's, as what leads to it.
  struct Placed {
    FakeDevice* device;
    FakeReachability* reachability;
    DeviceSlot* slot;
  };
  Placed add_device(bool leaves_node = true) {
    auto device = std::make_unique<FakeDevice>("rnic" + std::to_string(devices.slots().size()));
    auto reachability = std::make_unique<FakeReachability>(leaves_node);
    Placed placed{device.get(), reachability.get(), nullptr};
    EXPECT_TRUE(devices.add(std::move(device), std::move(reachability)));
    for (const std::unique_ptr<DeviceSlot>& slot : devices.slots())
      if (&slot->device() == placed.device) placed.slot = slot.get();
    return placed;
  }
  void spend_handshakes() {
    while (admission.begin_handshake()) continue;
  }
  // Another session has the only turn with the destination.
  void take_the_turn() { ASSERT_TRUE(admission.limiter().take(destination, kNumber + 1)); }

  template <class StageType, class... Arguments>
  StageType& begin(Arguments&&... arguments) {
    auto stage = make_stage<StageType>(*session, std::forward<Arguments>(arguments)...);
    StageType& begun = *stage;
    begin_stage(std::move(stage));
    return begun;
  }
  void begin_stage(Stage stage) {
    session->deadlines.end_stage();
    host.stage = std::move(stage);
    host.result = Stay{};
    host.call(Entered{});
    settle();
  }
  // The stage that was returned becomes that of the session.
  void follow() {
    ASSERT_TRUE(std::holds_alternative<UseStage>(host.result));
    begin_stage(std::move(std::get<UseStage>(host.result).next));
  }
  template <class StageType>
  void follow_to() {
    ASSERT_TRUE(next<StageType>());
    follow();
  }
  // Until nothing is left to do at this time.
  void settle() {
    bool more = true;
    for (int turn = 0; more && turn < 100; ++turn) {
      more = devices.poll(network.now());
      timers.run(network.now());
      if (std::exchange(host.ready, false)) {
        host.call(Ready{});
        more = true;
      }
      more = more || groups.events_pending() || is_due(timers.next_deadline(), network.now());
      groups.handle_events();
      groups.flush(network.now());
      devices.ring_doorbells();
    }
    EXPECT_FALSE(more) << "the stage does not come to rest";
  }
  // Something has happened to a stream.
  void turn() {
    host.mark_ready();
    settle();
  }
  void wait(Duration duration) {
    network.time += duration;
    settle();
  }
  // … in which the stage goes on until the last moment.
  void wait_all_of(Duration duration) {
    wait(duration - Duration(1));
    EXPECT_TRUE(stays());
    wait(Duration(1));
  }
  void give_turn() {
    host.call(PermitGranted{});
    settle();
  }
  // What happens to the streams.
  void app_says(const std::string& bytes) {
    app->feed(bytes);
    turn();
  }
  void peer_says(const std::string& bytes) {
    net->feed(bytes);
    turn();
  }
  void end_application() {
    app->feed_end();
    turn();
  }
  void end_peer() {
    net->feed_end();
    turn();
  }
  void reset_peer() {
    net->feed_reset();
    turn();
  }

  // What the stage has returned.
  bool stays() const { return std::holds_alternative<Stay>(host.result); }
  const UseTcp* tcp_result() const { return std::get_if<UseTcp>(&host.result); }
  // Nothing unless the connection is TCP.
  std::optional<FallbackReason> reason() const {
    const UseTcp* const result = tcp_result();
    return result != nullptr ? std::optional(result->cause.reason) : std::nullopt;
  }
  // Why both streams are reset; "" at an end in order; nothing unless the session ends.
  std::optional<std::string> end_why() const {
    const End* const end = std::get_if<End>(&host.result);
    if (end == nullptr) return std::nullopt;
    return end->reset_why != nullptr ? end->reset_why : "";
  }
  // The stage that follows, null if it is of another type.
  template <class StageType>
  StageType* next() const {
    const UseStage* const use = std::get_if<UseStage>(&host.result);
    return use != nullptr ? use->next.template get<StageType>() : nullptr;
  }

  // As the session does at its end. The streams live on for the test.
  void close() {
    if (auto* const smc = std::get_if<UseSmc>(&host.result))
      smc->membership.leave(network.now(), true);
    host.stage.leave(network.now());
    host.result = Stay{};
    host.stage = {};
    groups.stop_waiting(host);
  }

  const SocketAddress destination = address("192.0.2.20:80");
  const SocketAddress client = address("192.0.2.10:4000");

  config::Config config;
  smc::LocalOffer offer;
  LocalSubnetsOf subnets = [this](const SocketAddress&) { return own_subnets; };
  std::optional<smc::Subnets> own_subnets;
  FakeNetwork network;
  WorkerStats stats;
  MemoryBudget budget{kMemoryBytes, 0, stats};
  event::TimerQueue timers;
  TcpRelayResources tcp;
  FallbackLog fallbacks;
  DecisionLog decisions;
  AnnouncingPeers announcing;
  // What the redirect programs hear of destinations.
  std::vector<SocketAddress> told_answering, told_forgotten;
  Destinations destinations{
      {.leave_alone = [](const SocketAddress&, unsigned) { return Result<void>(); },
       .answers = [this](const SocketAddress& to) -> Result<void> {
         told_answering.push_back(to);
         return {};
       },
       .forget = [this](const SocketAddress& to) -> Result<void> {
         told_forgotten.push_back(to);
         return {};
       },
       .forget_all = [] { return Result<void>(); }}};
  GroupResources shared{.budget = &budget,
                        .timers = &timers,
                        .stats = &stats,
                        .times = {},
                        .slab_idle = config.buffers.idle_timeout,
                        .clock = &network};
  FakeWorker worker;
  Admission admission{kLimits, budget, stats, network, shared.lines};
  DeviceRegistry devices{config, offer.peer_id, groups, shared, worker};  // outlives the groups
  LinkGroupRegistry groups{shared, 0, 1};
  SessionServices services{worker,    config,       offer,         subnets, network, timers,
                           stats,     shared.lines, admission,     devices, groups,  fallbacks,
                           decisions, announcing,   &destinations, tcp};
  FakeSession host;
  std::optional<SessionResources> session;
  FakeStream* app = nullptr;  // of the session, as `net`
  FakeStream* net = nullptr;
  bool app_reset = false, net_reset = false;  // that one, though it may be gone

 private:
  FakeStream* accept() { return place(session->outbound() ? session->app : session->net, client); }
  FakeStream* place(std::unique_ptr<event::Stream>& at, const SocketAddress& peer) {
    auto stream = std::make_unique<FakeStream>();
    stream->peer = peer;
    stream->local = destination;
    stream->reset_seen = &at == &session->app ? &app_reset : &net_reset;
    FakeStream* const placed = stream.get();
    at = std::move(stream);
    return placed;
  }
};

}  // namespace fairlead::relay
