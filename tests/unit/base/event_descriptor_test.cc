#include "base/linux/event_descriptor.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <utility>

namespace fairlead {
namespace {

bool is_readable(const EventDescriptor& event) {
  pollfd waiting{event.get(), POLLIN, 0};
  return ::poll(&waiting, 1, 0) == 1;
}

TEST(EventDescriptorTest, IsReadableFromASignalUntilItIsTaken) {
  const EventDescriptor event = EventDescriptor::create().value();
  EXPECT_FALSE(is_readable(event));
  EXPECT_FALSE(event.take());
  event.signal();
  event.signal();
  EXPECT_TRUE(is_readable(event));
  EXPECT_TRUE(event.take());
  EXPECT_FALSE(is_readable(event));
  EXPECT_FALSE(event.take());
}

TEST(EventDescriptorTest, ASignalWithoutADescriptorDoesNothing) {
  EventDescriptor event = EventDescriptor::create().value();
  const EventDescriptor moved = std::move(event);
  event.signal();  // NOLINT(bugprone-use-after-move)
  EXPECT_FALSE(is_readable(moved));
  moved.signal();
  EXPECT_TRUE(is_readable(moved));
}

}  // namespace
}  // namespace fairlead
