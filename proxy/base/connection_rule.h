// Connections that configuration names by their peer and the port of the server, as in "what is
// never tried as SMC-R". Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "base/result.h"

namespace fairlead {

inline constexpr std::size_t kRulePortsMax = 64;

// Has a block, or ports, or both.
struct ConnectionRule {
  std::optional<Cidr> cidr;          // the peer's address is in it; absent: every address
  std::vector<std::uint16_t> ports;  // each 1 to 65535, at most kRulePortsMax; empty: every port

  // "10.0.0.0/8", "10.0.0.0/8 port 80 443" or "port 80 443", with one or more blanks between the
  // words. Error: kMalformed.
  static Result<ConnectionRule> parse(std::string_view text);

  // `server_port`: where the client has connected to, before any redirect.
  bool matches(const SocketAddress& peer, std::uint16_t server_port) const;
  // True when some connection matches both.
  bool overlaps(const ConnectionRule& other) const;
  friend bool operator==(const ConnectionRule&, const ConnectionRule&) = default;
};

// The first of `rules` that overlaps `rule`, or nullptr.
const ConnectionRule* first_overlapping(const std::vector<ConnectionRule>& rules,
                                        const ConnectionRule& rule);

// As parse() takes it.
std::string to_string(const ConnectionRule& rule);

}  // namespace fairlead
