// Counts channel records that devices have not read. Their bells are Unix sockets, and the kernel
// lets the sender wait for its garbage collector when about 2,000 sockets are in flight. So only a
// limited number is in flight, and the others wait at the broker. No clock; one thread.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "base/linux/handle.h"

namespace fairlead::cni::node {

// A channel record has two sockets, so the kernel's limit is 1,012 records.
inline constexpr std::size_t kUnreadPerPodMax = 8;
// From this number of unread records on the node on, a pod gets one only if it has none unread.
inline constexpr std::size_t kUnreadPerNodeMax = 384;

// True if the other end of this socket has read everything, or is closed in all processes.
bool has_read_all(int socket);

class BrokerUnread {
 public:
  // `read_all`: has_read_all(), or a substitute of a test.
  explicit BrokerUnread(std::function<bool(int)> read_all = has_read_all)
      : read_all_(std::move(read_all)) {}

  std::size_t unread() const { return unread_; }

  // Those of one pod. When the pod ends, its processes have ended too. The node outlives it.
  class Records {
   public:
    explicit Records(BrokerUnread& node) : node_(node) {}
    Records(const Records&) = delete;
    Records& operator=(const Records&) = delete;
    ~Records();

    // Checks the sockets first if a limit is reached.
    bool may_send();
    void sent(int socket);
    bool has_unread(int socket) const { return sockets_.contains(socket); }

    // The connection ends. A device that keeps its end still has the sockets of its unread records.
    // This then keeps the broker's end, shut down, until the device has read or closed.
    void end(FileDescriptor socket);

   private:
    bool allowed() const;
    // Checks whether the devices of the pod have read.
    void look();

    BrokerUnread& node_;
    std::size_t unread_ = 0;
    std::map<int, std::size_t> sockets_;  // channel records sent since the device had read all
    std::map<int, FileDescriptor> ended_;
  };

 private:
  std::function<bool(int)> read_all_;
  std::set<Records*> pods_;  // that have unread records, as far as it is known
  std::size_t unread_ = 0;
};

}  // namespace fairlead::cni::node
