#include "relay/socket_network.h"

#include "bpf/tcp_option.h"
#include "event/tcp_stream.h"

namespace fairlead::relay {

Result<std::unique_ptr<event::Stream>> SocketNetwork::dial_application(const SocketAddress& to) {
  FileDescriptor socket = SMC_TRY(event::TcpStream::make_socket(to.family()));
  event::bound_memory(socket.get(), kApplicationSocketBytes);
  return event::TcpStream::connect(loop_, std::move(socket), to);
}

Result<std::unique_ptr<event::Stream>> SocketNetwork::dial_peer(const SocketAddress& to,
                                                                bool smc_option) {
  FileDescriptor socket = SMC_TRY(event::TcpStream::make_socket(to.family()));
  if (smc_option && program_ != nullptr) SMC_TRY(program_->request(socket.get()));
  return event::TcpStream::connect(loop_, std::move(socket), to);
}

bool SocketNetwork::option_answered(event::Stream& stream) {
  return option_available() && bpf::peer_answered_option(stream.descriptor());
}

bool SocketNetwork::option_requested(event::Stream& stream) {
  if (!option_available()) return false;
  const Result<bool> carried = bpf::syn_carried_option(stream.descriptor());
  return carried && *carried;
}

Result<void> SocketNetwork::prepare_peer_listener(int fd) const {
  // Without a program too: one may be attached while we run.
  SMC_TRY(bpf::save_syn(fd));
  if (program_ != nullptr) SMC_TRY(program_->request(fd));
  return {};
}

void SocketNetwork::prepare_application_listener(int fd) {
  // Accepted sockets inherit it.
  event::bound_memory(fd, kApplicationSocketBytes);
}

}  // namespace fairlead::relay
