#include "cni/node/client_address_delivery.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/client_address_delivery.h"
#include "base/record_socket.h"
#include "base/unix_address.h"
#include "base/wait.h"
#include "bpf/client_address_program.h"
#include "cni/netns.h"

namespace fairlead::cni::node {
namespace {

constexpr const char* kLogger = "client_address";

TimePoint now_() { return std::chrono::steady_clock::now(); }

// Sockets belong to the network namespace in which they were created.
Result<FileDescriptor> connect_in(const Netns& netns) {
  const auto address = unix_name(kClientAddressSocket);
  const NetnsVisit visit = SMC_TRY(NetnsVisit::enter(netns));
  FileDescriptor fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return system_error("socket", errno);
  // Before the connection, so that nothing from the pod, including descriptors, can reach this
  // process.
  if (::shutdown(fd.get(), SHUT_RD) != 0) return system_error("shutdown", errno);
  if (::connect(fd.get(), address->get(), address->length_bytes) != 0)
    return system_error("connect to the sidecar", errno);
  return fd;
}

}  // namespace

ClientAddressDelivery::ClientAddressDelivery(std::string run_dir, std::uint32_t sidecar_uid,
                                             FileDescriptor stop_event)
    : run_dir_(std::move(run_dir)), sidecar_uid_(sidecar_uid), stop_event_(std::move(stop_event)) {}

Outcome<std::unique_ptr<ClientAddressDelivery>> ClientAddressDelivery::create(
    std::string run_dir, std::uint32_t sidecar_uid) {
  FileDescriptor stop(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop) return fail(Code::kState, to_string(system_error("eventfd", errno)));
  return std::unique_ptr<ClientAddressDelivery>(
      new ClientAddressDelivery(std::move(run_dir), sidecar_uid, std::move(stop)));
}

void ClientAddressDelivery::stop() {
  const std::uint64_t one = 1;
  (void)!::write(stop_event_.get(), &one, sizeof one);
}

void ClientAddressDelivery::run() {
  for (;;) {
    look();
    pollfd stopped{stop_event_.get(), POLLIN, 0};
    const auto wait = std::chrono::milliseconds(kDeliveryInterval).count();
    if (wait_for_events({&stopped, 1}, static_cast<int>(wait)) > 0) return;
  }
}

// Nothing can be read, so the only event is the end of the sidecar's side.
void ClientAddressDelivery::forget_ended() {
  std::erase_if(delivered_, [](const auto& entry) {
    pollfd ended{entry.second.get(), 0, 0};
    return ::poll(&ended, 1, 0) > 0 && (ended.revents & (POLLHUP | POLLERR)) != 0;
  });
}

void ClientAddressDelivery::look() {
  forget_ended();
  std::map<std::string, std::string> troubles;
  for (const std::string& container : known_containers(run_dir_)) {
    if (delivered_.contains(container) || delivered_.size() >= kDeliveredPodsMax) continue;
    const auto state = peek_state(run_dir_, container);
    if (!state || state->client_address_map == 0) continue;
    auto connection = deliver(*state);
    if (connection) {
      delivered_.emplace(container, std::move(*connection));
      lines_.write(LogLevel::kInfo, kLogger, "delivered", now_(),
                   [&](LogEvent& line) { line.field("pod", state->pod_name); });
      continue;
    }
    // The sidecar has not started, has the feature switched off, or has attached its own programs.
    if (connection.error().system == ECONNREFUSED) continue;
    const std::string trouble = to_string(connection.error());
    const auto before = troubles_.find(container);
    if (before == troubles_.end() || before->second != trouble)
      lines_.write(LogLevel::kWarn, kLogger, "not_delivered", now_(), [&](LogEvent& line) {
        line.field("pod", state->pod_name).field("what", trouble);
      });
    troubles[container] = trouble;
  }
  troubles_ = std::move(troubles);
}

Result<FileDescriptor> ClientAddressDelivery::deliver(const AttachmentState& state) const {
  const Netns netns = SMC_TRY(Netns::open(state.netns));
  if (netns.identity() != state.identity) return Error{Errc::kNotFound, "network namespace"};
  FileDescriptor connection = SMC_TRY(connect_in(netns));
  ucred peer{};
  socklen_t length = sizeof peer;
  if (::getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0)
    return system_error("SO_PEERCRED", errno);
  if (peer.uid != sidecar_uid_)
    return Error{Errc::kPermission, "another user than the sidecar's listens for the map"};
  const FileDescriptor map = SMC_TRY(bpf::open_client_address_map(state.client_address_map));
  const int descriptor = map.get();
  SMC_TRY(send_record(connection.get(), kClientAddressRecord, {&descriptor, 1}));
  return connection;
}

}  // namespace fairlead::cni::node
