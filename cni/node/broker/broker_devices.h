// The connections of all devices at the node's broker: sends records, and ends connections. A pod
// that has used up its requests is not watched for a while. Thread: the broker's.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>

#include "base/paced_lines.h"
#include "cni/node/broker/broker_book.h"
#include "cni/node/broker/broker_closer.h"
#include "cni/node/broker/broker_member.h"

namespace fairlead::cni::node {

// Limit of log lines of one kind that pods can cause, in kBrokerLineInterval.
inline constexpr unsigned kBrokerLines = 10;
inline constexpr Duration kBrokerLineInterval = std::chrono::seconds(10);

struct BrokerCounts {
  static constexpr std::size_t kRefusals = broker::kRefusals;
  std::atomic<std::uint64_t> pods{0};         // that can be checked for devices
  std::atomic<std::uint64_t> pods_failed{0};  // that cannot be entered at present
  std::atomic<std::uint64_t> devices{0};
  std::array<std::atomic<std::uint64_t>, kRefusals> registrations{};  // by Refusal, kNone is good
  std::array<std::atomic<std::uint64_t>, kRefusals> introductions{};
  std::atomic<std::uint64_t> strangers{0};  // of another user, or with wrong messages
  std::atomic<std::uint64_t> buffers{0};
  std::atomic<std::uint64_t> buffers_refused{0};
  std::atomic<std::uint64_t> records_lost{0};  // for devices that do not read
};

class BrokerDevices {
 public:
  using Member = BrokerBook::Member;

  // `epoll`: its events have the descriptor as data. All outlive it.
  BrokerDevices(int epoll, BrokerBook& book, BrokerCounts& counts)
      : epoll_(epoll), book_(book), counts_(counts) {}

  // Null if it is not connected any more.
  BrokerMember* find(Member member) const;
  // Connects the pod to the device with this index, through the socket of its probe.
  void take_in(BrokerPod& pod, unsigned index, std::uint64_t instance, TimePoint now);
  // False if the device was dropped because it has disconnected. A device that does not read misses
  // records.
  bool send(Member member, const broker::Message& message, std::span<const int> fds = {});
  // Sends waiting records to devices of the pod, as far as possible.
  void release(BrokerPod& pod);
  // Both return false. The device may come again; after a request that no correct sidecar sends,
  // it may come after a while.
  bool drop(Member member);
  bool drop_hostile(Member member, const char* what);

  // False if the pod has used up its requests; the broker does not serve it for a while.
  bool may_ask(BrokerPod& pod, TimePoint now);
  void resume_paused(TimePoint now);

  // Closes them on another thread, and charges the pod for it later.
  void close(const BrokerPod& pod, std::vector<FileDescriptor> descriptors);
  void charge_for_closing();

  // Devices and buffers may have come or gone.
  void count();
  bool watch(int fd, std::uint32_t events);
  // A log line that pods can cause. `event` is a string literal.
  void warn(std::string_view event, const BrokerPod& pod, std::string_view what);
  PacedLines& lines() { return lines_; }

 private:
  void pause(BrokerPod& pod, TimePoint until);
  void unwatch(int fd);
  void rewatch(Member member);
  void watch_for_room(BrokerPod& pod);

  int epoll_;
  BrokerBook& book_;
  BrokerCounts& counts_;
  BrokerCloser closer_;
  PacedLines lines_{kBrokerLines, kBrokerLineInterval};
  std::unordered_map<Member, std::unique_ptr<BrokerMember>> members_;
};

}  // namespace fairlead::cni::node
