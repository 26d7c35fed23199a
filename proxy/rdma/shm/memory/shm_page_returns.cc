#include "rdma/shm/memory/shm_page_returns.h"

#include <utility>

#include "rdma/shm/memory/shm_segment.h"
#include "rdma/shm/shm_limits.h"

namespace fairlead::rdma::shm {
namespace {

// Has a mapping of its own: the view may go while it runs.
class ReturnTask final : public Task {
 public:
  explicit ReturnTask(Mapping memory) : memory_(std::move(memory)) {}
  bool run() noexcept override {
    memory_.discard();
    return false;
  }

 private:
  Mapping memory_;
};

class ShmPageReturn final : public PageReturn {
 public:
  ShmPageReturn(TaskThread& thread, std::uint64_t task) : thread_(thread), task_(task) {}
  ~ShmPageReturn() override { (void)thread_.call_off(task_); }
  ShmPageReturn(const ShmPageReturn&) = delete;
  ShmPageReturn& operator=(const ShmPageReturn&) = delete;
  State settle() noexcept override {
    switch (thread_.call_off(task_)) {
      case TaskThread::CallOff::kDone:
        return State::kKept;
      case TaskThread::CallOff::kRunning:
        return State::kReturning;
      case TaskThread::CallOff::kTooLate:
        break;
    }
    return State::kReturned;
  }

 private:
  TaskThread& thread_;
  std::uint64_t task_;
};

}  // namespace

PageReturns::PageReturns() : thread_(kPageReturnsMax) {}

std::unique_ptr<PageReturn> PageReturns::add(std::span<std::byte> view) {
  Result<Mapping> memory = Mapping::map_again(view);
  if (!memory) return nullptr;
  std::unique_ptr<Task> task = std::make_unique<ReturnTask>(std::move(*memory));
  const std::uint64_t number = thread_.post(task);
  if (task) return nullptr;
  return std::make_unique<ShmPageReturn>(thread_, number);
}

}  // namespace fairlead::rdma::shm
