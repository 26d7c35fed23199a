// The broker's listening socket in a pod.
#pragma once

#include <cstdint>
#include <string>

#include "base/handle.h"
#include "base/result.h"
#include "cni/node/pod_watch.h"

namespace fairlead::cni::node {

inline constexpr int kDoorBacklog = 64;
// Room for what the broker has told a device that does not read; some 40 introductions, each of
// which keeps a socket in the kernel, on our account.
inline constexpr int kMemberQueueBytes = 16 * 1024;

// Listens in the pod's network namespace; `name` as in unix_name(). Errors: kNotFound when the pod
// has gone, kPermission without CAP_SYS_ADMIN, those of bind(2).
Result<FileDescriptor> listen_in(const WatchedPod& pod, const std::string& name);

// A connection of the user `uid`. Errors: kWouldBlock when none waits, kPermission when it was one
// of another user, kExhausted and others when it is waiting still.
Result<FileDescriptor> accept_sidecar(int listener, std::uint32_t uid);

}  // namespace fairlead::cni::node
