// The sockets of a fabric as a test sees them, without a device.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <string>

#include "base/linux/unix_address.h"
#include "conformance/shm_device_pair.h"

namespace fairlead::rdma::shm {

inline std::string socket_name(PeerId peer) { return to_string(peer) + ".sock"; }

inline void connect_to(int socket, const std::string& path) {
  const auto address = UnixAddress::of_path(path);
  ASSERT_TRUE(address);
  ASSERT_EQ(::connect(socket, address->data(), address->size()), 0);
}

}  // namespace fairlead::rdma::shm
