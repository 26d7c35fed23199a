#include "relay/worker/source_addresses.h"

#include <sys/socket.h>

#include "base/linux/handle.h"

namespace fairlead::relay {

std::optional<SocketAddress> default_source(const SocketAddress& to) {
  // A connected datagram socket has a route, and has sent nothing.
  const FileDescriptor socket(::socket(to.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket || ::connect(socket.get(), to.data(), to.size()) != 0) return std::nullopt;
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&storage), &length) != 0)
    return std::nullopt;
  const Result<SocketAddress> address = SocketAddress::from(storage, length);
  if (!address) return std::nullopt;
  return address->with_port(0);
}

bool SourceAddresses::is_default(const SocketAddress& client, const SocketAddress& to,
                                 TimePoint now) {
  const SocketAddress host = to.with_port(0);
  std::optional<Known>& place = known_[std::hash<SocketAddress>{}(host) % kSourcesKept];
  if (!place || place->to != host || now - place->asked >= kSourceAgeMax) {
    place = Known{host, now, {}, std::nullopt};
    return false;
  }
  place->asked = now;
  if (!place->source || now - place->learned >= kSourceAgeMax) {
    place->source = default_source(to);
    place->learned = now;
  }
  return place->source == client.with_port(0);
}

}  // namespace fairlead::relay
