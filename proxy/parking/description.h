// Converts parked connections between the values that the proxy uses and the bytes that a keeper
// holds. The bytes are not trusted: decode() returns an error, or connections that a worker can
// take back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/result.h"
#include "base/time.h"
#include "event/tcp_stream.h"
#include "relay/connection/parked_connection.h"

namespace fairlead::parking {

// The version that this proxy writes. It also reads older ones, in which frames have no windows.
inline constexpr std::uint32_t kDescriptionVersion = 2;
inline constexpr std::size_t kDescriptionBytesMax = std::size_t{256} * 1024 * 1024;
inline constexpr std::size_t kParkedListenersMax = 4096;

struct Parked {
  std::vector<relay::ParkedListener> listeners;
  std::vector<relay::ParkedSockets> connections;
  std::string proxy_version;
  TimePoint parked_at{};
  std::uint64_t ended = 0;       // connections that could not be parked or taken back
  std::optional<Error> refused;  // decode(): why the first of the latter was refused
};

// Limit for one connection or listener, without its waiting bytes.
inline constexpr std::size_t kDescribedBytesMax = 1024;

// Drops the connections with the most waiting bytes, so that the description of the others takes at
// most `bytes_max`. Returns how many were dropped; they are reset.
std::size_t drop_largest(Parked& parked, std::uint64_t bytes_max);

struct EncodedDescription {
  std::vector<std::byte> bytes;
  std::vector<FileDescriptor> descriptors;  // in the order of the bytes
  std::vector<unsigned> workers;            // per connection, in the order of the bytes
  std::uint64_t ended = 0;                  // as in Parked
};
EncodedDescription encode(Parked parked);

// `descriptors` came with the bytes, in their order. A connection whose description is inconsistent
// is left out, and its sockets are closed. Errors: kMalformed, and kUnsupported for another
// version.
Result<Parked> decode(std::span<const std::byte> bytes, std::vector<FileDescriptor> descriptors);

}  // namespace fairlead::parking
