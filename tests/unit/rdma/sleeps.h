// Whether a call waits asleep, however busy the machine is.
#pragma once

#include <sys/resource.h>

#include <functional>

namespace fairlead::rdma::shm {

// True when this thread has given up its processor while it acts.
inline bool sleeps(const std::function<void()>& act) {
  rusage before{}, after{};
  (void)::getrusage(RUSAGE_THREAD, &before);
  act();
  (void)::getrusage(RUSAGE_THREAD, &after);
  return after.ru_nvcsw != before.ru_nvcsw;
}

}  // namespace fairlead::rdma::shm
