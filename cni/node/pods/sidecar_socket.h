// Connects this process to a sidecar that listens in the abstract socket namespace of its pod.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>

#include "base/linux/handle.h"
#include "base/result.h"
#include "cni/node/pods/pod_watch.h"

namespace fairlead::cni::node {

// kNothing: the socket is shut down for reading before it is connected, so that nothing from the
// pod, and no descriptor, can reach this process.
enum class Hears : std::uint8_t { kNothing, kEverything };

// A socket of the pod's network namespace. It is usable until a connect_to_sidecar() succeeds, or
// fails with kPermission. Errors: kNotFound if the pod has ended, kPermission without
// CAP_SYS_ADMIN, others.
Result<FileDescriptor> make_socket_in(const WatchedPod& pod, Hears hears,
                                      int type = SOCK_SEQPACKET);

// Connects to this name if its listener belongs to the user `uid`, if any. Never blocks. Errors:
// kNotFound (ECONNREFUSED) without a listener, kPermission for a listener of another user,
// kWouldBlock if its backlog is full, others.
Result<void> connect_to_sidecar(int socket, const std::string& name,
                                std::optional<std::uint32_t> uid);

}  // namespace fairlead::cni::node
