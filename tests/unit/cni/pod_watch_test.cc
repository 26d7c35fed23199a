// Network namespaces of a folder as pods.
#include "cni/node/pods/pod_watch.h"

#include <gtest/gtest.h>
#include <poll.h>

#include "own_folder.h"

namespace fairlead::cni::node {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOwn = "/proc/self/ns/net";

class PodWatchTest : public testing::Test {
 protected:
  const OwnFolder own_;
  const fs::path folder_ = own_.path();
};

TEST_F(PodWatchTest, WithoutAFolderTheOwnNamespaceIsThePod) {
  auto watch = PodWatch::of_namespaces("");
  ASSERT_TRUE(watch);
  EXPECT_LT(watch->descriptor(), 0);
  const WatchedPods& pods = watch->look();
  ASSERT_EQ(pods.size(), 1U);
  EXPECT_EQ(pods.at(kOwn).netns, kOwn);
  EXPECT_NE(pods.at(kOwn).identity, NetnsIdentity{});
}

// Of two pods of one namespace each would take the devices from the other.
TEST_F(PodWatchTest, ANamespaceWithASecondNameIsOnePod) {
  fs::create_symlink(kOwn, folder_ / "again");
  auto watch = PodWatch::of_namespaces(folder_);
  ASSERT_TRUE(watch);
  EXPECT_EQ(watch->look().size(), 1U);
}

TEST_F(PodWatchTest, AFileThatIsNoNamespaceIsAPodThatCannotBeEnteredYet) {
  auto watch = PodWatch::of_namespaces(folder_);
  ASSERT_TRUE(watch);
  EXPECT_EQ(watch->look().size(), 1U);
  const auto is_due = [&watch] {
    pollfd state{watch->descriptor(), POLLIN, 0};
    return ::poll(&state, 1, 0) == 1;
  };
  EXPECT_FALSE(is_due());
  for (const char* name : {"one", "two"}) own_.write(name, "x");
  EXPECT_TRUE(is_due());
  const WatchedPods& pods = watch->look();
  EXPECT_EQ(pods.size(), 3U);
  EXPECT_EQ(pods.at(folder_ / "one").identity, NetnsIdentity{});
  EXPECT_FALSE(is_due());
  fs::remove(folder_ / "one");
  EXPECT_TRUE(is_due());
  EXPECT_EQ(watch->look().size(), 2U);
}

TEST_F(PodWatchTest, AMissingFolderIsNamed) {
  const auto watch = PodWatch::of_namespaces(folder_ / "missing");
  ASSERT_FALSE(watch);
  EXPECT_NE(watch.error().message.find("missing"), std::string::npos);
}

}  // namespace
}  // namespace fairlead::cni::node
