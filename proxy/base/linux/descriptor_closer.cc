#include "base/linux/descriptor_closer.h"

#include <memory>

namespace fairlead {
namespace {

class Close final : public Task {
 public:
  explicit Close(FileDescriptor descriptor) : descriptor_(std::move(descriptor)) {}
  bool run() noexcept override {
    descriptor_.reset();
    return true;
  }

 private:
  FileDescriptor descriptor_;
};

}  // namespace

void DescriptorCloser::close(FileDescriptor descriptor) {
  if (!descriptor) return;
  if (table_ends_) {
    if (table_ends_()) (void)descriptor.release();
    return;
  }
  // Those that are done count until they are taken.
  (void)full();
  std::unique_ptr<Task> task = std::make_unique<Close>(std::move(descriptor));
  thread_.post(task);
  if (!task) ++waiting_;
}

bool DescriptorCloser::full() {
  if (waiting_ != 0) waiting_ -= thread_.take_done().size();
  return waiting_ >= kWaitingMax;
}

}  // namespace fairlead
