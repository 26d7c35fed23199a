// Joins two directions, between an application's stream and one to the network, as TCP does. If one
// stream is reset, what it sent before is passed on first; then both end.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "base/time.h"
#include "event/stream.h"
#include "relay/pipes/reset_delay.h"
#include "relay/pipes/unheard.h"

namespace fairlead::relay {

// What one direction did in a turn.
enum class RelayStep : std::uint8_t {
  kIdle,     // nothing to do until a stream is ready
  kMore,     // the turn's share is used up
  kEnded,    // FIN read and passed on
  kReset,    // the source stream was reset, and all bytes before were passed on
  kRefused,  // the destination stream takes no more bytes
};

// A direction has pump(), and passed_on(), a counter of bytes passed on. whole() is true if the FIN
// of its source has arrived, or may have. The direction to the network also has held(): the
// application's further bytes wait for another relay.
template <class Out, class In>
class Duplex {
 public:
  Duplex(event::Stream& app, event::Stream& net, Out& out, In& in)
      : app_(app), net_(net), out_(out), in_(in) {}

  // kEnded when both directions have ended. kReset when one stream was reset and the other has
  // received, as far as it takes it, what came before. Never kRefused.
  RelayStep pump(TimePoint now);
  // When the owner must call pump() again although nothing has happened.
  Deadline next_deadline() const {
    return reset_delay_ ? reset_delay_->next_deadline() : std::nullopt;
  }
  // One of the streams was reset, and the other one has not received all bytes yet.
  bool ending() const { return last_ != Last::kNone; }
  // Treats the stream to the network as reset.
  void end_net() {
    last_ = Last::kIn;
    net_.assume_readable();
  }

 private:
  enum class Last : std::uint8_t { kNone, kOut, kIn };
  void check_reset(RelayStep out, RelayStep in);
  RelayStep pump_before_reset(TimePoint now);
  template <class Direction>
  RelayStep pump_last(Direction& direction, event::Stream& reader, TimePoint now);

  event::Stream& app_;
  event::Stream& net_;
  Out& out_;
  In& in_;
  Last last_ = Last::kNone;  // after the reset of a stream: the direction that it fed
  bool end_said_ = false;    // FIN sent to the stream that reads that direction
  std::unique_ptr<ResetDelay> reset_delay_;  // only before a reset
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
  // A reset may be hidden behind bytes that the other side does not take.
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
  return last_ == Last::kOut ? pump_last(out_, net_, now) : pump_last(in_, app_, now);
}

template <class Out, class In>
template <class Direction>
RelayStep Duplex<Out, In>::pump_last(Direction& direction, event::Stream& reader, TimePoint now) {
  using Until = event::Stream::Until;
  const RelayStep step = direction.pump();
  if (step == RelayStep::kRefused) return RelayStep::kReset;
  const bool passed_on = step == RelayStep::kReset || step == RelayStep::kEnded;
  const bool whole = direction.whole();
  // The reader may be another proxy: its kernel must see whether a FIN came before the reset.
  if (step == RelayStep::kEnded && !std::exchange(end_said_, true)) reader.shutdown_write();
  const std::size_t unsent = reader.unsent(whole ? Until::kAcknowledged : Until::kSent);
  if (passed_on && unsent == 0) return RelayStep::kReset;
  if (last_ == Last::kOut && out_.held()) {
    last_ = Last::kNone;
    reset_delay_.reset();
    return RelayStep::kMore;
  }
  const std::uint64_t moved = direction.passed_on() - unsent;
  if (!reset_delay_) reset_delay_ = std::make_unique<ResetDelay>();
  bool more = step == RelayStep::kMore;
  // What has not arrived although no reader blocks it will not arrive any more.
  const bool held_up = more || unsent != 0 || !reader.writable();
  if (!whole || !held_up) {
    if (!reset_delay_->wait(moved, passed_on, now)) return RelayStep::kReset;
  } else {
    const Unheard unheard = drop_unheard(reader);
    if (unheard.refused || !reset_delay_->wait_for_reader(moved, passed_on, unheard.bytes, now))
      return RelayStep::kReset;
    more = more || unheard.more;
  }
  return more ? RelayStep::kMore : RelayStep::kIdle;
}

}  // namespace fairlead::relay
