// Goal: a peer that has the descriptor of a device's memory cannot block the worker with it.
// Method: a thread writes into the memory from a missing page (userfaultfd), and so holds the lock
// of its inode. A watchdog provides the page if the device waits for it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "conformance/endpoint.h"
#include "conformance/shm_device_pair.h"
#include "rdma/shm/memory/shm_page_returns.h"
#include "rdma/shm/memory/shm_segment.h"

namespace fairlead::rdma::shm {
namespace {

// The lock of a memfd's inode, kept until release(), or until kTooLong has passed.
class HeldInode {
 public:
  static constexpr std::chrono::seconds kTooLong{20};
  explicit HeldInode(FileDescriptor memory)
      : memory_(std::move(memory)),
        uffd_(static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK))),
        page_(std::move(Mapping::map_private(kPageBytes).value())) {
    uffdio_api api{.api = UFFD_API, .features = 0, .ioctls = 0};
    uffdio_register range{};
    range.range = page();
    range.mode = UFFDIO_REGISTER_MODE_MISSING;
    ready_ = uffd_ && ::ioctl(uffd_.get(), UFFDIO_API, &api) == 0 &&
             ::ioctl(uffd_.get(), UFFDIO_REGISTER, &range) == 0;
    if (!ready_) return;
    writer_ = std::thread([this] { (void)!::pwrite(memory_.get(), page_.bytes().data(), 1, 0); });
    pollfd wanted{uffd_.get(), POLLIN, 0};
    while (::poll(&wanted, 1, -1) < 0) {
    }
    watchdog_ = std::thread([this, let_go = let_go_.get_future()] {
      too_long = let_go.wait_for(kTooLong) == std::future_status::timeout;
      uffdio_zeropage zero{};
      zero.range = page();
      (void)::ioctl(uffd_.get(), UFFDIO_ZEROPAGE, &zero);
    });
  }
  ~HeldInode() { release(); }
  bool ready() const { return ready_; }
  void release() {
    if (!watchdog_.joinable()) return;
    let_go_.set_value();
    watchdog_.join();
    writer_.join();
  }
  std::atomic<bool> too_long{false};

 private:
  static constexpr std::size_t kPageBytes = 4096;
  uffdio_range page() const {
    return {reinterpret_cast<std::uint64_t>(page_.bytes().data()), kPageBytes};
  }
  FileDescriptor memory_, uffd_;
  Mapping page_;  // missing at first
  bool ready_ = false;
  std::promise<void> let_go_;
  std::thread writer_, watchdog_;
};

// A copy of this process's descriptor for memory of that size.
FileDescriptor find_memory(std::size_t size_bytes) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename().string());
    struct stat status {};
    if (::fcntl(fd, F_GET_SEALS) >= 0 && ::fstat(fd, &status) == 0 &&
        status.st_size == static_cast<off_t>(size_bytes))
      return FileDescriptor(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  }
  return {};
}

constexpr std::size_t kHeldBytes = 3 << 20, kOtherBytes = 5 << 20;

class ShmBlocked : public testing::Test {
 protected:
  std::unique_ptr<RegisteredBuffer> make_buffer(std::size_t size_bytes) {
    return std::move(device_->allocate_buffer(end_->domain(), size_bytes, BufferUse::kRmb).value());
  }
  // Until no descriptor of memory of that size is open.
  bool is_freed(std::size_t size_bytes) {
    for (int turn = 0; turn < 1000; ++turn) {
      if (!find_memory(size_bytes)) return true;
      end_->watcher().wait(*device_, 10);
      end_->turn();
    }
    return false;
  }

  TestFabric fabric_;
  std::unique_ptr<ShmDevice> device_ = open_device(fabric_, 1);
  std::unique_ptr<Endpoint> end_ = std::make_unique<Endpoint>(*device_);
};

