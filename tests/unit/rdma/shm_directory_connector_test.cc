// Two connectors of one directory, without devices.
#include "rdma/shm/connect/shm_directory_connector.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>
#include <vector>

#include "conformance/shm_device_pair.h"
#include "rdma/shm/shm_limits.h"
#include "unit/rdma/descriptor_limit.h"
#include "unit/rdma/set_of_descriptors.h"

namespace fairlead::rdma::shm {
namespace {

std::unique_ptr<DirectoryConnector> open_connector(const FabricDirectory& directory,
                                                   std::uint8_t number) {
  auto connector = DirectoryConnector::open(directory.path(), peer_id(number));
  EXPECT_TRUE(connector);
  return connector ? std::move(*connector) : nullptr;
}

// Nothing tells when there would be room, so that waiting is not offered.
TEST(ShmDirectoryConnector, APeerThatDoesNotReadHasNoRoomForAChannel) {
  constexpr int kGrantsMax = 10'000;
  FabricDirectory directory;
  const auto one = open_connector(directory, 1), other = open_connector(directory, 2);
  const Blank buffer = std::move(one->take_buffer().value());
  for (int i = 0; i < kGrantsMax && !one->backlog(); ++i)
    ASSERT_TRUE(one->grant(buffer.id, peer_id(2)));
  ASSERT_TRUE(one->backlog());
  EXPECT_EQ(one->request_channel(peer_id(2)).error().code, Errc::kExhausted);
  EXPECT_FALSE(one->has_events());
  while (other->next()) continue;
  EXPECT_TRUE(one->request_channel(peer_id(2)));
  EXPECT_TRUE(one->has_events());
}

// Connections without end must not hold the device's thread.
TEST(ShmDirectoryConnector, OneCallTakesALimitedNumberOfConnections) {
  FabricDirectory directory;
  SetOfDescriptors watcher;  // outlives the connector
  const auto connector = open_connector(directory, 1);
  ASSERT_TRUE(connector->set_watcher(&watcher));
  const int listener = *watcher.watched.begin();
  DescriptorCloser closer;
  auto dialler = Fabric::open(directory.path(), peer_id(2));
  ASSERT_TRUE(dialler);
  connector->handle_readable(listener);  // who opens looks whether the others live
  ASSERT_EQ(watcher.watched.size(), 1U);
  std::vector<FileDescriptor> sockets;
  for (int i = 0; i < kArrivalsBatch + 5; ++i)
    sockets.push_back(std::move(dialler->dial(peer_id(1), closer).value()));
  connector->handle_readable(listener);
  EXPECT_EQ(watcher.watched.size(), 1 + std::size_t{kArrivalsBatch});
  connector->handle_readable(listener);
  EXPECT_EQ(watcher.watched.size(), 1 + sockets.size());
}

// A listener that cannot be emptied is left alone until it can.
TEST(ShmDirectoryConnector, TheListenerIsWatchedAgainWhenThereAreDescriptors) {
  FabricDirectory directory;
  SetOfDescriptors watcher;  // outlives the connector
  const auto connector = open_connector(directory, 1);
  ASSERT_TRUE(connector->set_watcher(&watcher));
  const std::set<int> before = watcher.watched;
  ASSERT_EQ(before.size(), 1U);
  {
    const DescriptorLimit none(0);
    connector->handle_readable(*before.begin());
  }
  EXPECT_TRUE(watcher.watched.empty());
  for (int i = 0; i < 2; ++i) {
    connector->handle_readable(*before.begin());
    EXPECT_EQ(watcher.watched, before) << i;
  }
  ASSERT_TRUE(connector->set_watcher(nullptr));
  EXPECT_TRUE(watcher.watched.empty());
}

}  // namespace
}  // namespace fairlead::rdma::shm
