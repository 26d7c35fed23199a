#include "event/listener.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>

namespace fairlead::event {
namespace {

// An accept(2) that finds nothing costs ten times as much: the kernel makes a file first.
bool connection_waits(int fd) {
  pollfd waiting{fd, POLLIN, 0};
  return ::poll(&waiting, 1, 0) == 1;
}

}  // namespace

Listener::Listener(EventLoop& loop, TimerQueue& timers, ListenerHandlers handlers)
    : loop_(loop), handlers_(std::move(handlers)), resume_(timers, [this] {
        if (!loop_.add(socket_.get(), EPOLLIN, *this)) resume_.set(EventLoop::now() + kAcceptPause);
      }) {}

// A keeper may still have a copy of a socket that was adopted.
Listener::~Listener() {
  if (socket_)
    loop_.remove(socket_.get(), *this);
  else
    loop_.forget(*this);
}

Result<std::unique_ptr<Listener>> Listener::open(EventLoop& loop, TimerQueue& timers,
                                                 const SocketAddress& address,
                                                 ListenerHandlers handlers) {
  std::unique_ptr<Listener> listener(new Listener(loop, timers, std::move(handlers)));
  listener->socket_ = SMC_TRY(TcpStream::make_socket(address.family()));
  const int fd = listener->socket_.get();
  set_no_delay(fd);
  take_urgent_in_line(fd, true);
  const int on = 1;
  (void)::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) != 0)
    return system_error("SO_REUSEPORT", errno);
  if (listener->handlers_.before_bind) SMC_TRY(listener->handlers_.before_bind(fd));
  if (::bind(fd, address.data(), address.size()) != 0) return system_error("bind", errno);
  if (listener->handlers_.before_listen) SMC_TRY(listener->handlers_.before_listen(fd));
  if (::listen(fd, kBacklog) != 0) return system_error("listen", errno);
  SMC_TRY(listener->watch());
  return listener;
}

Result<std::unique_ptr<Listener>> Listener::adopt(EventLoop& loop, TimerQueue& timers,
                                                  FileDescriptor socket,
                                                  ListenerHandlers handlers) {
  int listens = 0;
  socklen_t length = sizeof listens;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) != 0)
    return system_error("SO_ACCEPTCONN", errno);
  if (listens == 0) return Error{Errc::kWrongState, "a parked socket that does not listen"};
  std::unique_ptr<Listener> listener(new Listener(loop, timers, std::move(handlers)));
  listener->socket_ = std::move(socket);
  SMC_TRY(listener->watch());
  return listener;
}

Result<void> Listener::watch() {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  if (::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&storage), &length) != 0)
    return system_error("getsockname", errno);
  address_ = SMC_TRY(SocketAddress::from(storage, length));
  return loop_.add(socket_.get(), EPOLLIN, *this);
}

FileDescriptor Listener::park() {
  loop_.remove(socket_.get(), *this);
  resume_.cancel();
  return std::move(socket_);
}

void Listener::handle_events(std::uint32_t) noexcept { accept_some(kAcceptsPerTurn); }

void Listener::accept_rest() {
  several_wait_ = true;
  accept_some(kBacklog);
}

void Listener::accept_some(unsigned count) {
  for (unsigned i = 0; i < count; ++i) {
    sockaddr_storage storage{};
    socklen_t length = sizeof storage;
    FileDescriptor socket(::accept4(socket_.get(), reinterpret_cast<sockaddr*>(&storage), &length,
                                    SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket) {
      const bool exhausted =
          errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS;
      // EINVAL: another process that has the socket has shut it down. Its event would never end.
      if (exhausted || errno == EINVAL) pause(errno);
      return;
    }
    const Result<SocketAddress> peer = SocketAddress::from(storage, length);
    Result<std::unique_ptr<Stream>> stream =
        TcpStream::adopt(loop_, std::move(socket), peer ? *peer : SocketAddress{});
    if (!stream) return pause(stream.error().system);
    handlers_.accepted(std::move(*stream));
    // The event is level-triggered: the loop reports again a connection that is left here.
    if (!several_wait_ && ++accepted_ % kAcceptsPerLook != 0) return;
    several_wait_ = connection_waits(socket_.get());
    if (!several_wait_) return;
  }
}

void Listener::pause(int error) {
  loop_.remove(socket_.get(), *this);
  resume_.set(EventLoop::now() + kAcceptPause);
  if (handlers_.failed) handlers_.failed(error);
}

}  // namespace fairlead::event
