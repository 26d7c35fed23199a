// TCP connections in memory. Each direction is a queue of packets with a bounded buffer at its end.
// Actions of an application, a proxy or the network have the same effects as in the Linux kernel:
//
//   close, everything read     FIN behind the data; data that still comes is answered by RST
//   close, something unread    RST behind the data
//   reset_on_close             RST, behind the data or instead of what is still on its way
//   RST received               what was received before can be read, a FIN too, then reads fail
//
// Readiness is edge-triggered as event/stream.h says.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "base/address.h"
#include "bpf/tcp_option.h"
#include "event/stream.h"
#include "sim/event_file.h"
#include "sim/world.h"

namespace fairlead::sim {

class SimStream;

// Conditions of the network in one simulation.
struct TcpWeather {
  Duration delay_min = std::chrono::microseconds(5);
  Duration delay_max = std::chrono::microseconds(60);
  unsigned straggler_per_mille = 2;  // packets that come late, with all behind them
  Duration straggle_max = std::chrono::milliseconds(300);
  unsigned coalesced_per_mille = 200;  // arrivals that bring everything sent so far
  bool resets_overtake = true;         // what a reset by an end that asks for one finds on its way
  std::size_t buffer_bytes_min = 2048;
  std::size_t buffer_bytes_max = 65536;

  Duration draw_delay(Random& random) const;
};

class TcpConnection : public std::enable_shared_from_this<TcpConnection> {
 public:
  enum Side : unsigned { kDialler = 0, kListener = 1 };

  TcpConnection(World& world, const TcpWeather& weather, const SocketAddress& from,
                const SocketAddress& to, std::size_t& live);
  ~TcpConnection();
  TcpConnection(const TcpConnection&) = delete;
  TcpConnection& operator=(const TcpConnection&) = delete;

  // Creates the object for one end; call it once. The dialler's is not connected until open() or
  // refuse().
  std::unique_ptr<SimStream> make_stream(Side side, bool connected);
  void open();
  void refuse(int error);
  // A device between the ends resets the connection towards both.
  void cut();
  // A FIN for one side, as from an end that closes or half-closes.
  void end(Side towards);
  bool dead() const { return dead_; }
  std::uint64_t number() const { return number_; }

  bpf::Announced option_requested = bpf::Announced::kNothing;
  bpf::Announced option_answered = bpf::Announced::kNothing;

 private:
  friend class SimStream;
  struct Packet {
    std::vector<std::byte> bytes;
    bool fin = false;
    bool rst = false;
  };
  struct End {
    SimStream* stream = nullptr;
    bool closed = false;  // the stream existed and was destroyed
    bool reset_on_close = false;
    std::deque<std::byte> inbox;
    bool fin_received = false;
    bool fin_sent = false;
    int error = 0;
    bool broken = false;  // RST sent or received: nothing more goes either way
    bool write_blocked = false;
    std::deque<Packet> outgoing;
    std::size_t outgoing_bytes = 0;
    TimePoint last_arrival;
    TimePoint last_written;
  };
  static Side other(Side side) { return side == kDialler ? kListener : kDialler; }

  event::IoResult read(Side side, std::span<const iovec> into);
  event::IoResult write(Side side, std::span<const iovec> from);
  std::size_t unacknowledged(Side side) const;
  void shutdown_write(Side side);
  void close(Side side);
  void send(Side side, Packet packet);
  void arrive(Side at);
  void take(Side at, Packet& packet);
  void reset(Side sender, bool overtaking);
  void tell(Side side);
  // Begins a record of what happens at one end. nullptr without a digest.
  Digest* record(const char* kind, Side side);
  event::IoResult recorded(const char* kind, Side side, event::IoResult result,
                           std::span<const iovec> pieces);

  World& world_;
  const TcpWeather& weather_;
  const std::array<SocketAddress, 2> addresses_;
  std::size_t& live_;
  const std::uint64_t number_;  // for the file of events
  std::size_t buffer_bytes_;
  std::array<End, 2> ends_;
  bool dead_ = false;
};

class SimStream final : public event::Stream {
 public:
  SimStream(std::shared_ptr<TcpConnection> connection, TcpConnection::Side side)
      : connection_(std::move(connection)), side_(side) {}
  ~SimStream() override { connection_->close(side_); }

  event::IoResult read(std::span<const iovec> into) override {
    const event::IoResult result = connection_->read(side_, into);
    if (EventFile* events = connection_->world_.events)
      events->read(connection_->number_, side_, result);
    return connection_->recorded("read", side_, result, into);
  }
  event::IoResult write(std::span<const iovec> from) override {
    const event::IoResult result = connection_->write(side_, from);
    if (EventFile* events = connection_->world_.events)
      events->written(connection_->number_, side_, result);
    return connection_->recorded("write", side_, result, from);
  }
  // The simulated applications use no urgent data.
  event::IoResult write_urgent(std::byte byte) override {
    const iovec piece{&byte, 1};
    return write({&piece, 1});
  }
  bool at_urgent_byte() override { return false; }
  int take_error() override {
    const int error = connection_->ends_[side_].error;
    if (EventFile* events = connection_->world_.events; events != nullptr && error != 0)
      events->asked(connection_->number_, side_);
    return error;
  }
  // Nothing waits for room here: written bytes are already in transit.
  std::size_t unsent(Until until) const override {
    return until == Until::kAcknowledged ? connection_->unacknowledged(side_) : 0;
  }
  void note_error(int) override {}
  void shutdown_write() override {
    if (EventFile* events = connection_->world_.events) events->shut(connection_->number_, side_);
    connection_->shutdown_write(side_);
  }
  void reset_on_close() override { connection_->ends_[side_].reset_on_close = true; }
  SocketAddress local_address() const override { return connection_->addresses_[side_]; }
  SocketAddress peer_address() const override {
    return connection_->addresses_[TcpConnection::other(side_)];
  }
  int descriptor() const override { return -1; }

  TcpConnection& connection() { return *connection_; }
  // Wakes the owner, which sleeps until a handler is called.
  std::function<void()> on_notify;

 private:
  friend class TcpConnection;
  std::shared_ptr<TcpConnection> connection_;
  TcpConnection::Side side_;
};

}  // namespace fairlead::sim
