#include "cni/node/broker/pod_probe.h"

#include <algorithm>
#include <utility>

namespace fairlead::cni::node {

void PodProbe::entered(FileDescriptor socket) {
  socket_ = std::move(socket);
  trouble_.clear();
}

bool PodProbe::not_entered(const std::string& reason) {
  return std::exchange(trouble_, reason) != reason;
}

void PodProbe::done(TimePoint now) {
  next_ = now + (connected_.empty()        ? kProbeNoDevice
                 : now < new_device_until_ ? kProbeNewDevice
                                           : kProbeSettled);
}

bool PodProbe::skips(unsigned index, TimePoint now) const {
  if (connected_.contains(index)) return true;
  const auto refused = not_before_.find(index);
  return refused != not_before_.end() && now < refused->second;
}

void PodProbe::connected(unsigned index, TimePoint now) {
  connected_.insert(index);
  new_device_until_ = now + kNewDeviceTime;
}

void PodProbe::disconnected(unsigned index, TimePoint now) {
  connected_.erase(index);
  not_before_[index] = now;
  next_ = std::min(next_, now + kProbeNoDevice);
}

bool PodProbe::stranger_listens(unsigned index) {
  socket_.reset();
  return strangers_.insert(index).second;
}

}  // namespace fairlead::cni::node
