#include "cni/node/nri/nri_plugin.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/linux/peer_credentials.h"
#include "base/linux/unix_socket.h"
#include "base/log.h"

namespace fairlead::cni::node::nri {
namespace {

constexpr const char* kLogger = "nri";
constexpr std::size_t kReadBytes = 64 << 10;

Result<FileDescriptor> connect_to(const std::string& path) {
  const auto address = UnixAddress::of_path(path);
  if (!address) return Error{Errc::kUnsupported, "path of the NRI socket"};
  return connect_unix_socket(*address, SOCK_STREAM, "connect to the NRI socket");
}

// 0 if the process is in a PID namespace that is not visible to this process.
pid_t peer_process(int socket) {
  const auto peer = peer_credentials(socket);
  return peer ? peer->pid : 0;
}

// Sends as much as the socket accepts now.
Result<void> flush(int socket, std::string& output) {
  while (!output.empty()) {
    const ssize_t sent = ::send(socket, output.data(), output.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (sent < 0) return system_error("send to the runtime", errno);
    output.erase(0, static_cast<std::size_t>(sent));
  }
  if (output.size() > kUnsentBytesMax)
    return Error{Errc::kExhausted, "answers the runtime does not read"};
  return {};
}

Result<void> receive(int socket, PluginSession& session) {
  std::array<std::byte, kReadBytes> buffer;
  const ssize_t count = ::recv(socket, buffer.data(), buffer.size(), 0);
  if (count == 0) return Error{Errc::kPeerGone, "the runtime closed the connection"};
  if (count < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK)) return {};
  if (count < 0) return system_error("receive from the runtime", errno);
  return session.handle_bytes({buffer.data(), static_cast<std::size_t>(count)});
}

}  // namespace

Result<std::unique_ptr<NriPlugin>> NriPlugin::start(std::string socket_path,
                                                    ContainerHandler& handler) {
  std::unique_ptr<NriPlugin> plugin(new NriPlugin(std::move(socket_path), handler));
  SMC_TRY(plugin->thread_.start([raw = plugin.get()] { raw->run(); }));
  return plugin;
}

void NriPlugin::run() {
  do {
    const auto socket = connect_to(socket_path_);
    if (!socket)
      report(socket.error());
    else if (!serve(*socket))
      return;
    // After a working connection, the first new attempt follows soon.
    if (counts_.connected.exchange(false)) pause_ = kReconnectPauseMin;
    if (!thread_.wait_until(std::chrono::steady_clock::now() + pause_)) return;
    pause_ = std::min(pause_ * 2, kReconnectPauseMax);
  } while (true);
}

bool NriPlugin::serve(const FileDescriptor& socket) {
  handler_->connected(peer_process(socket.get()));
  PluginSession session(*handler_);
  const TimePoint give_up_at = std::chrono::steady_clock::now() + kRegistrationTimeout;
  Result<void> good = flush(socket.get(), session.output());
  while (good) {
    const bool registered = session.state() == PluginSession::State::kRegistered;
    if (registered && !counts_.connected.exchange(true)) {
      ++counts_.registrations;
      reported_.clear();
      LogEvent(LogLevel::kInfo, kLogger, "registered").field("runtime", session.runtime());
    }
    const short events = session.output().empty() ? POLLIN : POLLIN | POLLOUT;
    pollfd waiting{socket.get(), events, 0};
    if (!thread_.wait({&waiting, 1}, registered ? TimePoint::max() : give_up_at)) return false;
    if (!registered && std::chrono::steady_clock::now() > give_up_at)
      good = Error{Errc::kTimedOut, "registration at the runtime"};
    else if ((waiting.revents & (POLLIN | POLLHUP | POLLERR)) != 0)
      good = receive(socket.get(), session);
    if (good) good = flush(socket.get(), session.output());
  }
  ++counts_.errors;
  if (!good) report(good.error());
  return true;
}

void NriPlugin::report(const Error& error) {
  const std::string trouble = to_string(error);
  if (std::exchange(reported_, trouble) == trouble) return;
  LogEvent(LogLevel::kWarn, kLogger, "not_connected")
      .field("socket", socket_path_)
      .field("what", trouble)
      .field("hint",
             "sidecars start without RNICs; containerd before 2.0 and CRI-O before 1.30 need NRI "
             "enabled in their configuration");
}

}  // namespace fairlead::cni::node::nri
