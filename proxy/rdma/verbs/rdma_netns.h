// The mode of the RDMA subsystem towards network namespaces: rdma-system(8).
#pragma once

namespace fairlead::rdma::verbs {

// True in exclusive mode: each RDMA device belongs to one network namespace, and others neither see
// nor open it. False where the kernel does not say. A few system calls, never waits.
bool devices_are_exclusive();

}  // namespace fairlead::rdma::verbs
