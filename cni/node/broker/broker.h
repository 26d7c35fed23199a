// The node's broker. It lets sidecars that share no directory reach each other's shared-memory
// device. It connects to the devices of each pod, creates the channels and buffers that they
// request, and passes the descriptors. It receives no descriptor and no data of connections.
// Existing connections continue without it (docs/broker.md).
//
// Threads: run() on a separate thread, which enters and leaves network namespaces and gets its own
// real user id. stop() and counts() from any.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "base/linux/event_descriptor.h"
#include "base/linux/handle.h"
#include "cni/node/broker/broker_book.h"
#include "cni/node/broker/broker_devices.h"
#include "cni/node/broker/broker_file.h"
#include "cni/node/broker/broker_requests.h"
#include "cni/node/pods/pod_watch.h"

namespace fairlead::cni::node {

// Interval of checks for pods that ended without a DEL, and for pods that could not be entered.
inline constexpr std::chrono::seconds kLookInterval{10};
inline constexpr std::chrono::seconds kRetryInterval{1};
inline constexpr unsigned kProbeGapMax = 2;  // consecutive indices without a listener
inline constexpr int kRequestsPerTurn = 64;  // of one device, so that others get theirs

struct BrokerSettings {
  std::string run_dir;
  // Listeners of other users are ignored; nothing: any user's is a proxy.
  std::optional<std::uint32_t> sidecar_uid;
  std::string socket_name = broker::kSocketName;
  std::string cgroup_root = "/sys/fs/cgroup";
};

class Broker {
 public:
  using Member = BrokerBook::Member;
  using Counts = BrokerCounts;

  // Errors: kState.
  static Outcome<std::unique_ptr<Broker>> create(BrokerSettings settings, PodWatch pods);
  ~Broker();

  // Runs until stop(). When the process ends, its sockets are closed and devices notice.
  void run();
  void stop();
  const Counts& counts() const { return counts_; }

 private:
  Broker(BrokerSettings settings, PodWatch watch, FileDescriptor epoll, EventDescriptor stop_event);
  void take_own_user();
  void look();
  bool enter(BrokerPod& pod);
  void leave(BrokerPod& pod);
  int milliseconds_to_wait(TimePoint now) const;

  void probe_due(TimePoint now);
  void probe(BrokerPod& pod, TimePoint now);
  // False if there is no listener.
  bool probe_index(BrokerPod& pod, unsigned index, TimePoint now);

  void handle(int fd, std::uint32_t events, TimePoint now);
  void serve(Member member, TimePoint now);

  BrokerSettings settings_;
  PodWatch watch_;
  FileDescriptor epoll_;
  EventDescriptor stop_event_;
  std::uint64_t instance_;  // of this process; each connection has one below it
  std::uint32_t connections_made_ = 0;
  Counts counts_;
  BrokerShares shares_;
  BrokerUnread unread_;
  BrokerBook book_{shares_, unread_};
  BrokerDevices devices_{epoll_.get(), book_, counts_};
  BrokerFile file_{settings_.run_dir};
  BrokerRequests requests_{devices_, book_, file_, counts_};
  std::set<Member> unfinished_;  // have more requests than one turn handles
  TimePoint next_look_{};
};

}  // namespace fairlead::cni::node
