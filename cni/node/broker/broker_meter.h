// Measures the cost of system calls on the sockets of a pod's devices, in addition to its requests.
#pragma once

#include <chrono>
#include <string>
#include <utility>

#include "base/linux/cpu_time.h"
#include "base/time.h"
#include "cni/node/broker/broker_book.h"

namespace fairlead::cni::node {

inline void charge_time(BrokerBook& book, const std::string& pod, Duration used) {
  const double requests =
      std::chrono::duration<double>(used) / std::chrono::duration<double>(kTimePerRequest);
  if (requests > 1 && book.knows_pod(pod)) book.charge(pod, requests - 1);
}

// The pod controls the wait queue of a device's socket: it may add its end to very many epoll
// instances, and each system call of the broker walks them all. The time is charged to the pod.
class BrokerMeter {
 public:
  BrokerMeter(BrokerBook& book, std::string pod)
      : book_(book), pod_(std::move(pod)), begun_(thread_cpu_time()) {}
  ~BrokerMeter() { charge_time(book_, pod_, thread_cpu_time() - begun_); }
  BrokerMeter(const BrokerMeter&) = delete;
  BrokerMeter& operator=(const BrokerMeter&) = delete;

 private:
  BrokerBook& book_;
  std::string pod_;
  Duration begun_;
};

}  // namespace fairlead::cni::node
