// Which address the kernel gives connections to a destination that bind none. A connection whose
// application has that address need not bind it.
#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "base/address.h"
#include "base/time.h"

namespace fairlead::relay {

// Destinations that are remembered; of two that share a place, the later one is.
inline constexpr std::size_t kSourcesKept = 64;
// Routes and addresses change: so long is an answer of the kernel good.
inline constexpr Duration kSourceAgeMax = std::chrono::seconds(1);

class SourceAddresses {
 public:
  // True if a connection to `to` has the source address `client` without binding it. Asks the
  // kernel for destinations that were asked about within kSourceAgeMax before, which costs four
  // system calls; of another one, the answer is false.
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

// What the kernel says now, without a packet. Nothing where no route leads there.
std::optional<SocketAddress> default_source(const SocketAddress& to);

}  // namespace fairlead::relay
