// Connects the broker to the devices of a pod, by their names in the abstract socket namespace of
// the pod. Nothing can be sent to the broker over such a connection.
#pragma once

#include <cstdint>
#include <string>

#include "base/handle.h"
#include "base/result.h"
#include "cni/node/pod_watch.h"

namespace fairlead::cni::node {

// A socket of the pod's network namespace that is shut down for reading before it is connected. It
// is usable until a connect_device() succeeds, or fails with kPermission. Errors: kNotFound if the
// pod has ended, kPermission without CAP_SYS_ADMIN, others.
Result<FileDescriptor> make_probe(const WatchedPod& pod);

// Connects to the device of that index if its listener belongs to the user `uid`. Never blocks.
// Errors: kNotFound without a listener, kPermission for a listener of another user, kWouldBlock if
// its backlog is full, others.
Result<void> connect_device(int probe, const std::string& name, unsigned index, std::uint32_t uid);

}  // namespace fairlead::cni::node
