// Finds the source address that the kernel chooses for connections which bind none. If the
// application has that address, its connection need not bind it.
#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "base/address.h"
#include "base/time.h"

namespace fairlead::relay {

// Number of destinations remembered. If two share a place, the later one replaces the other.
inline constexpr std::size_t kSourcesKept = 64;
// Maximum age of a kernel answer, because routes and addresses change.
inline constexpr Duration kSourceAgeMax = std::chrono::seconds(1);

class SourceAddresses {
 public:
  // True if a connection to `to` has the source address `client` without binding it. Asks the
  // kernel only about destinations that were asked about within the last kSourceAgeMax, because
  // that costs four system calls. For others, returns false.
  bool is_default(const SocketAddress& client, const SocketAddress& to, TimePoint now);

 private:
  struct Known {
    SocketAddress to;  // without port
    TimePoint asked;
    TimePoint learned;
    std::optional<SocketAddress> source;  // without port
  };
  std::array<std::optional<Known>, kSourcesKept> known_;
};

// What the kernel would choose now; sends no packet. Empty if there is no route.
std::optional<SocketAddress> default_source(const SocketAddress& to);

}  // namespace fairlead::relay
