// Keeps the connections of a pod while its sidecar is replaced: takes what the sidecar parks at its
// end, and gives it to the next one. It does not read what it keeps. See docs/hand-over.md.
//
// A duty on the thread of the pod. It closes what it holds on that thread, which may block there.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "base/linux/descriptor_closer.h"
#include "base/linux/handle.h"
#include "base/paced_lines.h"
#include "base/time.h"
#include "cni/node/agent/agent_pods.h"
#include "cni/node/broker/shared_quota.h"
#include "parking/keeper_session.h"

namespace fairlead::cni::node {

// Interval of checks for a sidecar without a keeper, and for the next one of a pod whose
// connections are kept.
inline constexpr std::chrono::milliseconds kKeeperLook{500};
inline constexpr std::chrono::milliseconds kKeeperLookWhileKeeping{10};
// How long connections are kept, how long a sidecar may take to send or to take them, and how long
// room is reserved for what it has announced.
inline constexpr std::chrono::seconds kKeepTime{60};
inline constexpr std::chrono::seconds kKeeperTransferTime{5};
inline constexpr std::chrono::seconds kKeeperPromiseTime{90};  // hand_over.settle is 60 s at most
// Limits for one pod, unless RLIMIT_NOFILE is lower, and for all pods together.
inline constexpr std::uint32_t kKeptDescriptorsOfPod = 32'768;
inline constexpr std::uint64_t kKeptBytesOfPod = std::uint64_t{64} * 1024 * 1024;
inline constexpr std::uint64_t kKeptDescriptorsOfNode = 1'048'576;
// Descriptors of a pod's thread for other purposes.
inline constexpr std::uint32_t kPodThreadDescriptors = 64;
inline constexpr unsigned kKeeperLines = 10;  // of one kind and pod, in kKeeperLineInterval
inline constexpr Duration kKeeperLineInterval = std::chrono::seconds(10);

struct KeeperCounts {
  std::atomic<std::uint64_t> sidecars{0};     // sidecars that have a keeper
  std::atomic<std::uint64_t> descriptors{0};  // descriptors that are kept
  std::atomic<std::uint64_t> taken{0};        // parcels in total
  std::atomic<std::uint64_t> given{0};        // parcels given to the next sidecar
  std::atomic<std::uint64_t> expired{0};      // parcels for which none came
  std::atomic<std::uint64_t> ended{0};        // parcels whose pod ended
  std::atomic<std::uint64_t> refused{0};      // parcels refused by the keeper or the next sidecar
};

// What the keepers of all pods share. Lives as long as the process, because pod threads may.
struct KeeperNode {
  std::uint32_t sidecar_uid = 0;  // listeners of other users are ignored
  KeeperCounts counts{};
  SharedQuota kept{kKeptDescriptorsOfNode};
};

class ConnectionKeeper final : public PodDuty {
 public:
  ConnectionKeeper(AgentPod pod, const PodThread::Here& here, KeeperNode& node);
  ~ConnectionKeeper() override;

  pollfd waits_for() const override;
  TimePoint due() const override;
  void act(TimePoint now) override;

 private:
  void look_for_sidecar(TimePoint now);
  Result<FileDescriptor> connect() const;
  parking::KeeperTerms terms(int connection);
  bool is_process_of_pod(int pid) const;
  // Handles events of the session until there are none.
  void advance(TimePoint now);
  void handle(parking::KeeperSession::Answered answer);
  void handle(parking::KeeperSession::Received received, TimePoint now);
  void limit_time(TimePoint now);
  void end_session(TimePoint now, const Error& why);
  void keep(std::unique_ptr<parking::Parcel> parcel, TimePoint now);
  void drop(std::atomic<std::uint64_t>& count);
  void count();
  void note(const char* event, const std::string& what, LogLevel level);

  AgentPod pod_;
  KeeperNode& node_;
  DescriptorCloser closer_;
  SharedQuota::Share share_{node_.kept};
  std::unique_ptr<parking::Parcel> kept_;  // only while there is no session
  std::unique_ptr<parking::KeeperSession> session_;
  std::size_t held_ = 0;     // descriptors of the kept parcel, also while the session sends it
  std::size_t counted_ = 0;  // part of node_.counts.descriptors
  parking::KeeperSession::Stage stage_ = parking::KeeperSession::Stage::kIdle;
  TimePoint kept_until_{};
  TimePoint next_look_{};
  TimePoint stage_until_ = TimePoint::max();
  PacedLines lines_{kKeeperLines, kKeeperLineInterval};
};

}  // namespace fairlead::cni::node
