// Keeps the connections of a sidecar while it is replaced: takes what the sidecar parks at its end,
// and gives it to the next one of the same pod. It does not read what it keeps.
// See docs/hand-over.md.
//
// Sidecars are not trusted: each has a limit of descriptors, bytes and seconds, nothing here waits
// for them, and what they send is closed on a thread of its own.
//
// Threads: run() on a separate one, which enters and leaves network namespaces. stop() and counts()
// from any.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "base/descriptor_closer.h"
#include "base/handle.h"
#include "base/paced_lines.h"
#include "base/time.h"
#include "cni/node/pod_watch.h"
#include "cni/plugin_error.h"
#include "parking/keeper_session.h"

namespace fairlead::cni::node {

// Interval of checks for a sidecar without a keeper, and for the next one of a pod whose
// connections are kept.
inline constexpr std::chrono::milliseconds kKeeperLook{500};
inline constexpr std::chrono::milliseconds kKeeperLookWhileKeeping{10};
// How long connections are kept, and how long a sidecar may take to send or to take them.
inline constexpr std::chrono::seconds kKeepTime{60};
inline constexpr std::chrono::seconds kKeeperTransferTime{5};
// A pod that parks again and again does so at this interval.
inline constexpr std::chrono::seconds kKeeperRest{1};
// Of one pod, and of all together.
inline constexpr std::uint32_t kKeptDescriptorsOfPod = 32'768;
inline constexpr std::uint64_t kKeptBytesOfPod = std::uint64_t{64} * 1024 * 1024;
inline constexpr std::uint32_t kKeptDescriptorsOfNode = 262'144;
// Of a living sidecar. The closer takes so many at once without closing on our thread.
inline constexpr std::uint32_t kLivingDescriptorsOfPod = 12'288;
static_assert(kLivingDescriptorsOfPod < DescriptorCloser::kQueueMax);
// Of descriptions that the agent makes when a sidecar has died, and pays for.
inline constexpr std::uint64_t kRemainsBytesOfPod = std::uint64_t{2} * 1024 * 1024;
inline constexpr std::uint64_t kRemainsBytesOfNode = std::uint64_t{16} * 1024 * 1024;
inline constexpr unsigned kKeeperLines = 10;  // log lines of one kind, in kKeeperLineInterval
inline constexpr Duration kKeeperLineInterval = std::chrono::seconds(10);

struct KeeperCounts {
  std::atomic<std::uint64_t> sidecars{0};     // that have a keeper
  std::atomic<std::uint64_t> descriptors{0};  // that are kept
  std::atomic<std::uint64_t> taken{0};        // parcels, ever
  std::atomic<std::uint64_t> given{0};        // to a next sidecar
  std::atomic<std::uint64_t> expired{0};      // for which none came
  std::atomic<std::uint64_t> ended{0};        // whose pod ended
  std::atomic<std::uint64_t> refused{0};      // by the keeper or the next sidecar
  std::atomic<std::uint64_t> died{0};         // sidecars with connections, without parking them
  std::atomic<std::uint64_t> reset{0};        // connections that were not at rest then
};

class ConnectionKeeper {
 public:
  // `sidecar_uid`: listeners of other users are ignored. Errors: kState.
  static Outcome<std::unique_ptr<ConnectionKeeper>> create(const std::string& run_dir,
                                                           std::uint32_t sidecar_uid);
  void run();  // until stop()
  void stop();
  const KeeperCounts& counts() const { return counts_; }

 private:
  struct Pod {
    WatchedPod pod;
    std::unique_ptr<parking::KeeperSession> session;
    std::unique_ptr<parking::Parcel> kept;  // while there is no session
    std::size_t kept_descriptors = 0;       // also while a session gives them
    std::uint32_t living_descriptors = 0;   // of the session
    TimePoint kept_since{};
    TimePoint next_look{};
    TimePoint transfer_until{};  // while the session gives or receives
    TimePoint rests_until{};     // nothing is received from it before
    bool ready = false;          // the session's socket is
  };

  ConnectionKeeper(PodWatch watch, std::uint32_t sidecar_uid, FileDescriptor stop_event);
  void look_at_pods();
  void look_for_sidecar(const std::string& name, Pod& pod, TimePoint now);
  Result<FileDescriptor> connect_to(const Pod& pod) const;
  // It takes longer than it may.
  static bool is_late(const Pod& pod, TimePoint now);
  static bool has_rested(const Pod& pod, TimePoint now);
  std::uint64_t remains_room() const;
  void advance(const std::string& name, Pod& pod, TimePoint now);
  void end_session(Pod& pod, TimePoint now);
  void drop(Pod& pod, std::atomic<std::uint64_t>& count);
  void keep(const std::string& name, Pod& pod, TimePoint now);
  void count_living(Pod& pod);
  void count_kept(Pod& pod, std::size_t kept);
  void keep_remains(const std::string& name, Pod& pod, parking::LivingConnections::Remains remains,
                    TimePoint now);
  std::uint32_t room() const;
  void wait(TimePoint now);
  void note(const char* event, const std::string& pod, const std::string& what, LogLevel level);

  PodWatch watch_;
  std::uint32_t sidecar_uid_;
  FileDescriptor stop_event_;
  DescriptorCloser closer_;
  std::map<std::string, Pod> pods_;  // by container id
  PacedLines lines_{kKeeperLines, kKeeperLineInterval};
  bool stopped_ = false;
  KeeperCounts counts_;
};

}  // namespace fairlead::cni::node