TEST_F(ShmBlocked, WhoHoldsTheInodeOfAFreedBufferBlocksNobody) {
  auto held_buffer = make_buffer(kHeldBytes);
  auto other = make_buffer(kOtherBytes);
  auto held = std::make_unique<HeldInode>(find_memory(kHeldBytes));
  if (!held->ready()) GTEST_SKIP() << "userfaultfd(2) is not allowed here: " << strerror(errno);
  held_buffer.reset();
  EXPECT_FALSE(held->too_long) << "the device waits for the inode";
  // A buffer behind it in the queue is freed without returning its pages.
  other.reset();
  EXPECT_TRUE(is_freed(kOtherBytes));
  EXPECT_FALSE(held->too_long) << "others wait for the inode";
  held.reset();
  EXPECT_TRUE(is_freed(kHeldBytes));
}

TEST_F(ShmBlocked, WhoHoldsTheInodeOfAFreedBufferDoesNotHoldUpTheEnd) {
  auto buffer = make_buffer(kHeldBytes);
  HeldInode held(find_memory(kHeldBytes));
  if (!held.ready()) GTEST_SKIP() << "userfaultfd(2) is not allowed here: " << strerror(errno);
  buffer.reset();
  end_.reset();
  device_.reset();
  EXPECT_FALSE(held.too_long) << "the end of the device waits for the inode";
}

// A memfd with a page in use.
class UsedMemory {
 public:
  UsedMemory()
      : fd(::memfd_create("used", MFD_CLOEXEC | MFD_ALLOW_SEALING)),
        mapping(std::move(map_blank(fd.get(), 4096).value())) {
    mapping.bytes()[0] = std::byte{1};
  }
  bool used() const { return mapping.bytes()[0] == std::byte{1}; }
  FileDescriptor fd;
  Mapping mapping;
};

TEST(ShmPageReturns, WhoHoldsTheInodeOfAViewKeepsOnlyThatWaiting) {
  UsedMemory blocked, behind;
  PageReturns returns;
  HeldInode held(FileDescriptor(::fcntl(blocked.fd.get(), F_DUPFD_CLOEXEC, 0)));
  if (!held.ready()) GTEST_SKIP() << "userfaultfd(2) is not allowed here: " << strerror(errno);
  // What still waits for the thread is called off, and asked for once more.
  std::unique_ptr<PageReturn> begun;
  do {
    begun = returns.add(blocked.mapping.bytes());
    std::this_thread::yield();
  } while ((begun == nullptr || begun->settle() != PageReturn::State::kReturning) &&
           !held.too_long);
  ASSERT_FALSE(held.too_long) << "nothing was begun";
  const std::unique_ptr<PageReturn> behind_it = returns.add(behind.mapping.bytes());
  ASSERT_NE(behind_it, nullptr);
  EXPECT_EQ(behind_it->settle(), PageReturn::State::kKept);
  EXPECT_EQ(begun->settle(), PageReturn::State::kReturning);
  held.release();
  while (begun->settle() != PageReturn::State::kReturned || blocked.used())
    std::this_thread::yield();
  EXPECT_TRUE(behind.used());
}

TEST(ShmPageReturns, OutlivesTheView) {
  UsedMemory memory;
  PageReturns returns;
  Result<Mapping> view = Mapping::map_again(memory.mapping.bytes());
  ASSERT_TRUE(view);
  const auto returned = returns.add(view->bytes());
  *view = Mapping();
  while (memory.used()) std::this_thread::yield();
  while (returned->settle() != PageReturn::State::kReturned) std::this_thread::yield();
}

TEST(ShmPageReturns, TakesWholePagesOfSharedMemory) {
  PageReturns returns;
  UsedMemory memory;
  Mapping own = std::move(Mapping::map_private(4096).value());
  own.bytes()[0] = std::byte{1};
  EXPECT_EQ(returns.add({}), nullptr);
  EXPECT_EQ(returns.add(memory.mapping.bytes().first(100)), nullptr);
  EXPECT_EQ(returns.add(memory.mapping.bytes().subspan(100)), nullptr);
  EXPECT_EQ(returns.add(own.bytes()), nullptr);
  EXPECT_TRUE(memory.used());
}

}  // namespace
}  // namespace fairlead::rdma::shm
