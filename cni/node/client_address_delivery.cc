#include "cni/node/client_address_delivery.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/client_address_delivery.h"
#include "base/record_socket.h"
#include "base/wait.h"
#include "bpf/client_address_program.h"
#include "cni/node/sidecar_socket.h"

namespace fairlead::cni::node {
namespace {

constexpr const char* kLogger = "client_address";

TimePoint now_() { return std::chrono::steady_clock::now(); }

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
  FileDescriptor connection =
      SMC_TRY(make_socket_in({state.netns, state.identity}, Hears::kNothing));
  SMC_TRY(connect_to_sidecar(connection.get(), kClientAddressSocket, sidecar_uid_));
  const FileDescriptor map = SMC_TRY(bpf::open_client_address_map(state.client_address_map));
  const int descriptor = map.get();
  SMC_TRY(send_record(connection.get(), kClientAddressRecord, {&descriptor, 1}));
  return connection;
}

}  // namespace fairlead::cni::node
