#include "relay/pipes/smc_relay.h"

#include <algorithm>
#include <array>
#include <utility>

#include "smc/connection/cursor.h"

namespace fairlead::relay {
namespace {

using Kind = event::IoResult::Kind;

// The ranges of a window as one scatter list, cut to `limit` bytes.
class Pieces {
 public:
  Pieces(std::span<std::byte> ring, const smc::RingWindow& window, std::uint32_t limit) {
    add(ring, window.first, limit);
    add(ring, window.second, limit);
  }
  std::span<const iovec> view() const { return {pieces_.data(), count_}; }

 private:
  void add(std::span<std::byte> ring, smc::RingWindow::Range range, std::uint32_t& limit) {
    const std::uint32_t length = std::min(range.length, limit);
    if (length == 0) return;
    pieces_[count_++] = {ring.subspan(range.offset, length).data(), length};
    limit -= length;
  }
  std::array<iovec, 2> pieces_{};
  std::size_t count_ = 0;
};

}  // namespace

void SmcRelay::resume(Backlog bytes, bool app_ended, bool app_finished, bool app_failed) {
  ahead_ = std::move(bytes);
  app_finished_ = app_finished;
  app_failed_ = app_failed;
  if (app_ended) end_app_data(true);
}

ParkedFrames SmcRelay::leave_for_frames(TimePoint now) {
  if (app_failed_) (void)drop_from_peer(now);
  ParkedFrames frames;
  frames.to_app = ahead_.release();
  frames.to_app.written += connection_.rx().bytes();
  std::vector<std::byte>& waiting = frames.to_app.bytes;
  for (;;) {
    const smc::RingWindow window = connection_.rx().window();
    if (window.bytes() == 0) break;
    if (connection_.rx().urgent()) frames.to_app.urgent_at = waiting.size();
    for (const smc::RingWindow::Range& range : {window.first, window.second}) {
      const auto bytes = buffers_.local().subspan(range.offset, range.length);
      waiting.insert(waiting.end(), bytes.begin(), bytes.end());
    }
    connection_.consumed(window.bytes(), now);
  }
  frames.app_finished = app_finished_;
  frames.app_refuses = app_failed_;
  return frames;
}

SmcRelay::Step SmcRelay::pump(event::Stream& app, std::uint32_t publish_bytes, TimePoint now) {
  bool more = pump_to_app(app, now);
  if (return_ == Return::kNone) {
    more = pump_from_app(app, publish_bytes) || more;
    if (app_ended_ && app_finished_) connection_.close();
  }
  if (connection_.closing().reset() || (app_failed_ && return_ == Return::kNone))
    return pump_before_reset(app, more, now);
  if (connection_.finished() && !connection_.transmit_due() && return_ != Return::kCommitted)
    return Step::kFinished;
  return more ? Step::kMore : Step::kIdle;
}

// The connection ends in a reset, but only after each side has received, as far as it takes it,
// what the other one sent.
SmcRelay::Step SmcRelay::pump_before_reset(event::Stream& app, bool more, TimePoint now) {
  const bool whole = app_failed_ ? app_whole(app) : peer_whole();
  const bool delivered =
      app_failed_ || (ahead_.empty() && connection_.rx_end() == smc::StreamEnd::kReset);
  using Until = event::Stream::Until;
  const std::size_t unsent =
      app_failed_ ? 0 : app.unsent(whole ? Until::kAcknowledged : Until::kSent);
  waits_for_reader_ = false;
  if (connection_.closing().reset() && connection_.reset_said() && delivered && unsent == 0) {
    end_in_reset(app);
    return Step::kReset;
  }
  // Each term changes in one direction only. Dropped bytes do not count as moved.
  const std::uint64_t to_app = connection_.rx().bytes() + ahead_.written();
  const std::uint64_t moved =
      connection_.tx().bytes() + (whole && app_failed_ ? 0 : 2 * to_app) - unsent;
  const bool polls = delivered && unsent != 0;
  if (whole) {
    const Unheard unheard = app_failed_ ? drop_from_peer(now) : drop_unheard(app);
    waits_for_reader_ =
        !unheard.refused && reset_delay_.wait_for_reader(moved, polls, unheard.bytes, now);
    if (waits_for_reader_) return more || unheard.more ? Step::kMore : Step::kIdle;
  } else {
    end_in_reset(app);
    if (reset_delay_.wait(moved, polls, now)) return more ? Step::kMore : Step::kIdle;
  }
  end_in_reset(app);
  app_failed_ = true;
  connection_.abort();
  return connection_.reset_said() ? Step::kReset : Step::kIdle;
}

void SmcRelay::end_in_reset(event::Stream& app) {
  if (std::exchange(app_reset_, true)) return;
  app.reset_on_close();
}

// Linux sends its FIN even while it waits for room, if it has waited long. If a reset follows,
// bytes are missing.
bool SmcRelay::peer_whole() const {
  return connection_.closing().peer_ended() && !connection_.rx().write_blocked();
}

Unheard SmcRelay::drop_from_peer(TimePoint now) {
  Unheard unheard;
  ahead_.drop();
  for (;;) {
    const smc::RingWindow window = connection_.rx().window();
    if (window.bytes() == 0) return unheard;
    connection_.consumed(window.bytes(), now);
    unheard.bytes += window.bytes();
  }
}

Deadline SmcRelay::next_deadline() const {
  return earliest(connection_.next_deadline(), reset_delay_.next_deadline());
}

bool SmcRelay::pump_to_app(event::Stream& app, TimePoint now) {
  bool more = false;
  if (!ahead_.empty() && !app_failed_) {
    const Backlog::State state = ahead_.flush(app);
    if (state == Backlog::State::kRefused) {
      app_failed_ = true;
      app.assume_readable();
    }
    if (state != Backlog::State::kEmpty) return false;
  }
  while (app.writable() && !app_finished_ && !app_failed_) {
    const smc::RingWindow window = connection_.rx().window();
    if (window.bytes() == 0) break;
    const Pieces pieces(buffers_.local(), window, window.bytes());
    const event::IoResult result = connection_.rx().urgent()
                                       ? app.write_urgent(buffers_.local()[window.first.offset])
                                       : app.write(pieces.view());
    if (result.kind == Kind::kError) {
      // What the application sent before it went must still be read.
      app_failed_ = true;
      app.assume_readable();
      return false;
    }
    if (result.kind != Kind::kBytes) break;
    connection_.consumed(static_cast<std::uint32_t>(result.count), now);
    if (result.count < window.bytes()) {
      // Usually the socket's buffer is full. The next try finds out, in a turn of its own.
      more = app.writable();
      break;
    }
  }
  if (return_ != Return::kNone) return more;
  const smc::StreamEnd end = connection_.rx_end();
  const bool fin = end == smc::StreamEnd::kFin ||
                   (end == smc::StreamEnd::kReset && peer_whole() && !app_failed_);
  if (!app_finished_ && fin) {
    app_finished_ = true;
    app.shutdown_write();
  }
  return more;
}

bool SmcRelay::pump_from_app(event::Stream& app, std::uint32_t publish_bytes) {
  if (connection_.closing().reset()) return false;
  if (app_failed_ && app_ended_) end_app_data(true);
  if (app_ended_) check_reset_behind_fin(app);
  if (app_ended_ || !app.readable()) return false;
  const smc::RingWindow window = connection_.tx_window();
  if (window.bytes() == 0) {
    if (connection_.closing().peer_closed())
      discard_from_app(app);
    else
      check_blocked_reset(app);
    return false;
  }
  const std::span<std::byte> ring = buffers_.outgoing();
  const Pieces pieces(ring, window, publish_bytes);
  const event::IoResult result = app.read(pieces.view());
  switch (result.kind) {
    case Kind::kBytes:
      if (result.urgent)
        connection_.produced(1, smc::Connection::Data::kLastUrgent);
      else
        connection_.produced(static_cast<std::uint32_t>(result.count));
      return app.readable();
    case Kind::kEnd:
      end_app_data(true);
      check_reset_behind_fin(app);  // FIN and reset may have come with one event
      return false;
    case Kind::kError:
      end_app_data(false);
      return false;
    case Kind::kWouldBlock:
      return false;
  }
  return false;
}

void SmcRelay::end_app_data(bool fin) {
  if (fin) {
    app_ended_ = true;
    connection_.shutdown_write();
    if (!app_failed_) return;
  }
  app_failed_ = true;
  connection_.abort(smc::Connection::Abort::kBehindData);
}

bool SmcRelay::try_read(event::Stream& app, std::uint32_t publish_bytes) {
  const std::uint32_t room = connection_.tx_window().bytes();
  if (return_ != Return::kNone || app_ended_ || app.readable() || room == 0) return false;
  app.assume_readable();
  pump_from_app(app, publish_bytes);
  // Bytes that were read must be sent. The socket does not hold them any more, so no event follows.
  return app.readable() || connection_.tx_window().bytes() != room;
}

// Nobody reads what the application still sends: it gets the RST that a closed peer would send.
void SmcRelay::discard_from_app(event::Stream& app) {
  std::byte scratch[4096];
  const iovec into{scratch, sizeof scratch};
  const event::IoResult result = app.read({&into, 1});
  if (result.kind == Kind::kEnd) {
    end_app_data(true);
  } else if (result.kind != Kind::kWouldBlock) {
    connection_.abort();
  }
}

// A reset may be hidden behind data that we have no room to read.
void SmcRelay::check_blocked_reset(event::Stream& app) {
  if (app.hung_up() && app.take_error() != 0) app_failed_ = true;
}

// After a FIN, no read would meet a reset. When both FINs have been handed over, TCP has no resets
// any more. The kernel is asked only after an event.
void SmcRelay::check_reset_behind_fin(event::Stream& app) {
  if (!std::exchange(app_changed_, false) || app_failed_ || app_finished_) return;
  if (app.take_error() == 0) return;
  app_failed_ = true;
  end_app_data(true);
}

}  // namespace fairlead::relay
