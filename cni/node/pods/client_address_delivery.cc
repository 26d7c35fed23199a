#include "cni/node/pods/client_address_delivery.h"

#include <cerrno>
#include <utility>

#include "base/client_address_delivery.h"
#include "base/linux/record_socket.h"
#include "bpf/client_address_program.h"
#include "cni/node/pods/sidecar_socket.h"
#include "cni/state/state.h"

namespace fairlead::cni::node {
namespace {

constexpr const char* kLogger = "client_address";

}  // namespace

ClientAddressDelivery::ClientAddressDelivery(AgentPod pod, std::string run_dir,
                                             std::uint32_t sidecar_uid)
    : pod_(std::move(pod)), run_dir_(std::move(run_dir)), sidecar_uid_(sidecar_uid) {}

// Nothing can be read, so the only event is that the sidecar closes its side.
pollfd ClientAddressDelivery::waits_for() const { return {delivered_.get(), 0, 0}; }

TimePoint ClientAddressDelivery::due() const { return delivered_ ? TimePoint::max() : next_look_; }

void ClientAddressDelivery::act(TimePoint now) {
  // If a sidecar closes at once, it is not served again at once.
  if (delivered_) delivered_.reset();
  if (now < next_look_) return;
  next_look_ = now + kDeliveryInterval;
  const auto state = peek_state(run_dir_, pod_.container);
  if (!state || state->client_address_map == 0) return;
  auto connection = deliver(state->client_address_map);
  if (connection) {
    delivered_ = std::move(*connection);
    trouble_.clear();
    lines_.write(LogLevel::kInfo, kLogger, "delivered", now,
                 [&](LogEvent& line) { line.field("pod", pod_.name); });
    return;
  }
  // The sidecar has not started, has the feature switched off, or has attached its own programs.
  if (connection.error().system == ECONNREFUSED) return;
  std::string trouble = to_string(connection.error());
  if (std::exchange(trouble_, trouble) == trouble) return;
  lines_.write(LogLevel::kWarn, kLogger, "not_delivered", now,
               [&](LogEvent& line) { line.field("pod", pod_.name).field("what", trouble); });
}

Result<FileDescriptor> ClientAddressDelivery::deliver(std::uint32_t map_id) const {
  FileDescriptor connection = SMC_TRY(make_socket_in(pod_.place, Hears::kNothing));
  SMC_TRY(connect_to_sidecar(connection.get(), kClientAddressSocket, sidecar_uid_));
  const FileDescriptor map = SMC_TRY(bpf::open_client_address_map(map_id));
  const int descriptor = map.get();
  SMC_TRY(send_record(connection.get(), kClientAddressRecord, {&descriptor, 1}));
  return connection;
}

}  // namespace fairlead::cni::node
