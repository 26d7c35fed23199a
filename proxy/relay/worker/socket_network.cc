#include "relay/worker/socket_network.h"

#include <algorithm>
#include <cerrno>

#include "base/assert.h"
#include "base/linux/descriptors.h"
#include "bpf/client_address_probe.h"
#include "bpf/held_connection.h"
#include "bpf/tcp_option.h"
#include "event/socket_buffers.h"
#include "event/tcp_stream.h"

namespace fairlead::relay {
namespace {

// Number of slots to try if their ports are taken, before connecting without one.
constexpr unsigned kSlotTriesMax = 4;

// Probes that keep the redirect of an application's connection known. An application that does not
// answer them is on the same host: its connection ends when the application does.
constexpr event::KeepAlive kRedirectKeepAlive{
    .idle = std::chrono::seconds(20), .interval = std::chrono::seconds(20), .count = 100};

// Errors that a socket without a bound source address does not get.
bool blames_source(int error) {
  switch (error) {
    case EADDRNOTAVAIL:
    case EADDRINUSE:
    case EINVAL:
    case EACCES:
    case EPERM:
    case ENETUNREACH:
    case EHOSTUNREACH:
      return true;
    default:
      return false;
  }
}

// Creates the socket for the other leg of an accepted connection.
Result<FileDescriptor> make_socket(int family) {
  FileDescriptor socket = SMC_TRY(event::TcpStream::make_socket(family));
  if (descriptors_scarce_lately(socket.get(), DescriptorUse::kBegun))
    return system_error("socket", EMFILE);
  // The port comes from the pod's ephemeral range. A server of the pod that binds the same port
  // with this option must not fail because of the sidecar.
  const int on = 1;
  (void)::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  return socket;
}

bool link_local(const SocketAddress& address) {
  const auto bytes = address.bytes();
  return address.is_v6() && bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80;
}

// Connections from link-local addresses came through the loopback device, and have its scope.
bool may_be_source(const SocketAddress& client, const SocketAddress& to) {
  return client.family() == to.family() && !client.is_loopback() && !client.is_any() &&
         !link_local(client);
}

}  // namespace

SocketNetwork::SocketNetwork(event::EventLoop& loop, OptionSource source,
                             const bpf::OptionProgram* program, const config::Tcp& tcp, bool frames)
    : loop_(loop),
      source_(source),
      program_(program),
      frames_(frames),
      keep_alive_{.idle = tcp.keepalive_idle,
                  .interval = tcp.keepalive_interval,
                  .count = tcp.keepalive_count,
                  .user_timeout = tcp.user_timeout} {}

Result<ApplicationLeg> SocketNetwork::dial_application(const SocketAddress& to,
                                                       const SocketAddress& from,
                                                       unsigned memory_level) {
  const SocketAddress client = from.unmapped();
  ApplicationLeg leg;
  leg.client_address = client_address_;
  if (leg.client_address == ClientAddress::kShown &&
      (client.family() != to.family() || link_local(client)))
    leg.client_address = ClientAddress::kFamily;
  for (unsigned tried = 0; leg.client_address == ClientAddress::kShown; ++tried) {
    auto lease = client_slots_->take(to.family());
    if (!lease) {
      leg.client_address = ClientAddress::kNoSlot;
      break;
    }
    SocketAddress source = lease->publish(client, to);
    auto dialled = dial(&source, to, memory_level);
    // A server of the pod may use the port.
    if (!dialled && dialled.error().system == EADDRINUSE && to.is_v4()) {
      source = lease->publish_without_port(client, to);
      dialled = dial(&source, to, memory_level);
      if (dialled) lease->set_source_port((*dialled)->local_address().port());
    }
    if (dialled) {
      leg.stream = std::move(*dialled);
      leg.slot = std::move(*lease);
      return leg;
    }
    if (!blames_source(dialled.error().system)) return Error(dialled.error());
    // Over IPv6, another slot uses another port, which may be free.
    if (to.is_v4() || tried + 1 == kSlotTriesMax) leg.client_address = ClientAddress::kRefused;
  }
  leg.stream = SMC_TRY(dial(nullptr, to, memory_level));
  return leg;
}

Result<std::unique_ptr<event::Stream>> SocketNetwork::dial(const SocketAddress* source,
                                                           const SocketAddress& to,
                                                           unsigned memory_level) {
  FileDescriptor socket = SMC_TRY(make_socket(to.family()));
  if (memory_level < kApplicationLevel) SocketMemory::prepare(socket.get(), memory_level);
  if (source != nullptr) SMC_TRY(bpf::bind_source(socket.get(), *source));
  std::unique_ptr<event::Stream> stream =
      SMC_TRY(event::TcpStream::connect(loop_, std::move(socket), to));
  stream->expect_urgent_data();
  return stream;
}

Result<void> SocketNetwork::use_client_address_map(int map_fd, unsigned worker, unsigned workers,
                                                   std::uint64_t seed) {
  bpf::ClientAddressMap map = SMC_TRY(bpf::ClientAddressMap::open(map_fd));
  if (client_slots_)
    client_slots_->move_to(std::move(map));
  else
    client_slots_.emplace(std::move(map), worker, workers, seed);
  for (const std::uint32_t slot : kept_slots_) client_slots_->withdraw(slot);
  return {};
}

void SocketNetwork::keep_client_slot(std::uint32_t slot) {
  kept_slots_.push_back(slot);
  if (client_slots_) client_slots_->withdraw(slot);
}

void SocketNetwork::set_client_address(ClientAddress state) {
  SMC_ASSERT(state != ClientAddress::kShown || client_slots_);
  client_address_ = state;
}

Result<std::unique_ptr<event::Stream>> SocketNetwork::dial_peer(const SocketAddress& to,
                                                                bpf::Announced announce,
                                                                const SocketAddress* client,
                                                                unsigned memory_level) {
  FileDescriptor socket = SMC_TRY(make_socket(to.family()));
  if (memory_level < kApplicationLevel) SocketMemory::prepare(socket.get(), memory_level);
  // The application may have bound one of several addresses. An address of another host cannot be
  // bound; the kernel then chooses one.
  if (client != nullptr && may_be_source(*client, to) && !sources_.is_default(*client, to, now()))
    (void)bpf::bind_source(socket.get(), client->with_port(0));
  const bool frames = announce == bpf::Announced::kFrames;
  if (announce != bpf::Announced::kNothing && program_ != nullptr)
    SMC_TRY(program_->request_for_connection(socket.get(), frames));
  else if (frames && option_available())
    bpf::ask_for_frames(socket.get());
  return event::TcpStream::connect(loop_, std::move(socket), to);
}

void SocketNetwork::probe_peer(event::Stream& dialled) {
  event::keep_alive(dialled.descriptor(), keep_alive_);
}

bpf::Announced SocketNetwork::option_answered(event::Stream& stream) {
  if (!option_available()) return bpf::Announced::kNothing;
  return bpf::peer_answered_option(stream.descriptor());
}

bpf::Announced SocketNetwork::option_requested(event::Stream& stream) {
  if (!option_available()) return bpf::Announced::kNothing;
  const auto carried = bpf::syn_carried_option(stream.descriptor());
  if (!carried) return bpf::Announced::kNothing;
  return frames_ ? *carried : std::min(*carried, bpf::Announced::kSmc);
}

Result<void> SocketNetwork::prepare_peer_listener(int fd) const {
  // Also needed without our program: one may be attached while we run.
  SMC_TRY(bpf::save_syn(fd));
  event::keep_alive(fd, keep_alive_);
  if (memory_level_ < kApplicationLevel) SocketMemory::prepare(fd, memory_level_);
  if (frames_) bpf::ask_for_frames(fd);
  if (program_ != nullptr) SMC_TRY(program_->request(fd));
  return {};
}

void SocketNetwork::peer_listener_listens(int fd) const {
  if (frames_) bpf::stop_asking_for_frames(fd);
}

Result<void> SocketNetwork::announce_frames(std::uint16_t port, bool announce) const {
  if (program_ == nullptr) return bpf::announce_frames(port, announce, {});
  return bpf::announce_frames(port, announce, [this](int fd) { return program_->request(fd); });
}

void SocketNetwork::bound_peer_listener(int fd) const {
  if (!event::leave_memory_to_kernel(fd)) return;
  if (memory_level_ < kApplicationLevel) return SocketMemory::prepare(fd, memory_level_);
  event::bound_window(fd, event::kWindowBytesMax);
  event::bound_segments(fd, 0);
}

void SocketNetwork::prepare_application_listener(int fd) const {
  // Accepted sockets inherit all of these options.
  SocketMemory::prepare(fd, memory_level_);
  // conntrack forgets the redirect of a half-closed connection after 60 s of silence, and of others
  // after days (nf_conntrack_tcp_timeout_close_wait, _established). Then the sidecar's packets are
  // not translated any more, and the application never learns what became of the connection.
  event::keep_alive(fd, kRedirectKeepAlive);
}

bool SocketNetwork::answer_application(event::Stream& app) {
  if (!bpf::is_held(app.descriptor())) return true;
  app.set_not_writable();  // so that there is an event when the handshake ends
  bpf::answer_held(app.descriptor());
  return false;
}

bool SocketNetwork::application_connected(event::Stream& app) {
  return bpf::handshake_over(app.descriptor());
}

void SocketNetwork::refuse_application(event::Stream& app, int error) {
  bpf::refuse_held(app.descriptor(), error);
}

}  // namespace fairlead::relay
