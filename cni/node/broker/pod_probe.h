// When the broker checks a pod for new devices, and at which indices of their socket names. No
// clock.
#pragma once

#include <chrono>
#include <map>
#include <set>
#include <string>

#include "base/linux/handle.h"
#include "base/time.h"

namespace fairlead::cni::node {

// Intervals of checks for devices in a pod: without a device, with a new device, and others.
inline constexpr std::chrono::milliseconds kProbeNoDevice{100};
inline constexpr std::chrono::milliseconds kProbeNewDevice{20};
inline constexpr std::chrono::milliseconds kProbeSettled{1000};
inline constexpr std::chrono::seconds kNewDeviceTime{1};
inline constexpr std::chrono::seconds kAvoidTime{1};  // an index that was refused

class PodProbe {
 public:
  // The socket of the next connection, in the pod's network namespace. It is missing after a
  // connection, and while the pod cannot be entered.
  bool has_socket() const { return static_cast<bool>(socket_); }
  int socket() const { return socket_.get(); }
  FileDescriptor take_socket() { return std::move(socket_); }
  void entered(FileDescriptor socket);
  // False if the reason is the one of the last time.
  bool not_entered(const std::string& reason);

  TimePoint next() const { return next_; }
  // All indices have been checked.
  void done(TimePoint now);

  // True if the device with this index is connected, or was refused a moment ago.
  bool skips(unsigned index, TimePoint now) const;
  void avoid(unsigned index, TimePoint now) { not_before_[index] = now + kAvoidTime; }
  void connected(unsigned index, TimePoint now);
  void disconnected(unsigned index, TimePoint now);
  void nobody_listens(unsigned index) { strangers_.erase(index); }
  // Another user listens at this index; the socket is connected to it, and is closed. False if that
  // was so before.
  bool stranger_listens(unsigned index);

 private:
  FileDescriptor socket_;
  std::string trouble_;  // why the pod could not be entered
  TimePoint next_{};
  TimePoint new_device_until_{};
  std::set<unsigned> connected_;
  std::map<unsigned, TimePoint> not_before_;
  std::set<unsigned> strangers_;
};

}  // namespace fairlead::cni::node
