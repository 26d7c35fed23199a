#include "event/library_log.h"

#include <event2/event.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "event/event_loop.h"

namespace fairlead::event {
namespace {

// Goal: a warning of libevent becomes a line of Fairlead's log, at a limited rate. Method: watches
// of a descriptor that does not exist, for each of which libevent warns.
TEST(LibraryLog, TakesWarningsAtABoundedRate) {
  const auto loop = EventLoop::create().value();
  constexpr int kNoDescriptor = 1'000'000;
  testing::internal::CaptureStderr();
  for (int i = 0; i < 100; ++i)
    EXPECT_FALSE(loop->watch_readable(kNoDescriptor, FdWatcher::Trigger::kLevel));
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(text.find("[warn]"), std::string::npos) << text;
  EXPECT_NE(text.find(" WARN event event=libevent what="), std::string::npos) << text;
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 100);
}

TEST(LibraryLogDeathTest, SaysWhyTheProcessAborts) {
  const auto loop = EventLoop::create().value();
  // libevent ends the process if this is called after the creation of a base.
  EXPECT_DEATH(event_enable_debug_mode(),
               "event=libevent what=\".*must be called(.|\n)*assertion failed: libevent can go on");
}

}  // namespace
}  // namespace fairlead::event
