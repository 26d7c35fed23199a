#include "event/library_log.h"

#include <event2/event.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/linux/handle.h"

namespace fairlead::event {
namespace {

using Base = Handle<event_base, event_base_free>;
using Event = Handle<::event, event_free>;

Base make_base() {
  log_library_messages();
  return Base(event_base_new());
}

// Goal: a warning of libevent becomes a line of Fairlead's log, at a limited rate. Method: watches
// of a descriptor that does not exist, for each of which libevent warns.
TEST(LibraryLog, TakesWarningsAtABoundedRate) {
  const Base base = make_base();
  constexpr int kNoDescriptor = 1'000'000;
  testing::internal::CaptureStderr();
  const auto ignore = [](evutil_socket_t, short, void*) {};
  for (int i = 0; i < 100; ++i) {
    const Event event(event_new(base.get(), kNoDescriptor, EV_READ, ignore, nullptr));
    EXPECT_NE(event_add(event.get(), nullptr), 0);
  }
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(text.find("[warn]"), std::string::npos) << text;
  EXPECT_NE(text.find(" WARN event event=libevent what="), std::string::npos) << text;
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 100);
}

TEST(LibraryLogDeathTest, SaysWhyTheProcessAborts) {
  const Base base = make_base();
  // libevent ends the process if this is called after the creation of a base.
  EXPECT_DEATH(event_enable_debug_mode(),
               "event=libevent what=\".*must be called(.|\n)*assertion failed: libevent can go on");
}

}  // namespace
}  // namespace fairlead::event
