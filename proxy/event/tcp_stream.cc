#include "event/tcp_stream.h"

#include <event2/event.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>

namespace fairlead::event {
namespace {

std::size_t total_bytes(std::span<const iovec> pieces) {
  std::size_t total = 0;
  for (const iovec& piece : pieces) total += piece.iov_len;
  return total;
}

void set_no_delay(int fd) {
  const int one = 1;
  // Fails only on a socket that is dead already, which the first read will tell.
  (void)::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

int socket_error(int fd) {
  int error = 0;
  socklen_t length = sizeof error;
  if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0) return errno;
  return error;
}

}  // namespace

void bound_memory(int fd, int bytes) {
  for (const int buffer : {SO_RCVBUF, SO_SNDBUF})
    (void)::setsockopt(fd, SOL_SOCKET, buffer, &bytes, sizeof bytes);
}

Result<FileDescriptor> TcpStream::make_socket(int family) {
  FileDescriptor socket(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return system_error("socket", errno);
  return socket;
}

Result<std::unique_ptr<Stream>> TcpStream::adopt(EventLoop& loop, FileDescriptor socket,
                                                 const SocketAddress& peer) {
  set_no_delay(socket.get());
  std::unique_ptr<TcpStream> stream(new TcpStream(loop, std::move(socket), peer));
  stream->connected_ = true;
  // The first event tells at once when something is there to be read.
  stream->writable_ = true;
  SMC_TRY(stream->watch());
  return std::unique_ptr<Stream>(std::move(stream));
}

Result<std::unique_ptr<Stream>> TcpStream::connect(EventLoop& loop, FileDescriptor socket,
                                                   const SocketAddress& to) {
  set_no_delay(socket.get());
  if (::connect(socket.get(), to.data(), to.size()) != 0 && errno != EINPROGRESS)
    return system_error("connect", errno);
  std::unique_ptr<TcpStream> stream(new TcpStream(loop, std::move(socket), to));
  SMC_TRY(stream->watch());
  return std::unique_ptr<Stream>(std::move(stream));
}

Result<void> TcpStream::watch() {
  event_.reset(event_new(loop_.base(), socket_.get(),
                         EV_READ | EV_WRITE | EV_CLOSED | EV_PERSIST | EV_ET, &TcpStream::on_event,
                         this));
  if (!event_ || event_add(event_.get(), nullptr) != 0) return system_error("event_add", errno);
  return {};
}

TcpStream::~TcpStream() { loop_.forget(*this); }

void TcpStream::on_event(int, short what, void* self) noexcept {
  static_cast<TcpStream*>(self)->take_events(what);
}

void TcpStream::take_events(short what) {
  loop_.count_dispatch();
  if ((what & EV_WRITE) != 0) connected_ = writable_ = true;
  // Nobody reads from a stream that is backed up, so nobody would meet its reset.
  if ((what & EV_READ) != 0 && readable_ && pending_error_ == 0) {
    pending_error_ = socket_error(socket_.get());
    hung_up_ = hung_up_ || pending_error_ != 0;
  }
  if ((what & EV_READ) != 0) readable_ = true;
  if ((what & EV_CLOSED) != 0) hung_up_ = readable_ = true;
  notify();
}

void TcpStream::look_again() noexcept {
  // What is readable will be read, and its end met, or this look asked for anew.
  if (readable_ || pending_error_ != 0) return;
  pending_error_ = socket_error(socket_.get());
  if (pending_error_ == 0) return;
  hung_up_ = readable_ = true;
  loop_.count_dispatch();
  notify();
}

IoResult TcpStream::read(std::span<const iovec> into) {
  // One range is the usual case, and recv is the shorter way through the kernel.
  const ssize_t n = into.size() == 1
                        ? ::recv(socket_.get(), into[0].iov_base, into[0].iov_len, 0)
                        : ::readv(socket_.get(), into.data(), static_cast<int>(into.size()));
  if (n > 0) {
    // A short read has drained the socket; only a FIN may hide behind it, which was announced, or
    // an RST, of which libevent says no more than "readable": one event for the bytes and for it.
    if (static_cast<std::size_t>(n) < total_bytes(into) && !hung_up_) {
      readable_ = false;
      loop_.look_again_at(*this);
    }
    return {IoResult::Kind::kBytes, static_cast<std::size_t>(n), 0};
  }
  // What came before the RST is still there; only its error has been taken already.
  if (pending_error_ != 0) return {IoResult::Kind::kError, 0, pending_error_};
  if (n == 0) return {IoResult::Kind::kEnd, 0, 0};
  if (errno == EAGAIN || errno == EINTR) {
    if (errno == EAGAIN) readable_ = false;
    return {IoResult::Kind::kWouldBlock, 0, 0};
  }
  return {IoResult::Kind::kError, 0, errno};
}

IoResult TcpStream::write(std::span<const iovec> from) {
  if (pending_error_ != 0) return {IoResult::Kind::kError, 0, pending_error_};
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(from.data());
  message.msg_iovlen = from.size();
  const ssize_t n = from.size() == 1
                        ? ::send(socket_.get(), from[0].iov_base, from[0].iov_len, MSG_NOSIGNAL)
                        : ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
  if (n >= 0) return {IoResult::Kind::kBytes, static_cast<std::size_t>(n), 0};
  if (errno == EAGAIN || errno == EINTR) {
    if (errno == EAGAIN) writable_ = false;
    return {IoResult::Kind::kWouldBlock, 0, 0};
  }
  return {IoResult::Kind::kError, 0, errno};
}

int TcpStream::take_error() {
  return pending_error_ != 0 ? pending_error_ : socket_error(socket_.get());
}

void TcpStream::shutdown_write() {
  // ENOTCONN after an RST: nothing is left to shut down.
  (void)::shutdown(socket_.get(), SHUT_WR);
}

void TcpStream::reset_on_close() {
  const linger now{1, 0};
  (void)::setsockopt(socket_.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

SocketAddress TcpStream::local_address() const {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  if (::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&storage), &length) != 0) return {};
  const Result<SocketAddress> address = SocketAddress::from(storage, length);
  return address ? *address : SocketAddress{};
}

}  // namespace fairlead::event
