#include "cni/node/broker_closer.h"

#include <memory>

#include "base/cpu_time.h"

namespace fairlead::cni::node {
namespace {

class Close final : public Task {
 public:
  Close(std::string owner, std::vector<FileDescriptor> descriptors)
      : pod(std::move(owner)), count(descriptors.size()), descriptors_(std::move(descriptors)) {}
  bool run() noexcept override {
    const Duration begun = thread_cpu_time();
    descriptors_.clear();
    spent = thread_cpu_time() - begun;
    return true;
  }
  std::string pod;
  std::size_t count;
  Duration spent{};

 private:
  std::vector<FileDescriptor> descriptors_;
};

}  // namespace

BrokerCloser::BrokerCloser() : thread_(kDescriptorsClosingMax) {}

void BrokerCloser::close(const std::string& pod, std::vector<FileDescriptor> descriptors) {
  const std::size_t count = descriptors.size();
  if (count == 0 || closing_ + count > kDescriptorsClosingMax) return;
  std::unique_ptr<Task> task = std::make_unique<Close>(pod, std::move(descriptors));
  thread_.post(task);
  if (!task) closing_ += count;
}

std::vector<std::pair<std::string, Duration>> BrokerCloser::take_spent() {
  std::vector<std::pair<std::string, Duration>> spent;
  if (closing_ == 0) return spent;
  for (const auto& task : thread_.take_done()) {
    const auto& done = static_cast<const Close&>(*task);
    closing_ -= done.count;
    spent.emplace_back(done.pod, done.spent);
  }
  return spent;
}

}  // namespace fairlead::cni::node
