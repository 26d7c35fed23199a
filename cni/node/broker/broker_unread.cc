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

BrokerUnread::Records::~Records() {
  node_.pods_.erase(this);
  node_.unread_ -= unread_;
}

bool BrokerUnread::Records::allowed() const {
  return unread_ == 0 || (unread_ < kUnreadPerPodMax && node_.unread_ < kUnreadPerNodeMax);
}

bool BrokerUnread::Records::may_send() {
  if (allowed()) return true;
  look();
  if (allowed()) return true;
  if (unread_ >= kUnreadPerPodMax) return false;
  const std::set<Records*> pods = node_.pods_;  // look() removes some of them
  for (Records* pod : pods) pod->look();
  return allowed();
}

void BrokerUnread::Records::sent(int socket) {
  node_.pods_.insert(this);
  ++sockets_[socket];
  ++unread_;
  ++node_.unread_;
}

void BrokerUnread::Records::look() {
  std::erase_if(sockets_, [&](const auto& socket) {
    if (!node_.read_all_(socket.first)) return false;
    unread_ -= socket.second;
    node_.unread_ -= socket.second;
    ended_.erase(socket.first);
    return true;
  });
  if (unread_ == 0) node_.pods_.erase(this);
}

void BrokerUnread::Records::end(FileDescriptor socket) {
  look();
  if (!has_unread(socket.get())) return;
  (void)::shutdown(socket.get(), SHUT_RDWR);
  const int number = socket.get();
  ended_.emplace(number, std::move(socket));
}

}  // namespace fairlead::cni::node
