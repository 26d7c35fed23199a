#include "relay/smc_relay.h"

#include <algorithm>
#include <array>

#include "smc/cursor.h"

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

SmcRelay::Step SmcRelay::pump(event::Stream& app, std::uint32_t publish_bytes, TimePoint now) {
  bool more = pump_to_app(app, now);
  more = pump_from_app(app, publish_bytes) || more;
  if (app_ended_ && app_finished_) connection.close();
  const bool reset = connection.rx_end() == smc::StreamEnd::kReset;
  if (reset && !app_reset_) {
    app_reset_ = true;
    app.reset_on_close();
  }
  if (reset && !connection.transmit_due()) return Step::kReset;
  if (connection.finished() && !connection.transmit_due()) return Step::kFinished;
  return more && !reset ? Step::kMore : Step::kIdle;
}

bool SmcRelay::pump_to_app(event::Stream& app, TimePoint now) {
  bool more = false;
  while (app.writable() && !app_finished_) {
    const smc::RingWindow window = connection.rx_window();
    if (window.bytes() == 0) break;
    const Pieces pieces(buffers.local, window, window.bytes());
    const event::IoResult result = app.write(pieces.view());
    if (result.kind == Kind::kError) {
      connection.abort();
      return false;
    }
    if (result.kind != Kind::kBytes) break;
    connection.consumed(static_cast<std::uint32_t>(result.count), now);
    if (result.count < window.bytes()) {
      // The socket's buffer is full as a rule; the next try will find out, in a turn of its own.
      more = app.writable();
      break;
    }
  }
  if (!app_finished_ && connection.rx_end() == smc::StreamEnd::kFin) {
    app_finished_ = true;
    app.shutdown_write();
  }
  return more;
}

bool SmcRelay::pump_from_app(event::Stream& app, std::uint32_t publish_bytes) {
  if (app_ended_ || !app.readable()) return false;
  const smc::RingWindow window = connection.tx_window();
  if (window.bytes() == 0) {
    if (connection.peer_closed())
      discard_from_app(app);
    else
      check_blocked_reset(app);
    return false;
  }
  const std::span<std::byte> ring = buffers.staging ? buffers.staging_bytes : buffers.remote;
  const Pieces pieces(ring, window, publish_bytes);
  const event::IoResult result = app.read(pieces.view());
  switch (result.kind) {
    case Kind::kBytes:
      connection.produced(static_cast<std::uint32_t>(result.count));
      return app.readable();
    case Kind::kEnd:
      app_ended_ = true;
      connection.shutdown_write();
      return false;
    case Kind::kError:
      connection.abort();
      return false;
    case Kind::kWouldBlock:
      return false;
  }
  return false;
}

bool SmcRelay::look(event::Stream& app, std::uint32_t publish_bytes) {
  if (app_ended_ || app.readable() || connection.tx_window().bytes() == 0) return false;
  const std::uint64_t before = connection.tx_bytes();
  app.assume_readable();
  pump_from_app(app, publish_bytes);
  return app.readable() || connection.tx_bytes() != before;
}

// Nobody reads what the application still sends: it gets the RST that a closed peer would give.
void SmcRelay::discard_from_app(event::Stream& app) {
  std::byte scratch[4096];
  const iovec into{scratch, sizeof scratch};
  const event::IoResult result = app.read({&into, 1});
  if (result.kind == Kind::kEnd) {
    app_ended_ = true;
    connection.shutdown_write();
  } else if (result.kind != Kind::kWouldBlock) {
    connection.abort();
  }
}

// A reset hides behind data that we have no room to read.
void SmcRelay::check_blocked_reset(event::Stream& app) {
  if (app.hung_up() && app.take_error() != 0) connection.abort();
}

}  // namespace fairlead::relay
