// A thread for system calls that other processes can make long, or block: closing a file that they
// have filled, giving back its pages. The thread that posts never waits for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "base/time.h"

namespace fairlead {

// One piece of work. It refers to nothing that the posting thread may destroy.
class Task {
 public:
  virtual ~Task() = default;
  // On the task thread. True: take_done() returns *this; else it is destroyed there.
  virtual bool run() noexcept = 0;
};

// Threads: all calls on one thread, that of the owner.
class TaskThread {
 public:
  using Tasks = std::vector<std::unique_ptr<Task>>;

  // `tasks_max`: posted and not taken back, at the same time. The thread starts with the first.
  explicit TaskThread(std::size_t tasks_max);
  // Waits for the tasks for kExitWait at most. After that the thread ends on its own, as soon as
  // the call that it is in returns.
  ~TaskThread();
  TaskThread(const TaskThread&) = delete;
  TaskThread& operator=(const TaskThread&) = delete;

  // Takes the task and leaves nullptr. Leaves the task at the limit, or when no thread can be
  // started. Returns the number of the task, for call_off().
  std::uint64_t post(std::unique_ptr<Task>& task);
  enum class CallOff : std::uint8_t {
    kDone,     // it had not begun, and does not run any more; it is destroyed on the thread
    kRunning,  // it runs now
    kTooLate,  // it has run
  };
  CallOff call_off(std::uint64_t number);
  // The tasks that have run and wanted to be returned.
  Tasks take_done();
  // The tasks that have not begun; they do not run.
  Tasks take_waiting();
  // How long the task that runs now has been running; zero when none runs.
  Duration running_for(TimePoint now) const;

  static constexpr std::chrono::seconds kExitWait{1};

 private:
  struct Shared;
  // True: the caller owns `shared` now.
  static bool work(Shared& shared);

  std::size_t tasks_max_;
  std::unique_ptr<Shared> shared_;  // goes to the thread when that outlives *this
  std::thread thread_;
};

}  // namespace fairlead
