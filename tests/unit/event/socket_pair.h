// A loop, a listener on a port that the kernel chooses, and a dialled connection to it.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "base/linux/handle.h"
#include "event/event_loop.h"
#include "event/listener.h"
#include "event/tcp_stream.h"
#include "event/timer_queue.h"

namespace fairlead::event {

class SocketPair {
 public:
  SocketPair() {
    loop = std::move(*EventLoop::create());
    ListenerHandlers handlers;
    handlers.accepted = [this](std::unique_ptr<Stream> stream) { accepted = std::move(stream); };
    listener = std::move(
        *Listener::open(*loop, timers, *SocketAddress::parse("127.0.0.1:0"), std::move(handlers)));
    dialled = dial(listener->address());
    until([&] { return accepted && dialled->connected(); });
  }

  std::unique_ptr<Stream> dial(const SocketAddress& address) const {
    return std::move(
        *TcpStream::connect(*loop, std::move(*TcpStream::make_socket(AF_INET)), address));
  }

  // Runs the loop until the condition holds; the test fails here if it never does.
  template <class Condition>
  void until(Condition condition) {
    const TimePoint limit = EventLoop::now() + std::chrono::seconds(120);
    while (!condition()) {
      ASSERT_LT(EventLoop::now(), limit);
      loop->wait(EventLoop::now() + std::chrono::milliseconds(100));
    }
  }

  static std::size_t write(Stream& stream, const std::string& bytes) {
    const iovec piece{const_cast<char*>(bytes.data()), bytes.size()};
    return stream.write({&piece, 1}).count;
  }
  struct Read : IoResult {
    std::string bytes;
  };
  static Read read(Stream& stream, std::size_t limit = 4096) {
    std::string into(limit, ' ');
    const iovec piece{into.data(), into.size()};
    const IoResult result = stream.read({&piece, 1});
    into.resize(result.count);
    return {result, std::move(into)};
  }
  // The error of a read that fails, else 0.
  static int read_error(Stream& stream) {
    const Read result = read(stream);
    return result.kind == IoResult::Kind::kError ? result.error : 0;
  }
  // The bytes that come next.
  std::string await_bytes(Stream& stream) {
    Read result;
    until([&] {
      result = read(stream);
      return result.kind == IoResult::Kind::kBytes;
    });
    return result.bytes;
  }
  // Until it ends or fails; with all bytes before that.
  Read await_end(Stream& stream, bool without_event = false) {
    std::string all;
    Read last;
    until([&] {
      if (without_event) stream.assume_readable();
      last = read(stream, 1 << 16);
      all += last.bytes;
      return last.kind == IoResult::Kind::kEnd || last.kind == IoResult::Kind::kError;
    });
    last.bytes = all;
    return last;
  }
  // Reads all that is there and marks each urgent byte with a star, and the end with a dollar.
  static std::string read_marked(Stream& stream, std::size_t limit = 4096) {
    std::string all;
    while (stream.readable()) {
      const Read result = read(stream, limit);
      if (result.kind == IoResult::Kind::kEnd) return all + "$";
      if (result.kind != IoResult::Kind::kBytes) break;
      all += result.urgent ? "*" + result.bytes : result.bytes;
    }
    return all;
  }
  std::string await_marked(Stream& stream, std::size_t size_min, std::size_t limit = 4096) {
    std::string all;
    until([&] {
      all += read_marked(stream, limit);
      return all.size() >= size_min;
    });
    return all;
  }
  // Writes until the socket is full; the number of bytes.
  static std::size_t fill(Stream& stream, std::size_t chunk_bytes = 1 << 16) {
    const std::string chunk(chunk_bytes, 'x');
    std::size_t written = 0;
    while (stream.writable()) written += write(stream, chunk);
    return written;
  }
  static ParkedStream park(Stream& stream) { return static_cast<TcpStream&>(stream).park(); }
  std::unique_ptr<Stream> resume(ParkedStream parked) const {
    return std::move(TcpStream::resume(*loop, std::move(parked)).value());
  }
  // Closes it with an RST.
  static void reset(std::unique_ptr<Stream>& stream) {
    stream->reset_on_close();
    stream.reset();
  }

  std::unique_ptr<EventLoop> loop;
  TimerQueue timers;
  std::unique_ptr<Listener> listener;
  std::unique_ptr<Stream> accepted;
  std::unique_ptr<Stream> dialled;
};

class TcpStreamTest : public testing::Test, protected SocketPair {
 protected:
  using Kind = IoResult::Kind;
  // The other end has the bytes and the end of the stream.
  void say_and_end(const std::string& bytes) {
    write(*dialled, bytes);
    dialled->shutdown_write();
    until([&] { return accepted->hung_up(); });
  }
  void write_until_error() {
    const iovec piece{const_cast<char*>("x"), 1};
    until([&] { return accepted->write({&piece, 1}).kind == Kind::kError; });
  }
  void drain_until_writable(const Stream& writer) {
    until([&] {
      while (read(*accepted, 1 << 20).kind == Kind::kBytes) continue;
      return writer.writable();
    });
  }
};

// As when the process dies: the kernel closes the socket, and nobody has said how.
inline void lose(const Stream& stream) {
  const FileDescriptor other(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::dup2(other.get(), stream.descriptor()), stream.descriptor());
}

}  // namespace fairlead::event
