// The node's broker: by it sidecars that share no directory reach each other's shared-memory
// device. In the network namespace of each pod with a sidecar it keeps a door, a listening socket
// in the abstract namespace; a device comes in by it, says its peer id, and asks for others. For
// two of them the broker makes a pair of sockets and passes each its end. It carries none of their
// bytes, and what runs goes on without it (docs/broker.md).
//
// Threads: run() on one of its own, which enters and leaves network namespaces. stop() and counts()
// from any.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/handle.h"
#include "cni/node/broker_book.h"
#include "cni/node/pod_watch.h"

namespace fairlead::cni::node {

// How often it is looked for pods that went without a word, and for doors that could not be opened.
inline constexpr std::chrono::seconds kLookInterval{10};
inline constexpr std::chrono::seconds kRetryInterval{1};

struct BrokerSettings {
  std::string run_dir;
  std::uint32_t sidecar_uid = 0;  // others of a pod are sent away
  std::string socket_name = broker::kSocketName;
};

class Broker {
 public:
  static constexpr std::size_t kRefusals = static_cast<std::size_t>(broker::Refusal::kFailed) + 1;
  struct Counts {
    std::atomic<std::uint64_t> doors{0};         // pods that can reach the broker
    std::atomic<std::uint64_t> doors_failed{0};  // pods in which no door could be opened, now
    std::atomic<std::uint64_t> devices{0};
    std::array<std::atomic<std::uint64_t>, kRefusals> registrations{};  // by Refusal, kNone is good
    std::array<std::atomic<std::uint64_t>, kRefusals> introductions{};
    std::atomic<std::uint64_t> strangers{0};  // of another user, or that speak otherwise
  };

  // Errors: kState.
  static Outcome<std::unique_ptr<Broker>> create(BrokerSettings settings);
  ~Broker();

  // Until stop(). Its sockets are closed when the broker dies, and devices notice.
  void run();
  void stop();
  const Counts& counts() const { return counts_; }

 private:
  struct Door {
    WatchedPod pod;
    FileDescriptor listener;  // none when it could not be opened
    std::string trouble;      // why it could not
    std::optional<TimePoint> paused_until;
  };

  Broker(BrokerSettings settings, PodWatch watch, FileDescriptor epoll, FileDescriptor stop_event);
  void look();
  void open_door(const std::string& pod, Door& door);
  void close_door(const std::string& pod);
  int milliseconds_to_wait(TimePoint now) const;
  void handle(int fd, TimePoint now);
  void accept(const std::string& pod, TimePoint now);
  void read(BrokerBook::Member member);
  void enroll(BrokerBook::Member member, PeerId peer);
  void introduce(BrokerBook::Member member, PeerId peer);
  broker::Refusal pass_ends(BrokerBook::Member member, BrokerBook::Member other);
  void refuse(BrokerBook::Member member, PeerId peer, broker::Refusal refusal);
  void drop(BrokerBook::Member member);
  // False when the pod has asked for too much and is not listened to for a while.
  bool may_ask(const std::string& pod, TimePoint now);
  void pause(const std::string& pod, TimePoint until);
  void resume_paused(TimePoint now);
  bool watch(int fd);
  void unwatch(int fd);
  void remember();

  BrokerSettings settings_;
  PodWatch watch_;
  FileDescriptor epoll_;
  FileDescriptor stop_event_;
  FabricId fabric_;
  BrokerBook book_;
  std::uint64_t remembered_ = 0;  // book_.changes() of what is in the file
  std::string record_trouble_;    // why it could not be written, the last time
  std::map<std::string, Door> doors_;
  std::unordered_map<int, std::string> listeners_;  // pods by the descriptor of their door
  std::unordered_map<int, FileDescriptor> members_;
  TimePoint next_look_{};
  Counts counts_;
};

}  // namespace fairlead::cni::node
