// A thread for all that the agent does with one pod. What a pod can make slow, use up or block is
// the thread's own:
//
//   descriptors  a table of its own (close_range(2) with CLOSE_RANGE_UNSHARE): RLIMIT_NOFILE counts
//                for each pod, and what a pod sends takes no number from others
//   close(2)     blocks nobody else. When the thread ends, the kernel closes the table without
//                waiting for sockets that linger
//   user         a real user id of its own, for which the kernel counts what the thread sends and a
//                pod does not read (thread_user.h)
//   time         a rate of processor time, kPodTimePerSecond
//
// See docs/adr/0038-a-thread-for-each-pod.md.
#pragma once

#include <poll.h>

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <thread>

#include "base/linux/handle.h"
#include "base/result.h"
#include "base/time.h"

namespace fairlead::cni::node {

// Rate of processor time that the agent spends for one pod, and what may be spent at once.
inline constexpr double kPodTimePerSecond = 0.05;
inline constexpr Duration kPodTimeAtOnce = std::chrono::milliseconds(400);
// How often a stopped thread that has not ended is woken out of a system call.
inline constexpr std::chrono::milliseconds kPodKickInterval{50};

// The processor time that may be spent. Pure.
class TimeBudget {
 public:
  explicit TimeBudget(TimePoint now) : counted_at_(now) {}
  void spend(Duration used) { left_ -= used; }
  // How long the owner must rest; zero if it may continue.
  Duration rest(TimePoint now);

 private:
  Duration left_ = kPodTimeAtOnce;
  TimePoint counted_at_;
};

class PodThread {
 public:
  // The interface for work on the thread.
  class Here {
   public:
    bool stopped() const;
    // Waits for the descriptors, until a time, or until stop(). Rests first if the thread has used
    // more time than it may. False: the work must end.
    bool wait(std::span<pollfd> descriptors, TimePoint until);

   private:
    friend class PodThread;
    Here(const std::atomic<bool>& stopped, int stop_event);
    void charge();

    const std::atomic<bool>& stopped_;
    int stop_event_;    // in the table of the thread
    Duration charged_;  // processor time of the thread
    TimeBudget budget_;
  };
  using Work = std::function<void(Here&)>;

  // Returns when the thread has its own table. `work` owns what it uses, or uses objects that live
  // as long as the process: a thread that a pod blocks outlives *this. Errors: kExhausted if there
  // is no thread, those of close_range(2).
  static Result<std::unique_ptr<PodThread>> start(Work work);
  // Stops the thread, and detaches it if it has not ended.
  ~PodThread();

  // Asks the thread to end. Does not wait.
  void stop();
  // After stop(): wakes the thread out of a blocking call.
  void kick();
  bool ended() const;

 private:
  struct Shared;
  explicit PodThread(std::unique_ptr<Shared> shared);
  static void run(Shared& shared, const Work& work);

  std::unique_ptr<Shared> shared_;  // passes to the thread if that outlives *this
  std::thread thread_;
};

}  // namespace fairlead::cni::node
