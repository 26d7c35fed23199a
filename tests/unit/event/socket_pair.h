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
    FileDescriptor socket = std::move(*TcpStream::make_socket(AF_INET));
    dialled = std::move(*TcpStream::connect(*loop, std::move(socket), listener->address()));
    until([&] { return accepted && dialled->connected(); });
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
  static IoResult read(Stream& stream, std::string& into, std::size_t limit = 4096) {
    into.assign(limit, ' ');
    const iovec piece{into.data(), into.size()};
    const IoResult result = stream.read({&piece, 1});
    into.resize(result.count);
    return result;
  }

  std::unique_ptr<EventLoop> loop;
  TimerQueue timers;
  std::unique_ptr<Listener> listener;
  std::unique_ptr<Stream> accepted;
  std::unique_ptr<Stream> dialled;
};

// As when the process dies: the kernel closes the socket, and nobody has said how.
inline void lose(const Stream& stream) {
  const FileDescriptor other(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::dup2(other.get(), stream.descriptor()), stream.descriptor());
}

}  // namespace fairlead::event
