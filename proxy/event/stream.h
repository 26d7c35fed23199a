// The seam to a TCP connection: a byte stream that is read and written without blocking and tells
// when more can be done. TcpStream (tcp_stream.h) is the real one; a simulation brings its own.
//
// Readiness is remembered here, edge-triggered: readable() stays true until a read found the end of
// what was there, so nobody asks the kernel twice.
//
// Threads: one, the owner's. The handler outlives the stream or is replaced by nullptr.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/address.h"

namespace fairlead::event {

class Stream;

class StreamHandler {
 public:
  virtual ~StreamHandler() = default;
  // Something about readable(), writable() or connected() changed. May be called at any time from
  // the loop; do the work in a turn of your own.
  virtual void handle_ready(Stream& stream) = 0;
};

struct IoResult {
  enum class Kind : std::uint8_t {
    kBytes,       // `count` bytes, at least 1
    kWouldBlock,  // nothing now
    kEnd,         // read: the peer's FIN
    // `error` is errno: ECONNRESET, EPIPE, EFAULT, … A write meets it while bytes that came before
    // the RST are still to be read; a read meets it behind them.
    kError,
  };
  Kind kind = Kind::kWouldBlock;
  std::size_t count = 0;
  int error = 0;
  bool urgent = false;  // read: the one byte is urgent data; it is in its place in the stream
};

class Stream {
 public:
  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void set_handler(StreamHandler* handler) { handler_ = handler; }

  bool connected() const { return connected_; }
  bool readable() const { return readable_; }
  bool writable() const { return writable_; }
  // The peer's FIN or RST has arrived, perhaps behind data that is still to be read.
  bool hung_up() const { return hung_up_; }
  // The peer's FIN has arrived. What it sent before can be read up to that end, whatever error has
  // come behind it.
  bool fin_arrived() const { return fin_arrived_; }
  // For who reads on the chance that something has come of which no event has told yet, or has
  // moved bytes past this class and left some.
  virtual void assume_readable() { readable_ = true; }
  // For who moves bytes past this class, with splice(2): it has met EAGAIN.
  virtual void set_not_readable() { readable_ = false; }
  virtual void set_not_writable() { writable_ = false; }

  // One write takes at most so many bytes, and what it takes is not added to what waits already:
  // the send buffer is then exceeded by no more than that. 0: no bound.
  virtual void set_write_max(std::size_t) {}

  virtual IoResult read(std::span<const iovec> into) = 0;
  virtual IoResult write(std::span<const iovec> from) = 0;
  // Writes one byte of urgent data. Of several urgent bytes that the other side has not read, only
  // the last is urgent to it, as TCP has it.
  virtual IoResult write_urgent(std::byte byte) = 0;
  // For who moves bytes past this class, which stops before an urgent byte: true when that is next,
  // for read() to take.
  virtual bool at_urgent_byte() = 0;
  // For a dialled stream, before the loop waits again: it takes writes. One that is taken proves
  // that the stream is connected, as a destination on the same host is when connect(2) returns.
  virtual void presume_connected() {}
  // For a dialled stream on which the peer's urgent data is expected from now on, as on others.
  virtual void expect_urgent_data() {}
  // Takes the pending error of the connection: a failed connect, or an RST that no read has met
  // yet. It reports errors of which an event has told; a later error brings another event.
  virtual int take_error() = 0;
  // Bytes that were written but have not left this host, or that the other one has not
  // acknowledged; then a FIN counts too. A reset would take the former along, and may overtake the
  // latter.
  enum class Until : std::uint8_t { kSent, kAcknowledged };
  virtual std::size_t unsent(Until until) const = 0;
  // For who moves bytes past this class: a write has failed with `error`.
  virtual void note_error(int error) = 0;
  virtual void shutdown_write() = 0;
  // The peer sees an RST instead of a FIN when the stream is destroyed.
  virtual void reset_on_close() = 0;
  // If this process dies, the connection is reset, and not ended, unless its end is sent already.
  virtual void reset_if_lost() {}
  virtual SocketAddress local_address() const = 0;
  virtual SocketAddress peer_address() const = 0;
  // For splice(2) and socket options; -1 where there is none.
  virtual int descriptor() const = 0;

 protected:
  Stream() = default;
  void notify() {
    if (handler_ != nullptr) handler_->handle_ready(*this);
  }

  bool connected_ = false;
  bool readable_ = false;
  bool writable_ = false;
  bool hung_up_ = false;
  bool fin_arrived_ = false;

 private:
  StreamHandler* handler_ = nullptr;
};

}  // namespace fairlead::event
