// A connection in frames, before it has earned SMC-R: one TCP stream is the application's, the
// other one leads to the proxy of the peer. The rules are those of smc/deferral.h.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "event/stream.h"
#include "relay/pipes/backlog.h"
#include "relay/pipes/duplex.h"
#include "relay/pipes/tcp_relay.h"
#include "smc/deferral.h"

namespace fairlead::relay {

// From the application into frames.
class FramedOut {
 public:
  // `preface`: the client's, before its first frame.
  FramedOut(event::Stream& app, event::Stream& net, smc::Deferral& deferral,
            TcpRelayResources& shared, bool preface)
      : app_(app), net_(net), deferral_(deferral), shared_(shared), preface_due_(preface) {}

  // As it was in another process, and for that.
  void resume(ParkedFrames& parked);
  void park(ParkedFrames& into);

  RelayStep pump();
  std::uint64_t bytes() const { return bytes_; }
  // For Duplex: what the stream to the network has taken, and whether the application's bytes wait
  // for the relay that follows the hand-over.
  std::uint64_t passed_on() const { return waiting_.written(); }
  bool held() const { return deferral_.held(); }
  bool whole() const { return deferral_.ended() || app_.fin_arrived(); }
  void set_copy_bytes(std::size_t bytes) { copy_bytes_ = bytes; }
  // The peer may send so many bytes in frames. REQUIRES: as Deferral::open_window()
  void open_window(std::uint64_t max);
  // The hand-over, behind what waits.
  void hand_over();
  // Writes what waits for the network. True when nothing does.
  bool flush() { return waiting_.flush(net_) == Backlog::State::kEmpty; }

 private:
  RelayStep send_piece(std::size_t count, bool urgent);
  RelayStep send_end();
  RelayStep send(std::span<const std::byte> bytes);
  // What stands in front of the next bytes, copied so that it ends before `end`. Returns its begin.
  std::byte* put_due(std::byte* end);
  RelayStep send_due();

  event::Stream& app_;
  event::Stream& net_;
  smc::Deferral& deferral_;
  TcpRelayResources& shared_;
  Backlog waiting_;  // whole frames, but for the first
  std::uint64_t bytes_ = 0;
  std::size_t copy_bytes_ = kCopyBytes;
  bool preface_due_;
  bool window_due_ = false;  // goes with the preface
};

static_assert(smc::kFramedBytesMax % kBacklogStepBytes == 0);

// From frames to the application.
class FramedIn {
 public:
  FramedIn(event::Stream& net, event::Stream& app, smc::Deferral& deferral,
           TcpRelayResources& shared)
      : net_(net), app_(app), deferral_(deferral), shared_(shared) {}

  // As it was in another process, and for that.
  void resume(ParkedFrames& parked);
  void park(ParkedFrames& into);

  // What was read; the bytes are changed. kReset also when the peer has broken a rule, see fault().
  RelayStep take(std::span<std::byte> bytes);
  RelayStep pump();
  std::uint64_t bytes() const { return waiting_.written(); }
  std::uint64_t passed_on() const { return bytes(); }
  // For Duplex. What is still to be read may have the frame that ends it.
  bool whole() const {
    return deferral_.peer_ended() ||
           (net_.fin_arrived() && !lost_ && !deferral_.peer_handed_over());
  }
  // Which rule; "" if none.
  const char* fault() const { return fault_; }
  // The peer's stream has ended, or broken a rule.
  bool lost() const { return lost_; }
  // The application has got the end.
  bool finished() const { return finished_; }
  // The most memory that may be needed for what the application has not taken. Without a larger
  // window, it only gets less.
  std::size_t ahead_bytes_max() const {
    if (deferral_.peer_ended() || discards_) return waiting_.held_bytes();
    if (deferral_.windows()) return window_bytes();
    return smc::kFramedBytesMax + (waiting_.written() < before_until_ ? before_bytes_ : 0);
  }
  // That the peer may send before the application has taken more. A small one can always be opened
  // again.
  std::size_t window_bytes() const {
    const std::uint64_t passed = std::min(waiting_.written(), deferral_.bytes_received_max());
    return std::max<std::size_t>(smc::kFirstWindowBytes, deferral_.bytes_received_max() - passed);
  }
  // The application takes nothing any more: from here on, what comes for it is dropped.
  void discard() {
    discards_ = true;
    refused_ = false;
    waiting_.drop();
  }
  bool discards() const { return discards_; }
  // The peer is reset once the application has what came before.
  void end_peer() { peer_over_ = true; }
  // What the application has still to take, and what the peer sent behind its hand-over.
  Backlog release_waiting() { return std::move(waiting_); }
  std::vector<std::byte> release_behind() { return std::move(behind_); }

