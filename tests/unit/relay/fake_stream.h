// A stream made of two strings, for tests that want to say exactly what a socket does next.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>

#include "event/stream.h"

namespace fairlead::relay {

class FakeStream final : public event::Stream {
 public:
  FakeStream() { connected_ = readable_ = writable_ = true; }

  // What the application sends.
  void feed(const std::string& bytes) {
    incoming += bytes;
    readable_ = true;
  }
  void feed_end() { ended = readable_ = hung_up_ = true; }
  void feed_reset() {
    error = ECONNRESET;
    readable_ = hung_up_ = true;
  }
  // The application takes so many bytes from here on.
  void allow(std::size_t bytes) {
    room = bytes;
    writable_ = true;
  }

  event::IoResult read(std::span<const iovec> into) override {
    ++reads;
    if (error != 0) return {event::IoResult::Kind::kError, 0, error};
    if (incoming.empty() && ended) return {event::IoResult::Kind::kEnd, 0, 0};
    if (incoming.empty()) {
      readable_ = false;
      return {event::IoResult::Kind::kWouldBlock, 0, 0};
    }
    std::size_t done = 0;
    for (const iovec& piece : into) {
      const std::size_t n = std::min(piece.iov_len, incoming.size() - done);
      std::memcpy(piece.iov_base, incoming.data() + done, n);
      done += n;
    }
    incoming.erase(0, done);
    return {event::IoResult::Kind::kBytes, done, 0};
  }

  event::IoResult write(std::span<const iovec> from) override {
    if (error != 0) return {event::IoResult::Kind::kError, 0, EPIPE};
    std::size_t done = 0;
    for (const iovec& piece : from) {
      const std::size_t n = std::min(piece.iov_len, room);
      outgoing.append(static_cast<const char*>(piece.iov_base), n);
      room -= n;
      done += n;
    }
    if (room == 0) writable_ = false;
    if (done == 0) return {event::IoResult::Kind::kWouldBlock, 0, 0};
    return {event::IoResult::Kind::kBytes, done, 0};
  }

  int take_error() override { return error; }
  void shutdown_write() override { shut_down = true; }
  void reset_on_close() override { reset = true; }
  SocketAddress local_address() const override { return {}; }
  SocketAddress peer_address() const override { return {}; }
  int descriptor() const override { return -1; }

  std::string incoming, outgoing;
  std::size_t room = std::size_t{1} << 40;
  int error = 0;
  int reads = 0;
  bool ended = false, shut_down = false, reset = false;
};

}  // namespace fairlead::relay
