// A connection in frames, before it has earned SMC-R: one TCP stream is the application's, the
// other one leads to the peer's proxy. smc/frames/deferral.h has the rules.
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
#include "smc/frames/deferral.h"

namespace fairlead::relay {

// Moves bytes from the application into frames.
class FramedOut {
 public:
  // `preface`: send the client's preface before the first frame.
  FramedOut(event::Stream& app, event::Stream& net, smc::Deferral& deferral,
            TcpRelayResources& shared, bool preface)
      : app_(app), net_(net), deferral_(deferral), shared_(shared), preface_due_(preface) {}

  // Takes over the state from another process, or leaves it to one.
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
  // Allows the peer to send up to `max` bytes in frames. REQUIRES: as Deferral::open_window()
  void open_window(std::uint64_t max);
  // Sends the hand-over, after what waits.
  void hand_over();
  // Writes what waits for the network. True when nothing waits any more.
  bool flush() { return waiting_.flush(net_) == Backlog::State::kEmpty; }

 private:
  RelayStep send_piece(std::size_t count, bool urgent);
  RelayStep send_end();
  RelayStep send(std::span<const std::byte> bytes);
  // Copies what must precede the next bytes, so that it ends at `end`. Returns its first byte.
  std::byte* put_due(std::byte* end);
  RelayStep send_due();

  event::Stream& app_;
  event::Stream& net_;
  smc::Deferral& deferral_;
  TcpRelayResources& shared_;
  Backlog waiting_;  // whole frames, except perhaps the first
  std::uint64_t bytes_ = 0;
  std::size_t copy_bytes_ = kCopyBytes;
  bool preface_due_;
  bool window_due_ = false;  // is sent with the preface
};

static_assert(smc::kFramedBytesMax % kBacklogStepBytes == 0);

// Moves bytes from frames to the application.
class FramedIn {
 public:
  FramedIn(event::Stream& net, event::Stream& app, smc::Deferral& deferral,
           TcpRelayResources& shared)
      : net_(net), app_(app), deferral_(deferral), shared_(shared) {}

  // Takes over the state from another process, or leaves it to one.
  void resume(ParkedFrames& parked);
  void park(ParkedFrames& into);

  // Processes bytes from the peer, and modifies them. kReset also if the peer has broken a rule,
  // see fault().
  RelayStep take(std::span<std::byte> bytes);
  RelayStep pump();
  std::uint64_t bytes() const { return waiting_.written(); }
  std::uint64_t passed_on() const { return bytes(); }
  // For Duplex. Unread bytes may include the peer's end frame.
  bool whole() const {
    return deferral_.peer_ended() ||
           (net_.fin_arrived() && !lost_ && !deferral_.peer_handed_over());
  }
  // The rule that the peer has broken; "" if none.
  const char* fault() const { return fault_; }
  // The peer's stream has ended without an end frame, or has broken a rule.
  bool lost() const { return lost_; }
  // The application has received the end of the stream.
  bool finished() const { return finished_; }
  // Maximum memory for bytes that the application has not taken. It only shrinks, unless the window
  // grows.
  std::size_t ahead_bytes_max() const {
    if (deferral_.peer_ended() || discards_) return waiting_.held_bytes();
    if (deferral_.windows()) return window_bytes();
    return smc::kFramedBytesMax + (waiting_.written() < before_until_ ? before_bytes_ : 0);
  }
  // Bytes that the peer may send before the application takes more. A small window can always be
  // opened again.
  std::size_t window_bytes() const {
    const std::uint64_t passed = std::min(waiting_.written(), deferral_.bytes_received_max());
    return std::max<std::size_t>(smc::kFirstWindowBytes, deferral_.bytes_received_max() - passed);
  }
  // The application takes nothing any more: from now on, bytes for it are dropped.
  void discard() {
    discards_ = true;
    refused_ = false;
    waiting_.drop();
  }
  bool discards() const { return discards_; }
  // The peer is reset once the application has received what came before.
  void end_peer() { peer_over_ = true; }
  // What the application has still to take, and what the peer sent after its hand-over.
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
  // Bytes that waited when the frames began, and the value of written() when they are passed on.
  std::size_t before_bytes_ = 0;
  std::uint64_t before_until_ = 0;
  std::uint64_t parts_ = 0;  // headers and bodies of frames, including partial ones
  const char* fault_ = "";
  bool lost_ = false;  // the peer's stream ended without an end frame
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

  // Continues a relay of another process. `rules` are made from the parked state.
  FramedRelay(smc::Deferral rules, ParkedFrames parked, event::Stream& app, event::Stream& net,
              TcpRelayResources& shared)
      : deferral_(std::move(rules)),
        out_(app, net, deferral_, shared, false),
        in_(net, app, deferral_, shared),
        duplex_(app, net, out_, in_) {
    out_.resume(parked);
    in_.resume(parked);
  }
  // Returns all state and waiting bytes. The relay moves nothing afterwards.
  ParkedFrames park() {
    ParkedFrames parked{.rules = deferral_.state()};
    out_.park(parked);
    in_.park(parked);
    return parked;
  }

  // See Duplex.
  RelayStep pump(TimePoint now) {
    const bool unbounded = deferral_.unbounded();
    const std::uint64_t sent_max = deferral_.bytes_sent_max();
    const RelayStep step = duplex_.pump(now);
    // Bytes that were held back at the limit may be sent now.
    const bool opened =
        unbounded != deferral_.unbounded() || sent_max != deferral_.bytes_sent_max();
    return step == RelayStep::kIdle && opened ? RelayStep::kMore : step;
  }
  Deadline next_deadline() const { return duplex_.next_deadline(); }
  bool ending() const { return duplex_.ending(); }
  // See Duplex; used for a host that does not answer.
  void end_net() { duplex_.end_net(); }
  FramedOut& towards_net() { return out_; }
  FramedIn& towards_app() { return in_; }
  // The peer's stream is useless, although it may not have ended. The application still receives
  // what the peer sent in frames; then pump() returns kReset.
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
