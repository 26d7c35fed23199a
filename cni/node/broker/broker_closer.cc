#include "cni/node/broker/broker_closer.h"

#include <limits>
#include <memory>

#include "base/linux/cpu_time.h"

namespace fairlead::cni::node {
namespace {

class Close final : public Task {
 public:
  Close(std::string owner, std::vector<FileDescriptor> descriptors)
      : pod(std::move(owner)), descriptors_(std::move(descriptors)) {}
  bool run() noexcept override {
    const Duration begun = thread_cpu_time();
    descriptors_.clear();
    spent = thread_cpu_time() - begun;
    return true;
  }
  std::string pod;
  Duration spent{};

 private:
  std::vector<FileDescriptor> descriptors_;
};

}  // namespace

BrokerCloser::BrokerCloser() : thread_(std::numeric_limits<std::size_t>::max()) {}

void BrokerCloser::close(const std::string& pod, std::vector<FileDescriptor> descriptors) {
  if (descriptors.empty()) return;
  std::unique_ptr<Task> task = std::make_unique<Close>(pod, std::move(descriptors));
  thread_.post(task);
}

std::vector<std::pair<std::string, Duration>> BrokerCloser::take_spent() {
  std::vector<std::pair<std::string, Duration>> spent;
  for (const auto& task : thread_.take_done()) {
    const auto& done = static_cast<const Close&>(*task);
    spent.emplace_back(done.pod, done.spent);
  }
  return spent;
}

}  // namespace fairlead::cni::node
