// Long runs and exhausted kernel resources: nothing grows with time, and channels that cannot be
// watched are refused.
#include <fstream>
#include <string>

#include "conformance/connection.h"
#include "conformance/shm_device_pair.h"

namespace fairlead::rdma::shm {
namespace {

#if defined(FAIRLEAD_ADDRESS_SANITIZER) || defined(FAIRLEAD_THREAD_SANITIZER)
constexpr int kGroups = 10'000;  // more than any limit of what is withdrawn
#else
constexpr int kGroups = 100'000;
#endif
static_assert(kGroups > 2 * static_cast<int>(kSinksMax));

std::size_t count_lines(const char* path) {
  std::ifstream file(path);
  std::size_t count = 0;
  for (std::string line; std::getline(file, line);) ++count;
  return count;
}

// A queue pair with a domain and a buffer of its own, as a link group has.
struct Group {
  Group(Endpoint& end, std::size_t bytes)
      : domain(std::move(end.device().create_protection_domain().value())),
        buffer(std::move(end.device().allocate_buffer(*domain, bytes, BufferUse::kRmb).value())),
        queue_pair(std::move(end.device()
                                 .create_queue_pair({.domain = domain.get(),
                                                     .receive_queue = &end.receive_queue(),
                                                     .send_requests = 4})
                                 .value())) {}
  std::unique_ptr<ProtectionDomain> domain;
  std::unique_ptr<RegisteredBuffer> buffer;
  std::unique_ptr<QueuePair> queue_pair;
};

class ShmGrowth : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(left_.post_receives(16));
    ASSERT_TRUE(right_.post_receives(16));
  }
  static bool connect(Group& from, Endpoint& left, Group& to, Endpoint& right) {
    return from.queue_pair->connect(right.address_of(*to.queue_pair)).has_value() &&
           to.queue_pair->connect(left.address_of(*from.queue_pair)).has_value();
  }
  bool works(QueuePair& sender, Endpoint& to) {
    const std::size_t before = to.received.size();
    if (!post(sender, any_send())) return false;
    return run_until([&] { return to.received.size() > before; }, left_, to);
  }

  TestFabric fabric_;
  std::unique_ptr<ShmDevice> a_ = open_device(fabric_, 1), b_ = open_device(fabric_, 2);
  Endpoint left_{*a_}, right_{*b_};
};

TEST_F(ShmGrowth, ALongConnectionOutlivesGroupsThatComeAndGo) {
  Group ours(left_, 4096), theirs(right_, 4096);
  ASSERT_TRUE(connect(ours, left_, theirs, right_));
  const auto view = ours.queue_pair->remote_memory(at(*theirs.buffer), 4096);
  ASSERT_TRUE(view);
  std::size_t mappings = 0, descriptors = 0;
  for (int round = 0; round < kGroups; ++round) {
    Group left(left_, 4096), right(right_, 4096);
    ASSERT_TRUE(connect(left, left_, right, right_));
    ASSERT_TRUE(left.queue_pair->remote_memory(at(*right.buffer), 4096)) << round;
    ASSERT_TRUE(right.queue_pair->remote_memory(at(*left.buffer), 4096)) << round;
    // In every second round the buffer is destroyed first, and the view has to outlive it.
    if (round % 2 == 0) right.buffer.reset();
    left_.turn();
    right_.turn();
    if (round == 100) {
      mappings = count_lines("/proc/self/maps");
      descriptors = open_descriptors();
    }
  }
  // Threads of the devices still release the memory that was freed last.
  for (int turn = 0; turn < 1000 && (count_lines("/proc/self/maps") > mappings + 50 ||
                                     open_descriptors() > descriptors + 2);
       ++turn) {
    left_.watcher().wait(*a_, 10);
    left_.turn();
    right_.turn();
  }
  EXPECT_LE(count_lines("/proc/self/maps"), mappings + 50);
  EXPECT_LE(open_descriptors(), descriptors + 2);
  EXPECT_FALSE(left_.has_fatal(*ours.queue_pair));
  EXPECT_FALSE(right_.has_fatal(*theirs.queue_pair));
  view->front() = std::byte{7};
  EXPECT_EQ(theirs.buffer->bytes().front(), std::byte{7});
  EXPECT_TRUE(works(*ours.queue_pair, right_));
}

// The kernel counts watches for a user, and all sidecars of a node are one.
class RefusingWatcher final : public FdWatcher {
 public:
  explicit RefusingWatcher(FdWatcher& other) : other_(other) {}
  Result<void> watch_readable(int fd, Trigger trigger) override {
    if (refuses) return Error{Errc::kExhausted, "watches", ENOSPC};
    return other_.watch_readable(fd, trigger);
  }
  void unwatch(int fd) override { other_.unwatch(fd); }
  bool refuses = false;

 private:
  FdWatcher& other_;
};

TEST_F(ShmGrowth, AWatchThatIsRefusedCostsTheNewChannelOnly) {
  RefusingWatcher watcher(left_.watcher());
  ASSERT_TRUE(a_->set_watcher(&watcher));
  Group ours(left_, 4096), theirs(right_, 4096);
  ASSERT_TRUE(connect(ours, left_, theirs, right_));
  ASSERT_TRUE(works(*ours.queue_pair, right_));
  auto c = open_device(fabric_, 3);
  Endpoint third(*c);
  ASSERT_TRUE(third.post_receives(16));
  watcher.refuses = true;
  {
    Group mine(left_, 4096), other(third, 4096);
    EXPECT_FALSE(mine.queue_pair->connect(third.address_of(*other.queue_pair)));
    EXPECT_TRUE(works(*ours.queue_pair, right_));
  }
  watcher.refuses = false;
  Group mine(left_, 4096), other(third, 4096);
  ASSERT_TRUE(connect(mine, left_, other, third));
  EXPECT_TRUE(works(*mine.queue_pair, third));
  ASSERT_TRUE(a_->set_watcher(&left_.watcher()));
}

}  // namespace
}  // namespace fairlead::rdma::shm
