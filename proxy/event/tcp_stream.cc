#include "event/tcp_stream.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/assert.h"
#include "event/urgent_signal.h"

namespace fairlead::event {
namespace {

constexpr std::uint32_t kWatched = EPOLLIN | EPOLLPRI | EPOLLRDHUP | EPOLLET;

std::size_t total_bytes(std::span<const iovec> pieces) {
  std::size_t total = 0;
  for (const iovec& piece : pieces) total += piece.iov_len;
  return total;
}

// A close(2) of the last descriptor resets the connection.
bool set_reset_on_close(int fd, bool reset) {
  const linger how{reset ? 1 : 0, 0};
  return ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &how, sizeof how) == 0;
}

int socket_error(int fd) {
  int error = 0;
  socklen_t length = sizeof error;
  if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0) return errno;
  return error;
}

}  // namespace

void bound_segments(int fd, int bytes) {
  (void)::setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &bytes, sizeof bytes);
}

void take_urgent_in_line(int fd, bool in_line) {
  const int on = in_line ? 1 : 0;
  (void)::setsockopt(fd, SOL_SOCKET, SO_OOBINLINE, &on, sizeof on);
}

void set_no_delay(int fd) {
  const int on = 1;
  (void)::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

// All best effort: what a kernel does not know leaves its defaults in place.
void keep_alive(int fd, const KeepAlive& settings) {
  const auto set = [fd](int level, int option, long value) {
    const int number = static_cast<int>(value);
    (void)::setsockopt(fd, level, option, &number, sizeof number);
  };
  const auto whole_seconds = [](Duration duration) {
    return static_cast<long>(std::chrono::ceil<std::chrono::seconds>(duration).count());
  };
  if (settings.idle != Duration::zero()) {
    set(IPPROTO_TCP, TCP_KEEPIDLE, whole_seconds(settings.idle));
    set(IPPROTO_TCP, TCP_KEEPINTVL, whole_seconds(settings.interval));
    set(IPPROTO_TCP, TCP_KEEPCNT, settings.count);
    set(SOL_SOCKET, SO_KEEPALIVE, 1);
  }
  // The back-off of probes into a closed window goes up to two minutes otherwise: too rare to tell
  // a dead host in time.
  if (settings.user_timeout != Duration::zero()) {
    constexpr int kRtoMaxMs = 44;  // TCP_RTO_MAX_MS of Linux 6.15, unknown to older headers
    const auto quarter =
        std::chrono::ceil<std::chrono::milliseconds>(settings.user_timeout / 4).count();
    set(IPPROTO_TCP, kRtoMaxMs, std::clamp<long>(quarter, 1000, 120'000));
  }
}

Result<void> take_over_tcp(int fd) {
  int protocol = 0;
  socklen_t length = sizeof protocol;
  if (::getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &length) != 0 || protocol != IPPROTO_TCP)
    return Error{Errc::kMalformed, "no TCP socket"};
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
    return system_error("O_NONBLOCK", errno);
  return {};
}

Result<FileDescriptor> TcpStream::make_socket(int family) {
  FileDescriptor socket(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return system_error("socket", errno);
  return socket;
}

TcpStream::TcpStream(EventLoop& loop, FileDescriptor socket, const SocketAddress& peer)
    : loop_(loop), socket_(std::move(socket)), peer_(peer) {}

Result<std::unique_ptr<Stream>> TcpStream::adopt(EventLoop& loop, FileDescriptor socket,
                                                 const SocketAddress& peer) {
  std::unique_ptr<TcpStream> stream(new TcpStream(loop, std::move(socket), peer.unmapped()));
  stream->connected_ = true;
  stream->urgent_in_line_ = true;  // as its listener
  // The first event tells at once when something is there to be read.
  stream->writable_ = true;
  stream->watched_ = true;
  if (const Result<void> watched = loop.add(stream->descriptor(), kWatched, *stream); !watched) {
    stream->reset_on_close();  // a FIN would be an answer without a byte
    return watched.error();
  }
  return std::unique_ptr<Stream>(std::move(stream));
}

// Whoever has the last descriptor may end without a word. A FIN would then tell both sides that
// they have all bytes.
ParkedStream TcpStream::park() {
  SMC_ASSERT(connected_);
  if (ends_.shutdown_due) shut_down();
  (void)set_reset_on_close(socket_.get(), true);
  if (std::exchange(delays_, false)) set_no_delay(socket_.get());
  expect_urgent_data();
  // Another process may get our number.
  if (std::exchange(signals_owned_, false)) (void)::fcntl(socket_.get(), F_SETOWN, 0);
  if (std::exchange(watched_, false)) loop_.remove(socket_.get(), *this);
  (void)loop_.forget_deferred(*this);
  readable_ = writable_ = false;
  return {std::move(socket_), peer_, pending_error_};
}

Result<std::unique_ptr<Stream>> TcpStream::resume(EventLoop& loop, ParkedStream parked) {
  std::unique_ptr<Stream> stream = SMC_TRY(adopt(loop, std::move(parked.socket), parked.peer));
  auto& own = static_cast<TcpStream&>(*stream);
  // As park() has left it.
  own.ends_.resets_if_lost = own.copied_ = true;
  if (parked.error == 0) return stream;
  stream->note_error(parked.error);
  // No event tells of it again.
  own.hung_up_ = own.readable_ = true;
  return stream;
}

Result<std::unique_ptr<Stream>> TcpStream::connect(EventLoop& loop, FileDescriptor socket,
                                                   const SocketAddress& to) {
  std::unique_ptr<TcpStream> stream(new TcpStream(loop, std::move(socket), to));
  // An interrupted attempt goes on as one in progress does.
  if (::connect(stream->descriptor(), to.data(), to.size()) != 0 && errno != EINPROGRESS &&
      errno != EINTR)
    return system_error("connect", errno);
  stream->writable_watched_ = stream->delays_ = true;
  // Not yet watched: a write that is taken before the loop waits makes an event needless.
  loop.defer(*stream);
  return std::unique_ptr<Stream>(std::move(stream));
}

void TcpStream::presume_connected() { writable_ = writable_ || !watched_; }

void TcpStream::watch_connecting() {
  watched_ = true;
  writable_ = writable_ && connected_;
  writable_watched_ = !writable_;
  const std::uint32_t events = writable_ ? kWatched : kWatched | EPOLLOUT;
  const Result<void> added = loop_.add(socket_.get(), events, *this);
  if (added) return;
  note_error(added.error().system);
  connected_ = hung_up_ = true;  // as after a failed connect
  notify();
}

// epoll_ctl(2) reports room that came since the write that found none.
Result<void> TcpStream::watch_writable() {
  if (writable_watched_) return {};
  SMC_TRY(loop_.modify(socket_.get(), kWatched | EPOLLOUT, *this));
  writable_watched_ = true;
  return {};
}

void TcpStream::assume_readable() {
  readable_ = true;
  begins_before_mark_ = false;
}

void TcpStream::set_not_readable() {
  readable_ = false;
  begins_before_mark_ = false;
}

void TcpStream::set_not_writable() {
  writable_ = false;
  const Result<void> watched = watch_writable();
  if (watched) return;
  note_error(watched.error().system);
  hung_up_ = true;
  notify();
}

TcpStream::~TcpStream() {
  if (ends_.resets_if_lost && !ends_.resets_on_close && socket_)
    (void)set_reset_on_close(socket_.get(), false);
  if (copied_ && socket_)
    end_copied();
  else
    loop_.forget(*this);
  (void)loop_.forget_deferred(*this);
  if (ends_.shut_down && ends_.met && pending_error_ == 0)
    loop_.close_finished(std::move(socket_));
  else
    loop_.close_later(std::move(socket_));
}

void TcpStream::reset_if_lost() {
  if (ends_.shut_down) return;
  if (!ends_.resets_if_lost) ends_.resets_if_lost = set_reset_on_close(socket_.get(), true);
}

// Closing it neither takes it out of epoll nor ends the connection.
void TcpStream::end_copied() {
  if (watched_)
    loop_.remove(socket_.get(), *this);
  else
    loop_.forget(*this);
  if (ends_.resets_on_close) return disconnect();
  (void)::shutdown(socket_.get(), SHUT_RDWR);
}

void TcpStream::handle_events(std::uint32_t events) noexcept {
  if ((events & EPOLLOUT) != 0) {
    connected_ = writable_ = true;
    if (ends_.shutdown_due) loop_.defer(*this);
  }
  if ((events & EPOLLPRI) != 0) begin_care();
  if ((events & EPOLLIN) != 0) begins_before_mark_ = true;
  if ((events & EPOLLERR) != 0) {
    error_possible_ = true;
    // Nobody reads from a stream that is backed up, so nobody would meet its reset.
    if (readable_ && pending_error_ == 0) note_error(socket_error(socket_.get()));
  } else if ((events & EPOLLRDHUP) != 0 && pending_error_ == 0) {
    // An error closes that direction too.
    fin_arrived_ = true;
  }
  if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) hung_up_ = true;
  if ((events & (EPOLLIN | EPOLLPRI | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) readable_ = true;
  notify();
}

// Not in line, an urgent byte that nobody has read is lost when another one comes.
void TcpStream::expect_urgent_data() {
  if (!std::exchange(urgent_in_line_, true)) take_urgent_in_line(socket_.get(), true);
}

void TcpStream::begin_care() {
  care_bytes_ = kUrgentCareBytes;
  expect_urgent_data();
}

// For reads that follow no event.
void TcpStream::guard_reads() {
  if (std::exchange(signals_owned_, true)) return;
  // An event whose bytes such a read has taken would tell that there is room.
  if (writable_ && writable_watched_ && loop_.modify(socket_.get(), kWatched, *this))
    writable_watched_ = false;
  own_urgent_signals(socket_.get());
  urgent_signals_seen_ = urgent_signals();
  if (urgent_came_before()) care_bytes_ = kUrgentCareBytes;
  urgent_in_line_ = true;
}

// True for urgent data that came, or was announced, before somebody owned the socket. It is in line
// afterwards.
bool TcpStream::urgent_came_before() {
  // Out of band, an unread urgent byte is lost when the next one comes.
  pollfd urgent{socket_.get(), POLLPRI, 0};
  const bool came = ::poll(&urgent, 1, 0) == 1 && (urgent.revents & POLLPRI) != 0;
  if (came || urgent_in_line_) take_urgent_in_line(socket_.get(), came);
  if (came) return true;
  // EINVAL says that none is announced, if the socket does not take it in line.
  std::byte byte;
  const bool announced =
      ::recv(socket_.get(), &byte, 1, MSG_OOB | MSG_PEEK) == 1 || errno == EAGAIN;
  take_urgent_in_line(socket_.get(), true);
  return announced;
}

// True when urgent data may have come since the last call, to this socket or to another.
bool TcpStream::news_of_urgent_data() {
  if (!signals_owned_) return false;
  const unsigned signals = urgent_signals();
  if (signals == urgent_signals_seen_) return false;
  urgent_signals_seen_ = signals;
  care_bytes_ = kUrgentCareBytes;
  return true;
}

IoResult TcpStream::read(std::span<const iovec> into) {
  if (ends_.drained) return {IoResult::Kind::kEnd, 0, 0};
  // Nothing comes behind a FIN.
  const bool begins_before_mark = std::exchange(begins_before_mark_, false) || hung_up_;
  if (care_bytes_ == 0 && begins_before_mark && !signals_owned_) return read_some(into);
  guard_reads();
  if (care_bytes_ == 0) {
    const MarkedRead read(into);
    if (!news_of_urgent_data()) {
      const IoResult result = read_some(read.pieces());
      if (!news_of_urgent_data()) return result;
      // What ended this read may have been the urgent byte, of which no event tells again.
      readable_ = true;
      // Without bytes it may have been void; an end or an error is there again.
      if (result.kind == IoResult::Kind::kBytes) return result;
    }
  }
  return read_with_care(into);
}

IoResult TcpStream::read_with_care(std::span<const iovec> into) {
  do {
    // Once a byte is there, it is settled whether it is the urgent one.
    const IoResult next = peek();
    if (next.kind != IoResult::Kind::kBytes) {
      // Announced, but not there yet: an event will tell. Or a signal was pending.
      if (next.kind == IoResult::Kind::kWouldBlock) continue;
      return next;
    }
    if (!at_urgent_byte()) {
      const IoResult result = read_some(into);
      if (result.kind == IoResult::Kind::kWouldBlock) continue;
      care_bytes_ -= std::min<std::uint64_t>(care_bytes_, result.count);
      readable_ = readable_ || result.kind == IoResult::Kind::kBytes;
      return result;
    }
    ssize_t n;
    do n = ::recv(socket_.get(), into[0].iov_base, 1, 0);
    while (n < 0 && errno == EINTR);
    if (n == 1) {
      // The next urgent byte comes with a signal of its own.
      care_bytes_ = 0;
      readable_ = true;
      return {IoResult::Kind::kBytes, 1, 0, true};
    }
    const IoResult result = read_failed(n);
    if (result.kind != IoResult::Kind::kWouldBlock) return result;
  } while (news_of_urgent_data());
  return {IoResult::Kind::kWouldBlock, 0, 0};
}

IoResult TcpStream::peek() {
  std::byte byte;
  ssize_t n;
  do n = ::recv(socket_.get(), &byte, 1, MSG_PEEK);
  while (n < 0 && errno == EINTR);
  return n == 1 ? IoResult{IoResult::Kind::kBytes, 1, 0} : read_failed(n);
}

bool TcpStream::at_urgent_byte() {
  int at_mark = 0;
  if (::ioctl(socket_.get(), SIOCATMARK, &at_mark) != 0 || at_mark == 0) return false;
  begin_care();
  return true;
}

IoResult TcpStream::read_some(std::span<const iovec> into) {
  ssize_t n;
  do n = ::readv(socket_.get(), into.data(), static_cast<int>(into.size()));
  while (n < 0 && errno == EINTR);
  if (n <= 0) return read_failed(n);
  read_since_write_ = true;
  // A short read has drained the socket, or ended before an urgent byte, of which an event tells.
  // Only a FIN or an RST may hide behind it, which was announced.
  if (static_cast<std::size_t>(n) < total_bytes(into)) {
    if (!hung_up_)
      readable_ = false;
    else
      ends_.drained = fin_arrived_ && care_bytes_ == 0;
  }
  return {IoResult::Kind::kBytes, static_cast<std::size_t>(n), 0};
}

IoResult TcpStream::read_failed(ssize_t n) {
  // What came before the RST is still there; only its error has been taken already.
  if (pending_error_ != 0 && (n < 0 || !fin_arrived_))
    return {IoResult::Kind::kError, 0, pending_error_};
  if (n == 0) {
    ends_.met = fin_arrived_ = true;
    return {IoResult::Kind::kEnd, 0, 0};
  }
  if (errno == EAGAIN) {
    readable_ = false;
    return {IoResult::Kind::kWouldBlock, 0, 0};
  }
  note_error(errno);
  return {IoResult::Kind::kError, 0, errno};
}

// The kernel holds a small segment back while the peer has not acknowledged another. With what the
// peer says to the first one, it acknowledges that.
void TcpStream::stop_delays(std::size_t bytes) {
  if (!delays_) return;
  const bool goes_at_once = writes_ == 0 || (writes_ == 1 && read_since_write_);
  ++writes_;
  read_since_write_ = false;
  if (goes_at_once && bytes <= kSmallWriteBytes) return;
  delays_ = false;
  set_no_delay(socket_.get());
}

IoResult TcpStream::write(std::span<const iovec> from) {
  if (pending_error_ != 0) return {IoResult::Kind::kError, 0, pending_error_};
  stop_delays(total_bytes(from));
  if (write_max_ != 0) return write_bounded(from);
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(from.data());
  message.msg_iovlen = from.size();
  ssize_t n;
  do
    n = from.size() == 1 ? ::send(socket_.get(), from[0].iov_base, from[0].iov_len, MSG_NOSIGNAL)
                         : ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
  while (n < 0 && errno == EINTR);
  return written(n);
}

// The kernel fills up the last packet that waits without a look at the buffer's size. At the end of
// a record it begins another, and looks.
IoResult TcpStream::write_bounded(std::span<const iovec> from) {
  iovec first = from[0];
  first.iov_len = std::min(first.iov_len, write_max_);
  ssize_t n;
  do n = ::send(socket_.get(), first.iov_base, first.iov_len, MSG_NOSIGNAL | MSG_EOR);
  while (n < 0 && errno == EINTR);
  return written(n);
}

IoResult TcpStream::write_urgent(std::byte byte) {
  if (pending_error_ != 0) return {IoResult::Kind::kError, 0, pending_error_};
  stop_delays(1);
  ssize_t n;
  do n = ::send(socket_.get(), &byte, 1, MSG_OOB | MSG_NOSIGNAL);
  while (n < 0 && errno == EINTR);
  return written(n);
}

IoResult TcpStream::written(ssize_t n) {
  if (n >= 0) {
    connected_ = true;
    return {IoResult::Kind::kBytes, static_cast<std::size_t>(n), 0};
  }
  int error = errno;
  if (error == EAGAIN) {
    writable_ = false;
    const Result<void> watched = watch_writable();
    if (watched) return {IoResult::Kind::kWouldBlock, 0, 0};
    error = watched.error().system;
  }
  note_error(error);
  return {IoResult::Kind::kError, 0, pending_error_};
}

int TcpStream::take_error() {
  if (pending_error_ == 0 && std::exchange(error_possible_, false))
    note_error(socket_error(socket_.get()));
  return pending_error_;
}

std::size_t TcpStream::unsent(Until until) const {
  const bool acknowledged = until == Until::kAcknowledged;
  int bytes = 0;
  if (pending_error_ != 0 ||
      ::ioctl(socket_.get(), acknowledged ? SIOCOUTQ : SIOCOUTQNSD, &bytes) != 0)
    return 0;
  return static_cast<std::size_t>(bytes) + (acknowledged && ends_.shutdown_due ? 1 : 0);
}

// EPIPE means that a FIN had come before the RST.
void TcpStream::note_error(int error) {
  if (pending_error_ != 0) return;
  pending_error_ = error;
  fin_arrived_ = fin_arrived_ || error == EPIPE;
}

void TcpStream::shutdown_write() {
  ends_.shutdown_due = true;
  loop_.defer(*this);
}

void TcpStream::run_deferred() noexcept {
  if (!watched_) watch_connecting();
  // A shutdown would end an attempt to connect.
  if (ends_.shutdown_due && connected_) shut_down();
}

void TcpStream::shut_down() {
  ends_.shutdown_due = false;
  // ENOTCONN after an RST: nothing is left to shut down.
  ends_.shut_down = ::shutdown(socket_.get(), SHUT_WR) == 0;
  // The peer gets what came before its end, also if this process dies.
  if (ends_.shut_down && ends_.resets_if_lost && !copied_)
    ends_.resets_if_lost = !set_reset_on_close(socket_.get(), false);
}

void TcpStream::reset_on_close() {
  // The FIN comes before the RST, and the peer reads it.
  if (ends_.shutdown_due) shut_down();
  ends_.shut_down = false;
  ends_.resets_on_close = true;
  // A FIN instead would tell the other end that it has all bytes.
  if (!set_reset_on_close(socket_.get(), true)) disconnect();
}

// With a reset.
void TcpStream::disconnect() {
  const sockaddr none{AF_UNSPEC, {}};
  (void)::connect(socket_.get(), &none, sizeof none);
}

SocketAddress TcpStream::local_address() const {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  if (::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&storage), &length) != 0) return {};
  const Result<SocketAddress> address = SocketAddress::from(storage, length);
  return address ? address->unmapped() : SocketAddress{};
}

}  // namespace fairlead::event
