// Goal: a state is read as it was written, and calls of one container exclude each other. Method: a
// folder of the test's own.
#include "cni/state/state.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <thread>

namespace fairlead::cni {
namespace {

class State : public testing::Test {
 protected:
  State() : folder_(testing::TempDir() + "fairlead-state-" + std::to_string(::getpid())) {}
  ~State() override { std::filesystem::remove_all(folder_); }

  ContainerState open(const std::string& id) {
    auto container = ContainerState::open(folder_, id, true);
    EXPECT_TRUE(container && *container);
    return std::move(**container);
  }

  std::string folder_;
};

TEST_F(State, IsReadAsItWasWritten) {
  AttachmentState state;
  state.attachment = {"box", "eth0"};
  state.network = "podnet";
  state.netns = "/run/netns/x";
  state.identity = {4, 4026532000};
  state.alias = "smc1;pnet=A";
  state.redirect = {"rule outbound 1 00", "set own 01"};
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

}  // namespace
}  // namespace fairlead::cni
