#include "rdma/shm/memory/shm_discards.h"

#include <memory>
#include <utility>

#include "rdma/shm/shm_limits.h"

namespace fairlead::rdma::shm {
namespace {

class Discard final : public Task {
 public:
  Discard(Mapping memory, const broker::BufferId& freed)
      : buffer(freed), memory_(std::move(memory)) {}
  bool run() noexcept override {
    memory_.discard();
    memory_ = Mapping();
    return true;
  }
  const broker::BufferId buffer;

 private:
  Mapping memory_;
};

const broker::BufferId& buffer_of(const std::unique_ptr<Task>& task) {
  return static_cast<const Discard&>(*task).buffer;
}

}  // namespace

Discards::Discards() : thread_(kDiscardsWaitingMax) {}

void Discards::add(Mapping memory, const broker::BufferId& buffer) {
  std::unique_ptr<Task> task = std::make_unique<Discard>(std::move(memory), buffer);
  thread_.post(task);
  if (task) done_.push_back(buffer);
  ++count_;
}

std::vector<broker::BufferId> Discards::take_done(TimePoint now) {
  std::vector<broker::BufferId> done = std::exchange(done_, {});
  for (const auto& task : thread_.take_done()) done.push_back(buffer_of(task));
  if (thread_.running_for(now) > kDiscardWaitMax)
    for (const auto& task : thread_.take_waiting()) done.push_back(buffer_of(task));
  count_ -= done.size();
  return done;
}

}  // namespace fairlead::rdma::shm
