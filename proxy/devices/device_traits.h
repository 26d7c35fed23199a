// What devices offer. Programs of tests choose other values, so that one machine shows what other
// RNICs would.
#pragma once

namespace fairlead {

struct DeviceTraits {
  // Shared memory: the peer's memory is written to by the CPU. False: by work requests, as with an
  // RNIC.
  bool shm_addressable = true;
  unsigned shm_ports = 1;  // 1 to 3; a link group can have a link on each
  // RNICs: queue pairs share a receive queue where the device can. False: each has its own.
  bool shared_receive_queues = true;
};

}  // namespace fairlead
