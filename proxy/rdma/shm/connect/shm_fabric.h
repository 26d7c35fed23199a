// A shared-memory fabric with a directory: the processes that see the directory can reach each
// other. With the node's broker there is no directory (shm_broker_connector.h). This file knows the
// layout of the directory (docs/shm.md): its identity, the socket of each device, and GIDs.
#pragma once

#include <optional>
#include <string>

#include "base/ids.h"
#include "base/linux/descriptor_closer.h"
#include "base/linux/handle.h"
#include "base/linux/unix_listener.h"
#include "base/result.h"

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

class Fabric {
 public:
  // Makes directory and identity where missing, removes the sockets of devices that died, and
  // listens as `self`. Errors: kUnsupported for a path too long for a socket, kWrongState when a
  // living device already listens as `self`, kMalformed for a damaged identity, those of the file
  // system.
  static Result<Fabric> open(const std::string& directory, PeerId self);
  Fabric(Fabric&&) noexcept = default;
  Fabric& operator=(Fabric&&) = delete;
  ~Fabric();  // removes the own socket

  FabricId id() const { return id_; }
  UnixListener& listener() { return listener_; }
  const UnixListener& listener() const { return listener_; }

  // A connected, non-blocking socket to that device. Errors: kPeerGone when nobody listens,
  // kPermission for a process of another user, kExhausted when its backlog or our descriptors are.
  // `closer` closes the socket of such a process.
  Result<FileDescriptor> dial(PeerId peer, DescriptorCloser& closer);
  // True when a socket of that name is there; its owner may be dead nevertheless.
  bool may_reach(PeerId peer) const;

  // As UnixListener::accept(). kPermission when it was a connection of another user, which `closer`
  // has closed.
  Result<FileDescriptor> accept(DescriptorCloser& closer);

 private:
  Fabric(std::string directory, FabricId id) : directory_(std::move(directory)), id_(id) {}
  std::string socket_path(PeerId peer) const;
  Result<void> listen_as(PeerId self);

  std::string directory_;
  FabricId id_;
  std::string own_path_;  // of listener_, which says whether there is something to remove
  UnixListener listener_;
};

}  // namespace fairlead::rdma::shm
