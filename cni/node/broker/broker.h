// The node's broker. It lets sidecars that share no directory reach each other's shared-memory
// device. It connects to the devices of each pod, creates the channels and buffers that they
// request, and passes the descriptors. It receives no descriptor and no data of connections.
// Existing connections continue without it (docs/broker.md).
//
// Threads: run() on a separate thread, which enters and leaves network namespaces and gets its own
// real user id. stop() and counts() from any.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

#include "base/linux/event_descriptor.h"
#include "base/linux/handle.h"
#include "base/paced_lines.h"
#include "cni/node/broker/broker_book.h"
#include "cni/node/broker/broker_closer.h"
#include "cni/node/broker/broker_member.h"
#include "cni/node/broker/broker_requests.h"
#include "cni/node/broker/broker_shares.h"
#include "cni/node/broker/broker_unread.h"
#include "cni/node/pods/pod_watch.h"

namespace fairlead::cni::node {

// Interval of checks for pods that ended without a DEL, and for pods that could not be entered.
inline constexpr std::chrono::seconds kLookInterval{10};
inline constexpr std::chrono::seconds kRetryInterval{1};
// Intervals of checks for devices in a pod: without a device, with a new device, and others.
inline constexpr std::chrono::milliseconds kProbeNoDevice{100};
inline constexpr std::chrono::milliseconds kProbeNewDevice{20};
inline constexpr std::chrono::milliseconds kProbeSettled{1000};
inline constexpr std::chrono::seconds kNewDeviceTime{1};
inline constexpr unsigned kProbeGapMax = 2;  // consecutive indices without a listener

// Limit of log lines of one kind that pods can cause, in kBrokerLineInterval.
inline constexpr unsigned kBrokerLines = 10;
inline constexpr Duration kBrokerLineInterval = std::chrono::seconds(10);
inline constexpr int kRequestsPerTurn = 64;  // per device, so that others have their turn

struct BrokerSettings {
  std::string run_dir;
  std::uint32_t sidecar_uid = 0;  // listeners of other users are ignored
  std::string socket_name = broker::kSocketName;
  std::string cgroup_root = "/sys/fs/cgroup";
};

class Broker final : public BrokerDevices {
 public:
  using Counts = BrokerCounts;

  // Errors: kState.
  static Outcome<std::unique_ptr<Broker>> create(BrokerSettings settings);
  ~Broker();

  // Runs until stop(). When the process ends, its sockets are closed and devices notice.
  void run();
  void stop();
  const Counts& counts() const { return counts_; }

 private:
  struct Pod {
    WatchedPod pod;
    FileDescriptor probe;  // none if the pod cannot be entered
    std::string trouble;   // why the pod could not be entered
    TimePoint next_probe{};
    TimePoint new_device_until{};
    std::set<unsigned> connected;              // indices of devices
    std::map<unsigned, TimePoint> not_before;  // indices that were refused
    std::set<unsigned> strangers;              // indices at which another user listens
    std::optional<TimePoint> paused_until;
    std::size_t buffers = 0;
    bool records_wait = false;  // until the pod's devices have read others
  };

  Broker(BrokerSettings settings, PodWatch watch, FileDescriptor epoll, EventDescriptor stop_event);
  void take_own_user();
  void look();
  bool enter(const std::string& name, Pod& pod);
  void leave(const std::string& name);
  int milliseconds_to_wait(TimePoint now) const;

  void probe_due(TimePoint now);
  void probe(const std::string& name, Pod& pod, TimePoint now);
  // False if there is no listener.
  bool probe_index(const std::string& name, Pod& pod, unsigned index, TimePoint now);
  void take_in(const std::string& name, Pod& pod, unsigned index, TimePoint now);

  void handle(int fd, std::uint32_t events, TimePoint now);
  void serve(Member member, TimePoint now);
  BrokerMember* find(Member member) override;
  std::size_t& buffers_of(const std::string& pod) override { return pods_.at(pod).buffers; }
  bool send(Member member, const broker::Message& message, std::span<const int> fds) override;
  bool drop(Member member) override;
  bool drop_hostile(Member member, const char* what) override;
  void avoid(const std::string& pod, unsigned index) override;

  // False if the pod has used up its requests; the broker does not serve it for a while.
  bool may_ask(const std::string& pod, TimePoint now);
  void pause(const std::string& pod, TimePoint until);
  void resume_paused(TimePoint now);
  bool watch(int fd, std::uint32_t events);
  void rewatch(Member member);
  // True if records wait because this device, or its pod, has not read others.
  bool wants_room(Member member) const;
  void watch_for_room(const std::string& pod);
  // Sends waiting records to devices of the pod, as far as possible.
  void release(const std::string& of);
  void unwatch(int fd);
  void charge_for_closing();
  void remember() override;
  void warn(std::string_view event, const std::string& pod, std::string_view what) override;

  BrokerSettings settings_;
  PodWatch watch_;
  FileDescriptor epoll_;
  EventDescriptor stop_event_;
  std::uint64_t instance_ = 0;  // of this process; the connections use the lower half
  std::uint32_t connections_made_ = 0;
  BrokerBook book_;
  BrokerShares shares_;
  BrokerCloser closer_;
  BrokerUnread unread_;
  PacedLines lines_{kBrokerLines, kBrokerLineInterval};
  struct Record {
    std::uint64_t changes = 0;  // book_.changes() at the last write to the file
    std::string trouble;        // why the last write failed
  };
  Record remembered_;
  std::map<std::string, Pod> pods_;
  std::unordered_map<int, std::unique_ptr<BrokerMember>> members_;  // by descriptor
  std::set<Member> unfinished_;  // have more requests than one turn handles
  TimePoint next_look_{};
  Counts counts_;
  BrokerRequests requests_{*this, book_, shares_, closer_, counts_};
};

}  // namespace fairlead::cni::node
