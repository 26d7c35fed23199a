// A thread for system calls that other processes can make long, or block: closing a file that they
// have filled, giving back its pages. The thread that posts never waits for them.
#pragma once

#include <cstddef>
#include <memory>
#include <thread>
#include <vector>

#include "base/time.h"

namespace fairlead {

// One piece of work. It refers to nothing that the posting thread may destroy.
class Errand {
 public:
  virtual ~Errand() = default;
  // On the errand thread. True: take_done() returns *this; else it is destroyed there.
  virtual bool run() noexcept = 0;
};

// Threads: all calls on one thread, that of the owner.
class ErrandThread {
 public:
  using Errands = std::vector<std::unique_ptr<Errand>>;

  // `errands_max`: posted and not taken back, at the same time. The thread starts with the first.
  explicit ErrandThread(std::size_t errands_max);
  // Waits for the errands for kExitWait at most. After that the thread ends on its own, as soon as
  // the call that it is in returns.
  ~ErrandThread();
  ErrandThread(const ErrandThread&) = delete;
  ErrandThread& operator=(const ErrandThread&) = delete;

  // Takes the errand and leaves nullptr. Leaves the errand at the limit, or when no thread can be
  // started.
  void post(std::unique_ptr<Errand>& errand);
  // The errands that have run and wanted to be returned.
  Errands take_done();
  // The errands that have not begun; they do not run.
  Errands take_waiting();
  // How long the errand that runs now has been running; zero when none runs.
  Duration running_for(TimePoint now) const;

  static constexpr std::chrono::seconds kExitWait{1};

 private:
  struct Shared;
  // True: the caller owns `shared` now.
  static bool work(Shared& shared);

  std::size_t errands_max_;
  std::unique_ptr<Shared> shared_;  // goes to the thread when that outlives *this
  std::thread thread_;
};

}  // namespace fairlead
