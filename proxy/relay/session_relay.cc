// A session that relays, in frames before its negotiation or by one of two relays after it, turn by
// turn.

#include <algorithm>
#include <cerrno>

#include "base/log.h"
#include "relay/session.h"

namespace fairlead::relay {

namespace {

// Looks at a silent peer within tcp.user_timeout.
constexpr int kSilenceLooks = 4;

// What the kernel says of a host that does not answer; ICMP may have named the cause.
bool means_vanished(int error) {
  return error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH;
}

}  // namespace

void Session::run_tcp(TimePoint now) {
  if (peer_gone_) return lose_tcp(ETIMEDOUT);
  const RelayStep step = tcp_->pump(now);
  count_bytes();
  pay_for_growth();
  switch (step) {
    case RelayStep::kIdle:
      if (const auto deadline = tcp_->next_deadline()) {
        if (!timers_.last_words)
          timers_.last_words.emplace(services_.timers,
                                     [this] { services_.host.mark_ready(*this); });
        timers_.last_words->set(deadline);
      }
      return;
    case RelayStep::kMore:
      return services_.host.mark_ready(*this);
    case RelayStep::kEnded:
      return die();
    case RelayStep::kReset:
    case RelayStep::kRefused:
      // The stream remembers what ended it.
      return lose_tcp(net_->take_error());
  }
}

void Session::lose_tcp(int error) {
  if (!means_vanished(error)) return abandon("reset");
  report_vanished(to_string(system_error("the peer's host", error)));
  abandon("the peer's host no longer answers");
}

void Session::report_vanished(const std::string& what) {
  Counter& count = services_.stats.peer_timeouts;
  count.add();
  // All connections to a host end at once.
  if (count.get() % kRefusalsPerLine != 1) return;
  services_.lines.write(LogLevel::kWarn, "relay.session", "peer_vanished", services_.network.now(),
                        [&](LogEvent& line) {
                          line.field("conn", id())
                              .field("peer",
                                     to_string(outbound() ? destination_ : net_->peer_address()))
                              .field("what", what)
                              .field("total", count.get());
                        });
}

void Session::watch_silence() {
  const Duration timeout = services_.config.tcp.user_timeout;
  if (timeout == Duration::zero() || net_->descriptor() < 0) return;
  timers_.wait.emplace(services_.timers, [this, timeout] {
    const TimePoint now = services_.network.now();
    const std::optional<TcpWait> seen = read_tcp_wait(net_->descriptor());
    peer_gone_ = seen && silence_.gone(*seen, now, timeout);
    if (peer_gone_) return services_.host.mark_ready(*this);
    timers_.wait->set(now + timeout / kSilenceLooks);
  });
  timers_.wait->set(services_.network.now() + timeout / kSilenceLooks);
}

void Session::run_smc(TimePoint now) {
  if (!app_) return await_last_word(now);
  watch_companion(now);
  if (companion_.ended_until && now >= *companion_.ended_until) end_without_companion();
  if (smc_->connection.next_deadline() && now >= *smc_->connection.next_deadline())
    smc_->connection.handle_deadline(now);
  const SmcRelay::Step step = smc_->pump(*app_, publish_bytes(), now);
  if (const std::optional<Side> full = smc_->connection.tx_blocked()) {
    WorkerStats& stats = services_.stats;
    (*full == Side::kLocal ? stats.buffer_full_local : stats.buffer_full_peer).add();
  }
  count_bytes();
  pay_for_growth();
  if (smc_->connection.transmit_due() && !smc_->connection.lost())
    smc_->group->sender().schedule(*smc_);
  switch (step) {
    case SmcRelay::Step::kMore:
      services_.host.mark_ready(*this);
      break;
    case SmcRelay::Step::kReset:
      services_.stats.connections_reset.add();
      net_->reset_on_close();
      app_.reset();
      net_.reset();
      close_wait_ = now + kCloseAnswerWait;
      return await_last_word(now);
    case SmcRelay::Step::kFinished:
      return die();
    case SmcRelay::Step::kIdle:
      break;
  }
  std::optional<TimePoint> deadline = smc_->next_deadline();
  if (smc_->awaits_answer()) {
    if (!close_wait_) close_wait_ = now + kCloseAnswerWait;
    if (now >= *close_wait_) return die();
    if (!deadline || *close_wait_ < *deadline) deadline = close_wait_;
  }
  if (companion_.ended_until && (!deadline || *companion_.ended_until < *deadline))
    deadline = companion_.ended_until;
  if (deadline || timers_.wait) wake_at(deadline);
}

bool Session::look() {
  if (phase_ != Phase::kSmc || !app_ || !smc_->look(*app_, publish_bytes())) return false;
  services_.host.mark_ready(*this);
  return true;
}

// A lone stream is passed on in parts, so that the peer writes while we read. Where there are
// others to go on with, a larger part costs both of us fewer turns.
std::uint32_t Session::publish_bytes() const {
  const config::Buffers& buffers = services_.config.buffers;
  return static_cast<std::uint32_t>(services_.host.many_active() ? buffers.size : buffers.publish);
}

// Both streams are gone. But until the peer has answered our abort, it may write into the element,
// which therefore stays ours; a connection that nobody answers for keeps it out of use for good.
void Session::await_last_word(TimePoint now) {
  if (smc_->connection.finished() || smc_->connection.lost() || now >= *close_wait_) return die();
  wake_at(close_wait_);
}

void Session::wake_at(std::optional<TimePoint> deadline) {
  if (!timers_.wait)
    timers_.wait.emplace(services_.timers, [this] { services_.host.mark_ready(*this); });
  timers_.wait->set(deadline);
}

// The TCP connection under an SMC-R connection carries nothing. But its reset means that the peer's
// group, or the peer itself, has gone without a word; and its end either that the peer is done, and
// its last word is about to come, or that its process is dead.
void Session::watch_companion(TimePoint now) {
  if (companion_.told) {
    LogEvent(LogLevel::kDebug, "relay.session", "companion_reset").field("conn", id());
    companion_.told = false;
    return smc_->connection.abort();
  }
  if (!net_->readable()) return;
  std::byte scratch[512];
  const iovec into{scratch, sizeof scratch};
  const event::IoResult result = net_->read({&into, 1});
  // A network that forgot the silent connection says nothing about the way over the devices: what
  // only timed out is a reason to ask, as its end is.
  const bool reset = companion_.reset || (result.kind == event::IoResult::Kind::kError &&
                                          !means_vanished(result.error));
  if (!reset && result.kind != event::IoResult::Kind::kEnd &&
      result.kind != event::IoResult::Kind::kError)
    return;
  net_->set_not_readable();
  companion_.reset = false;
  if (smc_->connection.finished() || smc_->connection.lost()) return;
  if (!reset) {
    if (result.kind == event::IoResult::Kind::kEnd)
      companion_.ended_until = now + kCompanionEndWait;
    return smc_->group->doubt(smc_->link, smc::Doubt::kPeerGone, now);
  }
  // What the peer announced before may lie in the device's queue: the next turn looks there first.
  companion_.told = true;
  services_.host.mark_ready(*this);
}

// The link has answered, so the peer lives, but it has forgotten this connection: nothing would
// ever come. Linux also ends the TCP connection at a half-close, which it has announced then.
void Session::end_without_companion() {
  companion_.ended_until.reset();
  if (smc_->connection.peer_ended() || smc_->connection.reset()) return;
  LogEvent(LogLevel::kDebug, "relay.session", "companion_ended").field("conn", id());
  smc_->connection.abort();
}

Transport Session::transport() const {
  if (framed_) return Transport::kShort;
  return phase_ == Phase::kSmc ? Transport::kSmcr : Transport::kTcp;
}

void Session::count_bytes() {
  const auto [tx, rx] = [this]() -> std::pair<std::uint64_t, std::uint64_t> {
    if (framed_) return {framed_->towards_net().bytes(), framed_->towards_app().bytes()};
    if (smc_) return {counted_.framed_tx + smc_->connection.tx_bytes(), smc_->rx_bytes()};
    return {counted_.framed_tx + tcp_->towards_net().bytes(), tcp_->towards_app().bytes()};
  }();
  TrafficStats& traffic = services_.stats.traffic_of(direction_, transport());
  traffic.tx_bytes.add(tx - counted_.tx);
  traffic.rx_bytes.add(rx - counted_.rx);
  counted_.tx = tx;
  counted_.rx = rx;
}

// A connection that moves bytes may have larger buffers; one that stalls keeps those it has.
void Session::pay_for_growth() {
  memory_.moved(counted_.tx + counted_.rx, *app_, tcp_ || framed_ ? net_.get() : nullptr);
  if (framed_) framed_->towards_net().set_copy_bytes(memory_.copy_bytes());
  if (tcp_) tcp_->set_copy_bytes(memory_.copy_bytes());
  if (framed_)
    memory_.keep_ahead(framed_->towards_app().ahead_bytes_max());
  else
    memory_.keep_ahead(tcp_ ? tcp_->towards_app().ahead_bytes() : smc_->ahead_bytes());
}

void Session::refuse_for_memory() {
  services_.admission.note_refusal(outbound() ? *app_ : *net_, Admission::Refusal::kMemory);
  abandon("memory.limit is spent");
}

ConnectionRow Session::row(TimePoint now) const {
  ConnectionRow row;
  row.id = id();
  row.worker = 0;
  row.direction = direction_;
  row.transport = transport();
  row.state = setup_ ? "handshake" : "active";
  if (app_) row.app = to_string(outbound() ? app_->peer_address() : destination_);
  if (net_) row.peer = to_string(outbound() ? destination_ : net_->peer_address());
  if (reason_) {
    row.reason = fallback_info(*reason_).name;
    row.reason_code = fallback_info(*reason_).code;
  }
  if (client_address_) row.client_address = client_address_info(*client_address_).name;
  row.age_seconds = std::chrono::duration<double>(now - began_).count();
  row.tx_bytes = counted_.tx;
  row.rx_bytes = counted_.rx;
  if (!smc_) return row;
  if (phase_ == Phase::kSmc) row.state = smc::to_string(smc_->connection.close_state());
  row.group = smc_->group != nullptr ? smc_->group->id() : "";
  if (smc_->group != nullptr)
    if (const auto& link = smc_->group->protocol().links()[smc_->link])
      row.link = link->number().value;
  row.local_token = smc_->connection.local_token().value;
  row.peer_token = smc_->connection.peer_token().value;
  row.rmb_bytes = smc_->connection.local_element_bytes();
  row.peer_rmb_bytes = smc_->connection.peer_element().size_bytes;
  return row;
}

void Session::begin_in_frames(TimePoint now) {
  using Role = smc::Deferral::Role;
  const config::Smc& smc = services_.config.smc;
  std::vector<std::byte> unread = std::move(setup_->unread);
  end_setup();
  phase_ = Phase::kFrames;
  services_.stats.traffic_of(direction_, Transport::kShort).connections_active.add();
  const smc::Deferral::Limits limits{smc.defer_bytes, smc.defer_turns, smc.defer_time};
  framed_ = std::make_unique<FramedRelay>(outbound() ? Role::kClient : Role::kServer, limits, *app_,
                                          *net_, services_.tcp, now);
  framed_->towards_net().set_copy_bytes(memory_.copy_bytes());
  watch_silence();
  probe_peer_later();
  // Whatever comes of it, the next turn meets it again.
  if (!unread.empty())
    (void)framed_->towards_app().take(std::span(unread).subspan(wire::kFramePreface.size()));
  run_frames(now);
}

void Session::run_frames(TimePoint now) {
  if (peer_gone_) return lose_tcp(ETIMEDOUT);
  const RelayStep step = framed_->pump(now);
  count_bytes();
  pay_for_growth();
  const smc::Deferral& deferral = framed_->deferral();
  if (framed_->outgrown()) memory_.become_tcp(*net_);
  // A handshake that it waits for is void once its application has ended.
  if (setup_ && !deferral.may_hand_over()) end_setup();
  switch (step) {
    case RelayStep::kEnded:
      return die();
    case RelayStep::kReset:
    case RelayStep::kRefused:
      return end_frames();
    case RelayStep::kMore:
      services_.host.mark_ready(*this);
      break;
    case RelayStep::kIdle:
      break;
  }
  if (const auto deadline = framed_->next_deadline()) {
    if (!timers_.last_words)
      timers_.last_words.emplace(services_.timers, [this] { services_.host.mark_ready(*this); });
    timers_.last_words->set(deadline);
    return;
  }
  if (deferral.peer_handed_over()) return answer_hand_over(now);
  if (deferral.earned(now)) hand_over(now);
}

void Session::end_frames() {
  if (const char* fault = framed_->towards_app().fault(); *fault != '\0') {
    refuse_peer(fault);
    return abandon("the peer broke the rules of frames");
  }
  lose_tcp(net_->take_error());
}

// The peer has broken the rules of the frames, or of the handshake behind them.
void Session::refuse_peer(const char* detail) {
  services_.stats.refused_of(RefusedFor::kHandshake).add();
  services_.lines.write(LogLevel::kWarn, "relay.session", "frames_refused", services_.network.now(),
                        [&](LogEvent& line) {
                          line.field("conn", id())
                              .field("peer",
                                     to_string(outbound() ? destination_ : net_->peer_address()))
                              .field("phase", setup_ ? setup_->phase : "frames")
                              .field("detail", detail);
                        });
}

void Session::leave_frames() {
  services_.stats.traffic_of(direction_, Transport::kShort).connections_active.sub();
  counted_.framed_tx = framed_->towards_net().bytes();
  framed_.reset();
}

// The connection ends before it is SMC-R, or TCP for good.
void Session::record_short() {
  TrafficStats& traffic = services_.stats.traffic_of(direction_, Transport::kShort);
  traffic.connections_active.sub();
  traffic.connections_total.add();
  const TimePoint now = services_.network.now();
  Decision decision;
  decision.session = number_;
  decision.time = services_.network.wall_now();
  decision.direction = direction_;
  decision.transport = Transport::kShort;
  decision.peer = outbound() ? destination_ : net_->peer_address();
  decision.elapsed_seconds = std::chrono::duration<double>(now - began_).count();
  const bool earned = setup_ || framed_->deferral().handed_over();
  decision.steps = {"the connection began in frames", earned
                                                          ? "it ended during its handshake"
                                                          : "it ended before it had earned SMC-R"};
  services_.decisions.add(std::move(decision));
}

}  // namespace fairlead::relay
