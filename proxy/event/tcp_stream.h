// A TCP socket as a Stream, on libevent. Sockets are non-blocking, with TCP_NODELAY set: a proxy
// that waited for more would only add its delay to the application's own.
//
// Urgent data. SO_OOBINLINE keeps the urgent byte in the stream. The kernel ends a read before that
// byte, and the next read begins with it and goes on behind it; no event follows. So after a SIGURG
// (urgent_signal.h) a stream reads with care: it peeks for a byte, asks SIOCATMARK whether it is
// the urgent one, and takes an urgent byte alone.
#pragma once

#include <memory>

#include "base/handle.h"
#include "base/result.h"
#include "base/time.h"
#include "event/event_loop.h"
#include "event/stream.h"

namespace fairlead::event {

// The kernel then keeps about so many bytes for `fd` in each direction instead of what it thinks
// fit. Sockets inherit it from their listener.
void bound_memory(int fd, int bytes);

// The same for the receiving direction alone.
void bound_receive_memory(int fd, int bytes);

// The same for a connected socket, whose window follows.
void resize_memory(int fd, int bytes);

// TCP segments of a connection that is set up from now on: at most so many bytes, or 0 for what the
// path allows. For a socket that listens, or does not connect yet.
void bound_segments(int fd, int bytes);

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

// Where a connection leads. On the same host connect(2) establishes it, and that is looked for at
// once: waiting for the event would cost a turn of the loop.
enum class PeerIs : std::uint8_t { kAnywhere, kOnThisHost };

class TcpStream final : public Stream, private Recheck {
 public:
  // A non-blocking socket that a listener from make_socket() accepted, and whom accept(2) named as
  // its peer. Both addresses of a stream are told as IPv4 where they are IPv4-mapped.
  static Result<std::unique_ptr<Stream>> adopt(EventLoop& loop, FileDescriptor socket,
                                               const SocketAddress& peer);

  // A new non-blocking socket for `family`, not yet connected, so that options can be set. The
  // sockets that a listening one accepts inherit those that are set here.
  static Result<FileDescriptor> make_socket(int family);
  // Begins to connect; connected() becomes true, or take_error() tells why not, after
  // handle_ready(). On this host connected() may be true on return, and no event follows then.
  static Result<std::unique_ptr<Stream>> connect(EventLoop& loop, FileDescriptor socket,
                                                 const SocketAddress& to,
                                                 PeerIs peer = PeerIs::kAnywhere);

  ~TcpStream() override;
  void set_not_writable() override;
  void set_write_max(std::size_t bytes) override { write_max_ = bytes; }
  IoResult read(std::span<const iovec> into) override;
  IoResult write(std::span<const iovec> from) override;
  IoResult write_urgent(std::byte byte) override;
  bool at_urgent_byte() override;
  int take_error() override;
  std::size_t unsent() const override;
  void note_error(int error) override;
  void shutdown_write() override;
  void reset_on_close() override;
  SocketAddress local_address() const override;
  SocketAddress peer_address() const override { return peer_; }
  int descriptor() const override { return socket_.get(); }

 private:
  TcpStream(EventLoop& loop, FileDescriptor socket, const SocketAddress& peer);
  Result<void> watch();
  Result<void> watch_writable();
  Result<void> watch(EventHandle& event, short what);
  IoResult write_bounded(std::span<const iovec> from);
  static void on_event(int fd, short what, void* self) noexcept;
  void take_events(short what);
  IoResult read_some(std::span<const iovec> into);
  IoResult read_with_care(std::span<const iovec> into);
  IoResult peek();  // kBytes: at least one is there
  IoResult read_failed(ssize_t n);
  IoResult written(ssize_t n);
  bool news_of_urgent_data();
  void look_again() noexcept override;

  EventLoop& loop_;
  FileDescriptor socket_;
  SocketAddress peer_;
  EventHandle event_;
  // Made when a write to an accepted socket first finds no room. A socket that is watched for room
  // from its beginning costs a turn of the loop for an event that tells nothing new.
  EventHandle writable_event_;
  bool writable_watched_ = false;
  std::size_t write_max_ = 0;
  unsigned urgent_signals_seen_ = 0;
  std::uint64_t care_bytes_ = 0;  // still to be read with care
  bool error_possible_ = false;   // an event since the last SO_ERROR may have reported an error
  int pending_error_ = 0;         // an RST that no read has met; the kernel tells of it only once
};

}  // namespace fairlead::event
