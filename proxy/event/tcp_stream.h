// A TCP socket as a Stream, on an EventLoop. Sockets are non-blocking, with TCP_NODELAY set: a
// proxy that waited for more would only add its delay to the application's own. A dialled socket
// gets it before the first write that the kernel might hold back: never in a short connection.
//
// What a close would do as well waits for the end of the turn: shutdown(2) is not called for a
// stream that is destroyed in the same turn.
//
// Urgent data. SO_OOBINLINE keeps the urgent byte in the stream. The kernel ends a read before that
// byte, and the next read begins with it and goes on behind it. So a stream that may have urgent
// data reads with care: it peeks for a byte, asks SIOCATMARK whether it is the urgent one, and
// takes an urgent byte alone. It knows in two ways that it has to:
//
//   EPOLLPRI  with the event. The read that follows an event begins with bytes that were there at
//             the event, so an urgent byte that comes later ends it.
//   SIGURG    (urgent_signal.h) for reads that follow no event, and may begin anywhere. The first
//             of them asks for the signal, which costs three system calls.
#pragma once

#include <memory>

#include "base/linux/handle.h"
#include "base/result.h"
#include "base/time.h"
#include "event/event_loop.h"
#include "event/stream.h"

namespace fairlead::event {

// TCP segments of a connection that is set up from now on: at most so many bytes, or 0 for what the
// path allows. For a socket that listens, or does not connect yet.
void bound_segments(int fd, int bytes);

// Accepted sockets inherit both from their listener: TCP_NODELAY, and SO_OOBINLINE on or off.
void set_no_delay(int fd);
void take_urgent_in_line(int fd, bool in_line);

// When a host that does not answer is taken for gone. For sockets to other hosts.
struct KeepAlive {
  Duration idle{};  // 0: no probes
  Duration interval{};
  unsigned count = 0;
  Duration user_timeout{};  // the owner judges it; the kernel only asks often enough for that
};

// Accepted sockets inherit it from their listener.
void keep_alive(int fd, const KeepAlive& settings);

// A stream that reads with care and finds no urgent byte does so for as many bytes: an urgent byte
// is announced at most a receive window and 64 KiB before it comes.
inline constexpr std::uint64_t kUrgentCareBytes = 8 * 1024 * 1024;

// A segment of this size fits every path.
inline constexpr std::size_t kSmallWriteBytes = 512;

// Makes a socket that another process gave a non-blocking one. Never blocks. Errors: kMalformed for
// what is no TCP socket.
Result<void> take_over_tcp(int fd);

// A stream on its way to another loop, or another process.
struct ParkedStream {
  FileDescriptor socket;
  SocketAddress peer;
  int error = 0;  // of the connection, that the kernel has told already
};

class TcpStream final : public Stream, private EventHandler, private Deferred {
 public:
  // A non-blocking socket that a listener from make_socket() accepted, and whom accept(2) named as
  // its peer. Both addresses of a stream are told as IPv4 where they are IPv4-mapped.
  static Result<std::unique_ptr<Stream>> adopt(EventLoop& loop, FileDescriptor socket,
                                               const SocketAddress& peer);

  // Leaves the loop, with all that the kernel does not keep with the socket. If nobody resumes it,
  // the peer sees an RST, also if the process dies that has resumed it. REQUIRES: connected()
  ParkedStream park();
  static Result<std::unique_ptr<Stream>> resume(EventLoop& loop, ParkedStream parked);

  // A new non-blocking socket for `family`, not yet connected, so that options can be set.
  static Result<FileDescriptor> make_socket(int family);
  // Begins to connect; connected() becomes true, or take_error() tells why not, after
  // handle_ready().
  static Result<std::unique_ptr<Stream>> connect(EventLoop& loop, FileDescriptor socket,
                                                 const SocketAddress& to);

  ~TcpStream() override;
  void assume_readable() override;
  void set_not_readable() override;
  void set_not_writable() override;
  void set_write_max(std::size_t bytes) override { write_max_ = bytes; }
  IoResult read(std::span<const iovec> into) override;
  IoResult write(std::span<const iovec> from) override;
  IoResult write_urgent(std::byte byte) override;
  bool at_urgent_byte() override;
  void presume_connected() override;
  void expect_urgent_data() override;
  int take_error() override;
  std::size_t unsent(Until until) const override;
  void note_error(int error) override;
  void shutdown_write() override;
  void reset_on_close() override;
  void reset_if_lost() override;
  SocketAddress local_address() const override;
  SocketAddress peer_address() const override { return peer_; }
  int descriptor() const override { return socket_.get(); }

 private:
  TcpStream(EventLoop& loop, FileDescriptor socket, const SocketAddress& peer);
  Result<void> watch_writable();
  void watch_connecting();
  void shut_down();
  void disconnect();
  void end_copied();
  IoResult write_bounded(std::span<const iovec> from);
  void stop_delays(std::size_t bytes);
  void run_deferred() noexcept override;
  void handle_events(std::uint32_t events) noexcept override;
  IoResult read_some(std::span<const iovec> into);
  IoResult read_with_care(std::span<const iovec> into);
  IoResult peek();  // kBytes: at least one is there
  IoResult read_failed(ssize_t n);
  IoResult written(ssize_t n);
  void begin_care();
  void guard_reads();
  bool urgent_came_before();
  bool news_of_urgent_data();

  // How both directions end.
  struct Ends {
    bool shutdown_due = false;
    bool shut_down = false;
    bool resets_on_close = false;
    bool resets_if_lost = false;
    bool drained = false;  // what the peer sent before its FIN has been read
    bool met = false;      // a read met the FIN
  };

  EventLoop& loop_;
  FileDescriptor socket_;
  Ends ends_;
  SocketAddress peer_;
  bool watched_ = false;  // by the loop
  bool copied_ = false;   // another process may have a descriptor of the socket
  // From when a write to an accepted socket first finds no room. A socket that is watched for room
  // from its beginning costs a turn of the loop for an event that tells nothing new.
  bool writable_watched_ = false;
  std::size_t write_max_ = 0;
  bool delays_ = false;  // without TCP_NODELAY
  unsigned writes_ = 0;  // while delays_
  bool read_since_write_ = false;
  bool urgent_in_line_ = false;      // SO_OOBINLINE
  bool begins_before_mark_ = false;  // the next read: it follows an event that told of bytes
  bool signals_owned_ = false;
  unsigned urgent_signals_seen_ = 0;
  std::uint64_t care_bytes_ = 0;  // still to be read with care
  bool error_possible_ = false;   // an event since the last SO_ERROR may have reported an error
  int pending_error_ = 0;         // an RST that no read has met; the kernel tells of it only once
};

}  // namespace fairlead::event
