// What it costs to speak with the devices of a pod, beyond the requests themselves.
#pragma once

#include <chrono>
#include <string>
#include <utility>

#include "base/cpu_time.h"
#include "base/time.h"
#include "cni/node/broker_book.h"

namespace fairlead::cni::node {

inline void charge_time(BrokerBook& book, const std::string& pod, Duration used) {
  const double requests =
      std::chrono::duration<double>(used) / std::chrono::duration<double>(kTimePerRequest);
  if (requests > 1 && book.knows_pod(pod)) book.charge(pod, requests - 1);
}

// The socket of a device has a wait queue that the pod controls: it may add its end to very many
// epoll instances, and each of our system calls walks them all. The pod pays for the time.
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
