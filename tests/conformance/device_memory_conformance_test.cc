// Memory that belongs to two devices at once, as link groups with links on both need it.
#include <gtest/gtest.h>

#include "conformance/conformance_test.h"

namespace fairlead::rdma {
namespace {

TEST_P(DeviceConformance, MemoryOfOneDeviceServesAnotherUnderKeysOfItsOwn) {
  auto pages = left->device().allocate_buffer(left->domain(), 100000);
  ASSERT_TRUE(pages);
  auto shared = right->device().share_buffer(right->domain(), **pages);
  ASSERT_EQ(shared.has_value(), GetParam().shares_buffers);
  if (!shared) {
    EXPECT_EQ(shared.error().code, Errc::kUnsupported);
    return;
  }
  EXPECT_EQ((*shared)->bytes().data(), (*pages)->bytes().data());
  EXPECT_EQ((*shared)->bytes().size(), (*pages)->bytes().size());
  Connection connection = connect();
  ASSERT_TRUE(left->post_receives(4));
  ASSERT_TRUE(right->post_receives(4));
  left->memory().bytes()[0] = std::byte{1};
  const WorkRequest into[] = {write_request(left->memory(), 0, 1, at(**shared, 99999)),
                              send_request(std::span(kAnyMessage))};
  ASSERT_TRUE(connection.left->post(into));
  ASSERT_TRUE(run_until([&] { return right->received.size() == 1; }));
  EXPECT_EQ((*pages)->bytes()[99999], std::byte{1});
  const WorkRequest back[] = {write_request(**shared, 99999, 1, at(left->memory(), 1)),
                              send_request(std::span(kAnyMessage))};
  ASSERT_TRUE(connection.right->post(back));
  ASSERT_TRUE(run_until([&] { return left->received.size() == 1; }));
  EXPECT_EQ(left->memory().bytes()[1], std::byte{1});
  connection.left->fail();
  shared->reset();
  EXPECT_EQ((*pages)->bytes()[99999], std::byte{1});
}

}  // namespace
}  // namespace fairlead::rdma
