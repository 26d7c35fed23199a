// Destinations that a node reaches through encryption below TCP: IPsec, or WireGuard of its CNI
// plugin. RDMA would carry the bytes past it. The node side finds them, and the note at interface
// lo hands them to the sidecar (base/hand_over.h).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"

namespace fairlead {

struct EncryptedPaths {
  bool all = false;  // every destination
  std::vector<Cidr> blocks;
  bool none() const { return !all && blocks.empty(); }
  bool contains(const SocketAddress& destination) const;
  friend bool operator==(const EncryptedPaths&, const EncryptedPaths&) = default;
};

// The same set with the fewest blocks, in order of family and address.
EncryptedPaths simplified(EncryptedPaths paths);

// "all", or blocks separated by commas: at most `bytes_max` characters, which are at least three.
// Where the blocks have no room, neighbours become one larger block. The result covers at least
// `paths`, and never less. "" for none.
std::string to_text(const EncryptedPaths& paths, std::size_t bytes_max);

// Nothing for a text that to_text() does not write.
std::optional<EncryptedPaths> parse_encrypted_paths(std::string_view text);

}  // namespace fairlead
