// Counters of the node's RNICs in /sys/class/infiniband, and a thread that reads them. A driver may
// query its firmware, and no other thread should wait for that.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/linux/service_thread.h"
#include "base/result.h"

namespace fairlead::cni::node {

inline constexpr std::chrono::seconds kRnicCountersInterval{5};
inline constexpr std::size_t kCountedPortsMax = 64;

// Names of files in ports/N/hw_counters, of all drivers; each driver has some of them.
std::span<const std::string_view> hardware_counter_names();
// Names of files in ports/N/counters.
std::span<const std::string_view> port_counter_names();

struct RnicCounter {
  std::string rnic;
  std::string port;
  std::string_view name;
  bool hardware = false;  // of hw_counters
  std::uint64_t value = 0;
  friend bool operator==(const RnicCounter&, const RnicCounter&) = default;
};

// The counters of the first kCountedPortsMax ports, by name. Skips files that are missing,
// unreadable or without a number. `sysfs` is "/sys" except in tests.
std::vector<RnicCounter> read_rnic_counters(const std::string& sysfs);

// Reads at the start and after each interval. Thread-safe.
class RnicCounterReader {
 public:
  RnicCounterReader(std::string sysfs, std::chrono::milliseconds interval)
      : sysfs_(std::move(sysfs)), interval_(interval) {}
  // Errors: of ServiceThread::start().
  Result<void> start() {
    return thread_.start([this] { run(); });
  }

  std::vector<RnicCounter> latest() const;

 private:
  void run();

  std::string sysfs_;
  std::chrono::milliseconds interval_;
  mutable std::mutex mutex_;
  std::vector<RnicCounter> latest_;
  ServiceThread thread_;
};

}  // namespace fairlead::cni::node
