// Goal: memory that a pod has filled is not freed on the broker's thread. Method: the processor
// time of the caller, which does not depend on other processes.
#include "cni/node/broker/broker_closer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "base/linux/cpu_time.h"
#include "broker/shared_objects.h"

namespace fairlead::cni::node {
namespace {

constexpr std::size_t kBytes = std::size_t{128} << 20;

std::vector<FileDescriptor> full_memory() {
  std::vector<FileDescriptor> made;
  made.push_back(std::move(broker::make_memory("test", kBytes).value()));
  EXPECT_EQ(::fallocate(made.back().get(), 0, 0, kBytes), 0);
  return made;
}

TEST(BrokerCloser, FreesWhatAPodHasFilledOnAThreadOfItsOwnAndSaysForHowLong) {
  std::vector<FileDescriptor> memory = full_memory();
  Duration begun = thread_cpu_time();
  memory.clear();
  const Duration here = thread_cpu_time() - begun;
  BrokerCloser closer;
  memory = full_memory();
  begun = thread_cpu_time();
  closer.close("pod", std::move(memory));
  EXPECT_LT(thread_cpu_time() - begun, here / 4);
  std::vector<std::pair<std::string, Duration>> spent;
  while (spent.empty()) spent = closer.take_spent();
  ASSERT_EQ(spent.size(), 1u);
  EXPECT_EQ(spent[0].first, "pod");
  EXPECT_GT(spent[0].second, here / 4);
}

}  // namespace
}  // namespace fairlead::cni::node