 private:
  void deliver(std::span<const std::byte> bytes, std::optional<std::size_t> urgent_at);
  RelayStep settle();

  event::Stream& net_;
  event::Stream& app_;
  smc::Deferral& deferral_;
  TcpRelayResources& shared_;
  Backlog waiting_;
  std::vector<std::byte> behind_;
  // What waited already when the frames began: so many bytes, up to this count of those passed on.
  std::size_t before_bytes_ = 0;
  std::uint64_t before_until_ = 0;
  std::uint64_t parts_ = 0;  // headers and bodies of frames, also partial ones
  const char* fault_ = "";
  bool lost_ = false;  // the peer's stream has ended without a frame that says so
  bool refused_ = false;
  bool discards_ = false;
  bool peer_over_ = false;
  bool finished_ = false;
};

class FramedRelay {
 public:
  FramedRelay(smc::Deferral::Role role, const smc::Deferral::Limits& limits, event::Stream& app,
              event::Stream& net, TcpRelayResources& shared, TimePoint now,
              smc::Deferral::Windows windows = smc::Deferral::Windows::kNone)
      : deferral_(role, limits, now, windows),
        out_(app, net, deferral_, shared, role == smc::Deferral::Role::kClient),
        in_(net, app, deferral_, shared),
        duplex_(app, net, out_, in_) {}

  // As it was in another process. `rules` are made of the parked ones.
  FramedRelay(smc::Deferral rules, ParkedFrames parked, event::Stream& app, event::Stream& net,
              TcpRelayResources& shared)
      : deferral_(std::move(rules)),
        out_(app, net, deferral_, shared, false),
        in_(net, app, deferral_, shared),
        duplex_(app, net, out_, in_) {
    out_.resume(parked);
    in_.resume(parked);
  }
  // All that it has in hand. It moves nothing any more.
  ParkedFrames park() {
    ParkedFrames parked{.rules = deferral_.state()};
    out_.park(parked);
    in_.park(parked);
    return parked;
  }

  // As Duplex.
  RelayStep pump(TimePoint now) {
    const bool unbounded = deferral_.unbounded();
    const std::uint64_t sent_max = deferral_.bytes_sent_max();
    const RelayStep step = duplex_.pump(now);
    // What was held back at the bound may go now.
    const bool opened =
        unbounded != deferral_.unbounded() || sent_max != deferral_.bytes_sent_max();
    return step == RelayStep::kIdle && opened ? RelayStep::kMore : step;
  }
  Deadline next_deadline() const { return duplex_.next_deadline(); }
  bool ending() const { return duplex_.ending(); }
  // As Duplex, for a host that does not answer.
  void end_net() { duplex_.end_net(); }
  FramedOut& towards_net() { return out_; }
  FramedIn& towards_app() { return in_; }
  // The peer's stream is of no use any more, although it may not have ended. What it has said in
  // frames still goes to the application; then pump() returns kReset.
  void end_peer() {
    in_.end_peer();
    duplex_.end_net();
  }
  const smc::Deferral& deferral() const { return deferral_; }

 private:
  smc::Deferral deferral_;
  FramedOut out_;
  FramedIn in_;
  Duplex<FramedOut, FramedIn> duplex_;
};

}  // namespace fairlead::relay
