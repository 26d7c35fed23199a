#include "sim/tcp.h"

#include <algorithm>
#include <cerrno>

#include "base/assert.h"

namespace fairlead::sim {

using Kind = event::IoResult::Kind;

Duration TcpWeather::draw_delay(Random& random) const {
  const auto least = static_cast<std::uint64_t>(delay_min.count());
  const auto most = static_cast<std::uint64_t>(delay_max.count());
  Duration delay{static_cast<std::int64_t>(random.between(least, most))};
  if (random.chance(straggler_per_mille))
    delay += Duration{static_cast<std::int64_t>(
        random.between(0, static_cast<std::uint64_t>(straggle_max.count())))};
  return delay;
}

TcpConnection::TcpConnection(World& world, const TcpWeather& weather, const SocketAddress& from,
                             const SocketAddress& to, std::size_t& live)
    : world_(world),
      weather_(weather),
      addresses_{from, to},
      live_(live),
      number_(world.tcp_connections++),
      buffer_bytes_(world.random.between(weather.buffer_bytes_min, weather.buffer_bytes_max)) {
  ++live_;
}

TcpConnection::~TcpConnection() { --live_; }

std::unique_ptr<SimStream> TcpConnection::make_stream(Side side, bool connected) {
  End& end = ends_[side];
  SMC_ASSERT(end.stream == nullptr && !end.closed, side);
  auto stream = std::make_unique<SimStream>(shared_from_this(), side);
  stream->connected_ = stream->writable_ = connected;
  stream->hung_up_ = end.fin_received || end.error != 0;
  stream->fin_arrived_ = end.fin_received;
  stream->readable_ = !end.inbox.empty() || stream->hung_up_;
  end.stream = stream.get();
  return stream;
}

void TcpConnection::tell(Side side) {
  SimStream* stream = ends_[side].stream;
  if (stream == nullptr) return;
  stream->notify();
  if (stream->on_notify) stream->on_notify();
}

void TcpConnection::open() {
  SimStream* stream = ends_[kDialler].stream;
  if (stream == nullptr) return;
  stream->connected_ = stream->writable_ = true;
  tell(kDialler);
}

void TcpConnection::refuse(int error) {
  End& end = ends_[kDialler];
  dead_ = end.broken = ends_[kListener].broken = true;
  if (end.stream == nullptr) return;
  end.error = error;
  end.stream->connected_ = end.stream->writable_ = true;
  end.stream->readable_ = end.stream->hung_up_ = true;
  tell(kDialler);
}

void TcpConnection::cut() {
  for (const Side side : {kDialler, kListener})
    world_.after(weather_.draw_delay(world_.random), [self = shared_from_this(), side] {
      Packet packet;
      packet.rst = true;
      self->take(side, packet);
      self->tell(side);
    });
}

void TcpConnection::end(Side towards) {
  world_.after(weather_.draw_delay(world_.random), [self = shared_from_this(), towards] {
    Packet packet;
    packet.fin = true;
    self->take(towards, packet);
    self->tell(towards);
  });
}

Digest* TcpConnection::record(const char* kind, Side side) {
  Digest* digest = world_.record(kind);
  if (digest == nullptr) return nullptr;
  for (const SocketAddress& address : addresses_)
    digest->bytes(std::as_bytes(std::span(address.bytes()))).number(address.port());
  return &digest->number(side);
}

event::IoResult TcpConnection::recorded(const char* kind, Side side, event::IoResult result,
                                        std::span<const iovec> pieces) {
  Digest* digest = record(kind, side);
  if (digest == nullptr) return result;
  digest->number(static_cast<std::uint64_t>(result.kind))
      .number(static_cast<std::uint64_t>(result.error))
      .number(result.count);
  std::size_t left = result.kind == Kind::kBytes ? result.count : 0;
  for (const iovec& piece : pieces) {
    const std::size_t n = std::min(piece.iov_len, left);
    digest->bytes({static_cast<const std::byte*>(piece.iov_base), n});
    left -= n;
  }
  return result;
}

event::IoResult TcpConnection::read(Side side, std::span<const iovec> into) {
  End& end = ends_[side];
  std::size_t wanted = 0, done = 0;
  for (const iovec& piece : into) wanted += piece.iov_len;
  for (const iovec& piece : into) {
    const std::size_t n = std::min(piece.iov_len, end.inbox.size());
    std::copy_n(end.inbox.begin(), n, static_cast<std::byte*>(piece.iov_base));
    end.inbox.erase(end.inbox.begin(), end.inbox.begin() + static_cast<std::ptrdiff_t>(n));
    done += n;
  }
  if (done != 0) {
    // As in TcpStream: a short read has drained the socket, unless an end follows.
    if (done < wanted && !end.stream->hung_up_) end.stream->readable_ = false;
    End& writer = ends_[other(side)];
    if (writer.write_blocked && !writer.broken) {
      writer.write_blocked = false;
      world_.after(weather_.draw_delay(world_.random), [self = shared_from_this(), side] {
        SimStream* stream = self->ends_[other(side)].stream;
        if (stream == nullptr) return;
        stream->writable_ = true;
        self->tell(other(side));
      });
    }
    return {Kind::kBytes, done, 0};
  }
  if (end.fin_received) return {Kind::kEnd, 0, 0};
  if (end.error != 0) return {Kind::kError, 0, end.error};
  if (end.broken) return {Kind::kEnd, 0, 0};
  end.stream->readable_ = false;
  return {Kind::kWouldBlock, 0, 0};
}

event::IoResult TcpConnection::write(Side side, std::span<const iovec> from) {
  End& end = ends_[side];
  if (end.broken || end.fin_sent) return {Kind::kError, 0, end.error != 0 ? end.error : EPIPE};
  const std::size_t used = end.outgoing_bytes + ends_[other(side)].inbox.size();
  std::size_t room = buffer_bytes_ - std::min(used, buffer_bytes_);
  Packet packet;
  for (const iovec& piece : from) {
    const auto* at = static_cast<const std::byte*>(piece.iov_base);
    const std::size_t n = std::min(piece.iov_len, room);
    packet.bytes.insert(packet.bytes.end(), at, at + n);
    room -= n;
  }
  if (packet.bytes.empty()) {
    end.write_blocked = true;
    end.stream->writable_ = false;
    return {Kind::kWouldBlock, 0, 0};
  }
  const std::size_t count = packet.bytes.size();
  end.last_written = world_.now();
  if (world_.events != nullptr) {
    world_.events->clc(number_, side, packet.bytes);
    world_.events->framed(number_, side, packet.bytes);
  }
  send(side, std::move(packet));
  return {Kind::kBytes, count, 0};
}

// What is in transit.
std::size_t TcpConnection::unacknowledged(Side side) const {
  const End& end = ends_[side];
  if (end.broken) return 0;
  std::size_t count = end.outgoing_bytes;
  for (const Packet& packet : end.outgoing) count += packet.fin ? 1 : 0;
  return count;
}

void TcpConnection::shutdown_write(Side side) {
  End& end = ends_[side];
  if (end.fin_sent || end.broken) return;
  end.fin_sent = true;
  (void)record("fin", side);
  Packet packet;
  packet.fin = true;
  send(side, std::move(packet));
}

void TcpConnection::close(Side side) {
  End& end = ends_[side];
  end.stream = nullptr;
  end.closed = true;
  if (world_.events != nullptr)
    world_.events->close(number_, side, end.reset_on_close, world_.now() - end.last_written);
  (void)record("close", side);
  if (end.broken) return;
  if (end.reset_on_close || !end.inbox.empty())
    reset(side, end.reset_on_close && world_.random.chance(500) && weather_.resets_overtake);
  else
    shutdown_write(side);
}

// `overtaking`: data in transit is lost.
void TcpConnection::reset(Side sender, bool overtaking) {
  End& end = ends_[sender];
  end.broken = dead_ = true;
  if (Digest* digest = record("rst", sender)) digest->number(overtaking ? 1 : 0);
  if (overtaking) {
    for (Packet& packet : end.outgoing) packet = {};
    end.outgoing_bytes = 0;
  }
  Packet packet;
  packet.rst = true;
  send(sender, std::move(packet));
}

// Packets of one direction keep their order, because each arrival brings the oldest.
void TcpConnection::send(Side side, Packet packet) {
  End& end = ends_[side];
  end.outgoing_bytes += packet.bytes.size();
  end.outgoing.push_back(std::move(packet));
  end.last_arrival = std::max(end.last_arrival, world_.now() + weather_.draw_delay(world_.random));
  world_.at(end.last_arrival, [self = shared_from_this(), side] { self->arrive(other(side)); });
}

void TcpConnection::arrive(Side at) {
  End& sender = ends_[other(at)];
  // An earlier arrival has already delivered this one.
  if (sender.outgoing.empty()) return;
  std::size_t count =
      world_.random.chance(weather_.coalesced_per_mille) ? sender.outgoing.size() : 1;
  bool news = false;
  while (count-- != 0 && !sender.outgoing.empty()) {
    Packet packet = std::move(sender.outgoing.front());
    sender.outgoing.pop_front();
    sender.outgoing_bytes -= packet.bytes.size();
    news = news || packet.rst || packet.fin || !packet.bytes.empty();
    take(at, packet);
  }
  if (news) tell(at);
}

void TcpConnection::take(Side at, Packet& packet) {
  End& end = ends_[at];
  if (end.broken && !packet.rst) return;
  if (end.closed) {
    // The reader has closed.
    if (!packet.bytes.empty()) reset(at, false);
    return;
  }
  if (packet.rst) {
    if (end.broken) return;
    end.broken = dead_ = true;
    (void)record("reset", at);
    end.error = ECONNRESET;
    for (Packet& lost : end.outgoing) lost = {};
    end.outgoing_bytes = 0;
  }
  end.inbox.insert(end.inbox.end(), packet.bytes.begin(), packet.bytes.end());
  end.fin_received = end.fin_received || packet.fin;
  if (end.stream == nullptr) return;
  end.stream->readable_ = end.stream->readable_ || !end.inbox.empty() || packet.fin || packet.rst;
  end.stream->hung_up_ = end.stream->hung_up_ || packet.fin || packet.rst;
  end.stream->fin_arrived_ = end.fin_received;
  if (packet.rst) end.stream->writable_ = true;
}

}  // namespace fairlead::sim
