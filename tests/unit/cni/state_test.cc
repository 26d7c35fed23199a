// Goal: a file is replaced as a whole, a state is read as it was written, and calls of one
// container exclude each other. Method: a folder of the test's own.
#include "cni/state/state.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <string>
#include <thread>

#include "base/linux/files.h"
#include "own_folder.h"

namespace fairlead::cni {
namespace {

class State : public testing::Test {
 protected:
  ContainerState open(const std::string& id) {
    auto container = ContainerState::open(folder_, id, true);
    EXPECT_TRUE(container && *container);
    return std::move(**container);
  }

  const OwnFolder own_;
  const std::string folder_ = own_.path() / "state";
};

TEST_F(State, IsReadAsItWasWritten) {
  AttachmentState state;
  state.attachment = {"box", "eth0"};
  state.network = "podnet";
  state.netns = "/run/netns/x";
  state.identity = {4, 4026532000};
  state.alias = "smc1;pnet=A";
  state.redirect = {"rule outbound 1 00", "set own 01"};
  state.redirect_cgroup = "/sys/fs/cgroup/kubepods.slice/pod2";
  state.redirect_reason = "kernel 5.10.0 is older than 6.6";
  state.problems = {{Code::kOption, "no \"cgroup\"\n"}};
  state.finished = true;
  const ContainerState container = open("box");
  ASSERT_TRUE(container.store(state));
  const auto read = container.load("eth0").value();
  EXPECT_EQ(to_json_text(read), to_json_text(state));
  EXPECT_EQ(container.interfaces(), std::vector<std::string>{"eth0"});
  EXPECT_EQ(known_containers(folder_), std::vector<std::string>{"box"});
  container.remove("eth0");
}

TEST_F(State, LeavesNoFolderBehind) {
  { const ContainerState container = open("box"); }
  EXPECT_TRUE(known_containers(folder_).empty());
  const auto absent = ContainerState::open(folder_, "box", false);
  EXPECT_TRUE(absent && !*absent);
}

TEST_F(State, OneCallAtATime) {
  std::atomic<int> inside{0};
  std::atomic<int> most{0};
  const auto visit = [&] {
    for (int i = 0; i < 50; ++i) {
      const ContainerState container = open("box");
      const int now = ++inside;
      if (now > most) most = now;
      std::this_thread::yield();
      --inside;
    }
  };
  std::thread other(visit);
  visit();
  other.join();
  EXPECT_EQ(most, 1);
}

TEST_F(State, RefusesOtherFormats) {
  for (const char* text : {"", "[]", "{}", R"({"format":2})", R"({"format":"1"})"})
    EXPECT_FALSE(parse_state(text)) << text;
  EXPECT_TRUE(parse_state(R"({"format":1,"redirect":[1,"a"],"problems":[7,{"code":-1}]})"));
}

namespace fs = std::filesystem;

class Files : public ::testing::Test {
 protected:
  const OwnFolder own_;
  const fs::path folder_ = own_.path();
};

TEST_F(Files, ReplacesAFileAndLeavesNoOther) {
  ASSERT_TRUE(replace_file(folder_ / "a", folder_ / ".new", "first", 0600));
  ASSERT_TRUE(replace_file(folder_ / "a", folder_ / ".new", "second\nline", 0755));
  EXPECT_EQ(read_file(folder_ / "a", 100).value(), "second\nline");
  EXPECT_EQ(first_line(folder_ / "a"), "second");
  EXPECT_EQ(names_in(folder_), std::vector<std::string>{"a"});
  struct stat status {};
  ASSERT_EQ(::stat((folder_ / "a").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0755U);
}

TEST_F(Files, ReadsUpToTheLimit) {
  ASSERT_TRUE(replace_file(folder_ / "a", folder_ / ".new", "12345", 0600));
  EXPECT_EQ(read_file(folder_ / "a", 5).value(), "12345");
  EXPECT_EQ(read_file(folder_ / "a", 4).error().system, EFBIG);
}

TEST_F(Files, FollowsNoLinkWhenToldSo) {
  ASSERT_TRUE(replace_file(folder_ / "a", folder_ / ".new", "x", 0600));
  fs::create_symlink("a", folder_ / "link");
  EXPECT_TRUE(read_file(folder_ / "link", 5));
  EXPECT_EQ(read_file(folder_ / "link", 5, O_NOFOLLOW).error().system, ELOOP);
}

TEST_F(Files, TakesWhatIsNotThereForEmpty) {
  EXPECT_TRUE(names_in(folder_ / "none").empty());
  EXPECT_EQ(first_line(folder_ / "none"), "");
  EXPECT_EQ(read_file(folder_ / "none", 5).error().system, ENOENT);
}

}  // namespace
}  // namespace fairlead::cni
