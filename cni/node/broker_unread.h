// Channel records that devices have not read. Their bells are Unix sockets, and the kernel lets the
// sender wait for its garbage collector when about 2,000 sockets are in flight. So only a bounded
// number is on the way, and the others wait at the broker. No clock; one thread.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/handle.h"

namespace fairlead::cni::node {

// A channel record has two sockets: the kernel's bound is 1,012 records.
inline constexpr std::size_t kUnreadPerPodMax = 8;
// When so many are unread on the node, a pod gets one only if it has read all that it had.
inline constexpr std::size_t kUnreadPerNodeMax = 384;

// Whether the other end of this socket has read all, or is closed everywhere.
bool has_read_all(int socket);

class BrokerUnread {
 public:
  // `read_all`: has_read_all(), or that of a test.
  explicit BrokerUnread(std::function<bool(int)> read_all = has_read_all)
      : read_all_(std::move(read_all)) {}

  // Looks at sockets first where a limit is reached.
  bool may_send(const std::string& pod);
  void sent(const std::string& pod, int socket);
  // Looks whether the devices of the pod have read.
  void look(const std::string& pod);
  bool has_unread(const std::string& pod, int socket) const;

  // The connection ends. A device that keeps its end still has the sockets of what it has not read.
  // Then this keeps the broker's end, shut down, until the device has read or closed.
  void end(const std::string& pod, FileDescriptor socket);
  // The pod has ended, and its processes with it.
  void forget(const std::string& pod);

  std::size_t unread() const { return unread_; }

 private:
  struct Pod {
    std::size_t unread = 0;
    std::map<int, std::size_t> sockets;  // channel records sent since the device had read all
    std::map<int, FileDescriptor> ended;
  };
  void look(Pod& pod);
  void look_at_all();

  std::function<bool(int)> read_all_;
  std::map<std::string, Pod> pods_;  // that have unread records, as far as it is known
  std::size_t unread_ = 0;
};

}  // namespace fairlead::cni::node
