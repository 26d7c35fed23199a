// A TCP socket as a Stream, on libevent. Sockets are non-blocking, with TCP_NODELAY set: a proxy
// that waited for more would only add its delay to the application's own.
#pragma once

#include <memory>

#include "base/handle.h"
#include "base/result.h"
#include "event/event_loop.h"
#include "event/stream.h"

namespace fairlead::event {

// The kernel then keeps about so many bytes for `fd` in each direction instead of what it thinks
// fit. For a socket that does not listen or connect yet.
void bound_memory(int fd, int bytes);

class TcpStream final : public Stream, private SecondLook {
 public:
  // An accepted, non-blocking socket, and whom accept(2) named as its peer.
  static Result<std::unique_ptr<Stream>> adopt(EventLoop& loop, FileDescriptor socket,
                                               const SocketAddress& peer);

  // A new non-blocking socket for `family`, not yet connected, so that options can be set.
  static Result<FileDescriptor> make_socket(int family);
  // Begins to connect; connected() becomes true, or take_error() tells why not, after
  // handle_ready().
  static Result<std::unique_ptr<Stream>> connect(EventLoop& loop, FileDescriptor socket,
                                                 const SocketAddress& to);

  ~TcpStream() override;
  IoResult read(std::span<const iovec> into) override;
  IoResult write(std::span<const iovec> from) override;
  int take_error() override;
  void shutdown_write() override;
  void reset_on_close() override;
  SocketAddress local_address() const override;
  SocketAddress peer_address() const override { return peer_; }
  int descriptor() const override { return socket_.get(); }

 private:
  TcpStream(EventLoop& loop, FileDescriptor socket, const SocketAddress& peer)
      : loop_(loop), socket_(std::move(socket)), peer_(peer) {}
  Result<void> watch();
  static void on_event(int fd, short what, void* self) noexcept;
  void take_events(short what);
  void look_again() noexcept override;

  EventLoop& loop_;
  FileDescriptor socket_;
  SocketAddress peer_;
  EventHandle event_;
  int pending_error_ = 0;  // an RST that was found while nobody read
};

}  // namespace fairlead::event
