#include "relay/pipes/pipe_pool.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

namespace fairlead::relay {
namespace {

constexpr uid_t kNobodysUid = 64023;  // has its own share of pipe pages
// More than the default share, 16,384 pages, has room for.
constexpr int kPipes = 80;

TEST(PipePool, MakesPipesThatHoldWhatIsWanted) {
  PipePool pool;
  const auto pipe = pool.take();
  ASSERT_TRUE(pipe);
  EXPECT_GE(pipe->capacity_bytes, kPipeBytesMin);
}

// 0: success; else the number of the failed step.
int use_up_pipe_pages() {
  const rlimit descriptors{1024, 1024};
  (void)::setrlimit(RLIMIT_NOFILE, &descriptors);
  if (::setresuid(kNobodysUid, kNobodysUid, kNobodysUid) != 0) return 1;
  std::vector<FileDescriptor> kept;
  int capacity = 0;
  for (int i = 0; i < kPipes; ++i) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return 2;
    kept.emplace_back(ends[0]);
    kept.emplace_back(ends[1]);
    (void)::fcntl(ends[1], F_SETPIPE_SZ, static_cast<int>(kPipeBytesWanted));
    capacity = ::fcntl(ends[1], F_GETPIPE_SZ);
  }
  if (capacity >= static_cast<int>(kPipeBytesMin)) return 77;
  PipePool pool;
  if (pool.take()) return 3;
  kept.clear();
  // The kernel is not called each time, but eventually again.
  if (pool.take()) return 4;
  for (unsigned i = 0; i < kPipesNotTried; ++i)
    if (pool.take()) return 0;
  return 5;
}

TEST(PipePool, TurnsDownPipesOfAUserWhoseShareOfPagesIsSpent) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to become a user with no pipes";
  const pid_t child = ::fork();
  if (child == 0) ::_exit(use_up_pipe_pages());
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "pipe-user-pages-soft is larger here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace fairlead::relay
