// A listening TCP socket. Several workers listen on one address with SO_REUSEPORT; the kernel
// spreads connections among them.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "base/linux/handle.h"
#include "base/result.h"
#include "event/event_loop.h"
#include "event/stream.h"
#include "event/tcp_stream.h"
#include "event/timer_queue.h"

namespace fairlead::event {

inline constexpr int kBacklog = 4096;
// Accepted in one go before other descriptors get their turn.
inline constexpr unsigned kAcceptsPerTurn = 64;
// As long as connections come one by one, one accept(2) in this many is followed by a look
// for a second one. The look is a system call.
inline constexpr unsigned kAcceptsPerLook = 32;
// After running out of descriptors or memory: a wait, because nothing tells when there are some
// again.
inline constexpr Duration kAcceptPause = std::chrono::milliseconds(100);

struct ListenerHandlers {
  // An accepted connection.
  std::function<void(std::unique_ptr<Stream>)> accepted;
  // accept(2) failed for want of descriptors or memory (errno); connections wait in the backlog.
  std::function<void(int error)> failed;
  // The socket exists and is not bound yet, and: it is bound, but not listening yet.
  std::function<Result<void>(int fd)> before_bind;
  std::function<Result<void>(int fd)> before_listen;
};

class Listener final : private EventHandler {
 public:
  static Result<std::unique_ptr<Listener>> open(EventLoop& loop, TimerQueue& timers,
                                                const SocketAddress& address,
                                                ListenerHandlers handlers);
  // Goes on with a socket that listens already, for all of `handlers` but before_bind and
  // before_listen.
  static Result<std::unique_ptr<Listener>> adopt(EventLoop& loop, TimerQueue& timers,
                                                 FileDescriptor socket, ListenerHandlers handlers);
  // Accepts nothing any more. Connections go on to come to the socket.
  FileDescriptor park();
  ~Listener() override;
  // With the port that the kernel chose.
  const SocketAddress& address() const { return address_; }
  int descriptor() const { return socket_.get(); }
  // Accepts what waits already: before a listener goes whose place another has taken.
  void accept_rest();

 private:
  Listener(EventLoop& loop, TimerQueue& timers, ListenerHandlers handlers);
  Result<void> watch();
  void handle_events(std::uint32_t events) noexcept override;
  void accept_some(unsigned count);
  void pause(int error);

  EventLoop& loop_;
  ListenerHandlers handlers_;
  FileDescriptor socket_;
  SocketAddress address_;
  bool several_wait_ = false;  // the last look found another connection
  unsigned accepted_ = 0;      // it wraps
  Timer resume_;
};

}  // namespace fairlead::event
