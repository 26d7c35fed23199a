#include "bpf/client_address_probe.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>

#include "bpf/self_connection.h"

namespace fairlead::bpf {
namespace {

// 192.0.2.1 is for documentation (RFC 5737): no connection has it.
constexpr std::uint32_t kProbeClient = 0xc0000201;

Result<bool> works_over(const SocketAddress& loopback, ClientAddressMap& map, TimePoint until) {
  fairlead_client_entry& entry = map.entry(FAIRLEAD_CLIENT_PROBE_SLOT);
  ClientAddressClaim claim;
  claim.generation = (generation_of(entry) + 1) % FAIRLEAD_CLIENT_GENERATIONS;
  in_addr client{};
  client.s_addr = htonl(kProbeClient);
  claim.client = SocketAddress(client, static_cast<std::uint16_t>(1 + claim.generation));
  SelfConnectionSteps steps;
  steps.before_connect = [&](int socket, const SocketAddress& listener) -> Result<void> {
    claim.application_port = listener.port();
    publish(entry, claim);
    in_addr source{};
    source.s_addr = htonl(FAIRLEAD_CLIENT_BLOCK | claim.generation << FAIRLEAD_CLIENT_SLOT_BITS |
                          FAIRLEAD_CLIENT_PROBE_SLOT);
    return bind_source(socket, {source, 0});
  };
  const SelfConnection self = SMC_TRY(connect_to_self(loopback, until, steps));
  return self.accepted_peer.unmapped() == claim.client;
}

}  // namespace

Result<bool> client_address_works(ClientAddressMap& map, Duration deadline) {
  const TimePoint until =
      std::chrono::time_point_cast<Duration>(std::chrono::steady_clock::now()) + deadline;
  in_addr v4{};
  v4.s_addr = htonl(INADDR_LOOPBACK);
  if (!SMC_TRY(works_over(SocketAddress(v4, 0), map, until))) return false;
  in6_addr mapped{};
  mapped.s6_addr[10] = mapped.s6_addr[11] = 0xff;
  mapped.s6_addr[12] = 127;
  mapped.s6_addr[15] = 1;
  const Result<bool> over_ipv6 = works_over(SocketAddress(mapped, 0), map, until);
  if (!over_ipv6 && over_ipv6.error().code != Errc::kTimedOut) return true;
  return over_ipv6;
}

Result<void> bind_source(int socket, const SocketAddress& source) {
  const int on = 1;
  if (source.port() == 0 &&
      ::setsockopt(socket, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on) != 0)
    return system_error("IP_BIND_ADDRESS_NO_PORT", errno);
  if (::bind(socket, source.data(), source.size()) != 0) return system_error("bind", errno);
  return {};
}

}  // namespace fairlead::bpf
