// A stream made of two strings, for tests that control each step of a socket.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "event/stream.h"

namespace fairlead::relay {

class FakeStream final : public event::Stream {
 public:
  FakeStream() { connected_ = readable_ = writable_ = true; }

  // As a dialled stream begins; connect() follows.
  void set_connecting() { connected_ = readable_ = writable_ = false; }
  void connect() { connected_ = writable_ = true; }

  // What the application sends.
  void feed(const std::string& bytes) {
    incoming += bytes;
    readable_ = true;
  }
  // An urgent byte behind what was fed before; one that was fed earlier is ordinary from now on.
  void feed_urgent(char byte) {
    feed(std::string(1, byte));
    urgent_in = incoming.size();
  }
  void feed_end() { ended = readable_ = hung_up_ = fin_arrived_ = true; }
  void feed_reset() {
    error = ECONNRESET;
    readable_ = hung_up_ = true;
  }
  // The application accepts this many further bytes.
  void allow(std::size_t bytes) {
    room = bytes;
    writable_ = true;
  }

  event::IoResult read(std::span<const iovec> into) override {
    ++reads;
    // A reset that another call reported is no end of stream. A write that failed for another
    // reason does not hide an end.
    if (incoming.empty() && ended && error != ECONNRESET)
      return {event::IoResult::Kind::kEnd, 0, 0};
    if (incoming.empty() && error != 0) return {event::IoResult::Kind::kError, 0, error};
    if (incoming.empty()) {
      readable_ = false;
      return {event::IoResult::Kind::kWouldBlock, 0, 0};
    }
    const bool urgent = urgent_in == 1;
    const std::size_t most = urgent ? 1 : urgent_in != 0 ? urgent_in - 1 : incoming.size();
    std::size_t done = 0;
    std::size_t asked = 0;
    for (const iovec& piece : into) {
      const std::size_t n = std::min(piece.iov_len, most - done);
      std::memcpy(piece.iov_base, incoming.data() + done, n);
      done += n;
      asked += piece.iov_len;
    }
    // A short read has read everything, as with a socket.
    if (done < asked && !urgent && urgent_in == 0 && !ended && error == 0) readable_ = false;
    incoming.erase(0, done);
    urgent_in -= std::min(done, urgent_in);
    return {event::IoResult::Kind::kBytes, done, 0, urgent};
  }

  event::IoResult write(std::span<const iovec> from) override {
    if (error != 0) return {event::IoResult::Kind::kError, 0, EPIPE};
    if (write_error != 0) {
      note_error(write_error);
      return {event::IoResult::Kind::kError, 0, write_error};
    }
    std::size_t done = 0;
    for (const iovec& piece : from) {
      const std::size_t n = std::min(piece.iov_len, room);
      outgoing.append(static_cast<const char*>(piece.iov_base), n);
      room -= n;
      done += n;
    }
    if (room == 0) writable_ = false;
    connected_ = connected_ || done != 0;
    if (done == 0) return {event::IoResult::Kind::kWouldBlock, 0, 0};
    return {event::IoResult::Kind::kBytes, done, 0};
  }

  event::IoResult write_urgent(std::byte byte) override {
    const iovec piece{&byte, 1};
    const event::IoResult result = write({&piece, 1});
    if (result.kind == event::IoResult::Kind::kBytes) urgent_out.push_back(outgoing.size() - 1);
    return result;
  }
  void presume_connected() override { writable_ = true; }
  bool at_urgent_byte() override { return urgent_in == 1; }

  int take_error() override {
    ++asked_for_error;
    return error;
  }
  std::size_t unsent(Until) const override { return unsent_bytes; }
  void reset_if_lost() override { resets_if_lost = true; }
  void note_error(int noted) override { error = noted; }
  void shutdown_write() override { shut_down = true; }
  void reset_on_close() override {
    reset = true;
    if (reset_seen != nullptr) *reset_seen = true;
  }
  SocketAddress local_address() const override { return local; }
  SocketAddress peer_address() const override { return peer; }
  int descriptor() const override { return fd; }

  std::string incoming, outgoing;
  SocketAddress local, peer;
  std::size_t room = std::size_t{1} << 40;
  int fd = -1;                          // a socket to splice from and to
  std::size_t urgent_in = 0;            // behind the urgent byte in `incoming`; 0: none
  std::vector<std::size_t> urgent_out;  // places in `outgoing`
  std::size_t unsent_bytes = 0;
  int error = 0;
  int write_error = 0;  // a reset that a write meets first
  int reads = 0;
  int asked_for_error = 0;
  bool ended = false, shut_down = false, reset = false, resets_if_lost = false;
  bool* reset_seen = nullptr;  // outlives the stream
};

}  // namespace fairlead::relay
