#include "cni/node/broker/broker_unread.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <utility>

#include "broker/message.h"

namespace fairlead::cni::node {

// The kernel counts the management memory of a record too. While it releases the last record, it
// wakes this process when one byte is still counted.
bool has_read_all(int socket) {
  int bytes = 0;
  return ::ioctl(socket, SIOCOUTQ, &bytes) == 0 && bytes < static_cast<int>(broker::kMessageBytes);
}

bool BrokerUnread::may_send(const std::string& pod) {
  const auto allowed = [&] {
    const auto found = pods_.find(pod);
    return found == pods_.end() ||
           (found->second.unread < kUnreadPerPodMax && unread_ < kUnreadPerNodeMax);
  };
  if (allowed()) return true;
  look(pod);
  if (allowed()) return true;
  if (pods_.at(pod).unread >= kUnreadPerPodMax) return false;
  look_at_all();
  return allowed();
}

void BrokerUnread::sent(const std::string& pod, int socket) {
  Pod& own = pods_[pod];
  ++own.sockets[socket];
  ++own.unread;
  ++unread_;
}

void BrokerUnread::look(const std::string& pod) {
  const auto found = pods_.find(pod);
  if (found == pods_.end()) return;
  look(found->second);
  if (found->second.unread == 0) pods_.erase(found);
}

void BrokerUnread::look(Pod& pod) {
  std::erase_if(pod.sockets, [&](const auto& socket) {
    if (!read_all_(socket.first)) return false;
    pod.unread -= socket.second;
    unread_ -= socket.second;
    pod.ended.erase(socket.first);
    return true;
  });
}

void BrokerUnread::look_at_all() {
  for (auto& [name, pod] : pods_) look(pod);
  std::erase_if(pods_, [](const auto& pod) { return pod.second.unread == 0; });
}

bool BrokerUnread::has_unread(const std::string& pod, int socket) const {
  const auto found = pods_.find(pod);
  return found != pods_.end() && found->second.sockets.contains(socket);
}

void BrokerUnread::end(const std::string& pod, FileDescriptor socket) {
  look(pod);
  if (!has_unread(pod, socket.get())) return;
  (void)::shutdown(socket.get(), SHUT_RDWR);
  const int number = socket.get();
  pods_.at(pod).ended.emplace(number, std::move(socket));
}

void BrokerUnread::forget(const std::string& pod) {
  const auto found = pods_.find(pod);
  if (found == pods_.end()) return;
  unread_ -= found->second.unread;
  pods_.erase(found);
}

}  // namespace fairlead::cni::node
