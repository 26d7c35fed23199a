// Counts channel records that devices have not read. Their bells are Unix sockets, and the kernel
// lets the sender wait for its garbage collector when about 2,000 sockets are in flight. So only a
// limited number is in flight, and the others wait at the broker. No clock; one thread.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/linux/handle.h"

namespace fairlead::cni::node {

// A channel record has two sockets, so the kernel's limit is 1,012 records.
inline constexpr std::size_t kUnreadPerPodMax = 8;
// When this many records are unread on the node, a pod gets one only if it has none unread.
inline constexpr std::size_t kUnreadPerNodeMax = 384;

// True if the other end of this socket has read everything, or is closed in all processes.
bool has_read_all(int socket);

class BrokerUnread {
 public:
  // `read_all`: has_read_all(), or a substitute of a test.
  explicit BrokerUnread(std::function<bool(int)> read_all = has_read_all)
      : read_all_(std::move(read_all)) {}

  // Checks the sockets first if a limit is reached.
  bool may_send(const std::string& pod);
  void sent(const std::string& pod, int socket);
  // Checks whether the devices of the pod have read.
  void look(const std::string& pod);
  bool has_unread(const std::string& pod, int socket) const;

  // The connection ends. A device that keeps its end open still holds the sockets of unread
  // records. This object then keeps the broker's end, shut down, until the device has read or
  // closed.
  void end(const std::string& pod, FileDescriptor socket);
  // The pod has ended, and its processes with it.
  void forget(const std::string& pod);

  std::size_t unread() const { return unread_; }

 private:
  struct Pod {
    std::size_t unread = 0;
    std::map<int, std::size_t> sockets;  // channel records since the device had read all
    std::map<int, FileDescriptor> ended;
  };
  void look(Pod& pod);
  void look_at_all();

  std::function<bool(int)> read_all_;
  std::map<std::string, Pod> pods_;  // pods that have unread records, as far as known
  std::size_t unread_ = 0;
};

}  // namespace fairlead::cni::node
