// Two directions between an application's stream and one to the network, as TCP joins them: a reset
// of one stream passes on what that stream said before, then ends both.
#pragma once

#include <cstdint>
#include <optional>

#include "base/time.h"
#include "event/stream.h"
#include "relay/reset_delay.h"

namespace fairlead::relay {

// What one direction did in a turn.
enum class RelayStep : std::uint8_t {
  kIdle,     // nothing to do until a stream is ready
  kMore,     // the turn's share is used up
  kEnded,    // FIN read and passed on
  kReset,    // the stream that is read was reset, and all that came before was passed on
  kRefused,  // the stream that is written takes nothing any more
};

// A direction has pump(), and passed_on(), a count that grows with what it passed on. The one to
// the network has held(): what the application still says waits for another relay.
template <class Out, class In>
class Duplex {
 public:
  Duplex(event::Stream& app, event::Stream& net, Out& out, In& in)
      : app_(app), net_(net), out_(out), in_(in) {}

  // kEnded when both directions are. kReset when one stream was reset and the other one has what
  // came from it before, as far as it takes it; never kRefused.
  RelayStep pump(TimePoint now);
  // When the owner calls pump() again although nothing has happened.
  std::optional<TimePoint> next_deadline() const { return reset_delay_.next_deadline(); }
  // The stream to the network is taken for reset.
  void end_net() {
    last_ = Last::kIn;
    net_.assume_readable();
  }

 private:
  enum class Last : std::uint8_t { kNone, kOut, kIn };
  void check_reset(RelayStep out, RelayStep in);
  RelayStep pump_before_reset(TimePoint now);

  event::Stream& app_;
  event::Stream& net_;
  Out& out_;
  In& in_;
  Last last_ = Last::kNone;  // of one stream that was reset: the direction that it spoke
  ResetDelay reset_delay_;
};

template <class Out, class In>
RelayStep Duplex<Out, In>::pump(TimePoint now) {
  if (last_ != Last::kNone) return pump_before_reset(now);
  const RelayStep out = out_.pump();
  const RelayStep in = in_.pump();
  check_reset(out, in);
  if (last_ != Last::kNone) return pump_before_reset(now);
  if (out == RelayStep::kMore || in == RelayStep::kMore) return RelayStep::kMore;
  return out == RelayStep::kEnded && in == RelayStep::kEnded ? RelayStep::kEnded : RelayStep::kIdle;
}

template <class Out, class In>
void Duplex<Out, In>::check_reset(RelayStep out, RelayStep in) {
  if (out == RelayStep::kReset || in == RelayStep::kRefused)
    last_ = Last::kOut;
  else if (in == RelayStep::kReset || out == RelayStep::kRefused)
    last_ = Last::kIn;
  // A reset may hide behind bytes that the other side does not take.
  else if (out == RelayStep::kMore || in == RelayStep::kMore)
    return;
  else if (!out_.held() && app_.hung_up() && app_.take_error() != 0)
    last_ = Last::kOut;
  else if (net_.hung_up() && net_.take_error() != 0)
    last_ = Last::kIn;
  else
    return;
  // No event follows a reset.
  (last_ == Last::kOut ? app_ : net_).assume_readable();
}

template <class Out, class In>
RelayStep Duplex<Out, In>::pump_before_reset(TimePoint now) {
  const bool outward = last_ == Last::kOut;
  const RelayStep step = outward ? out_.pump() : in_.pump();
  if (step == RelayStep::kRefused) return RelayStep::kReset;
  const bool passed_on = step == RelayStep::kReset || step == RelayStep::kEnded;
  const std::size_t unsent = (outward ? net_ : app_).unsent(event::Stream::Until::kSent);
  if (passed_on && unsent == 0) return RelayStep::kReset;
  if (outward && out_.held()) {
    last_ = Last::kNone;
    reset_delay_ = {};
    return RelayStep::kMore;
  }
  const std::uint64_t moved = (outward ? out_.passed_on() : in_.passed_on()) - unsent;
  if (!reset_delay_.wait(moved, passed_on, now)) return RelayStep::kReset;
  return step == RelayStep::kMore ? RelayStep::kMore : RelayStep::kIdle;
}

}  // namespace fairlead::relay
