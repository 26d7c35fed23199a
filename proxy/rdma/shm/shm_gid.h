// The GIDs of shared-memory devices.
#pragma once

#include <optional>

#include "base/ids.h"

namespace fairlead::rdma::shm {

struct ParsedShmGid {
  FabricId fabric;
  PortNumber port;
  PeerId peer;
};

// fdfa | fabric (5) | port (1) | peer id (8): a unique local IPv6 address (RFC 4193) that names the
// device alone, so that no lookup is needed to reach it.
Gid gid_of(FabricId fabric, PortNumber port, PeerId peer);
// Nothing for GIDs of another form.
std::optional<ParsedShmGid> parse_gid(const Gid& gid);

}  // namespace fairlead::rdma::shm
