// Whether a device and its ports can carry SMC-R, by what they say of themselves. Pure.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/result.h"
#include "rdma/device.h"

namespace fairlead::rdma::verbs {

// kUnsupported, with the obstacle in words, for a transport without queue pairs that a GID and a
// number address: iWARP and usNIC. Transports unknown to the library pass: a trial judges them.
Result<void> judge_transport(ibv_transport_type transport);

// kUnsupported for a device without ports or queue pairs.
Result<void> judge_limits(const ibv_device_attr& limits);

// Otherwise each queue pair gets a receive queue of its own.
bool has_shared_receive_queues(const ibv_device_attr& limits);

// Of the error with which a device refuses a queue pair of type RC on trial. kUnsupported where the
// device lacks the type; any other error stays as it is.
Error judge_trial(const char* call, int error_number) noexcept;

// The place of the key with these lower 15 bits in a port's table, that of a full member before
// that of a limited one.
std::optional<std::uint16_t> partition_index(std::span<const std::uint16_t> table,
                                             std::uint16_t key);

// `table_size`: entries of the port's GID table with an address; `allowed`: those that the
// configuration leaves; `chosen`: one of them can be used.
PortFault judge_port(std::uint8_t link_layer, std::size_t table_size, std::size_t allowed,
                     bool chosen);

}  // namespace fairlead::rdma::verbs
