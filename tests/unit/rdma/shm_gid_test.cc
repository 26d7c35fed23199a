#include "rdma/shm/shm_gid.h"

#include <gtest/gtest.h>

#include "rdma/shm/shm_limits.h"

namespace fairlead::rdma::shm {
namespace {

PeerId peer_id(std::uint8_t number) { return {{0x10, 0, 0, 0, 0, 0, 0, number}}; }

TEST(ShmGid, NamesFabricPortAndPeer) {
  const FabricId fabric{{1, 2, 3, 4, 5}};
  const PeerId peer{{6, 7, 8, 9, 10, 11, 12, 13}};
  const Gid gid = gid_of(fabric, PortNumber(2), peer);
  EXPECT_EQ(to_string(gid), "fdfa:102:304:502:607:809:a0b:c0d");
  const auto parsed = parse_gid(gid);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->fabric, fabric);
  EXPECT_EQ(parsed->port, PortNumber(2));
  EXPECT_EQ(parsed->peer, peer);
}

TEST(ShmGid, OtherFormsAreNotOurs) {
  const Gid good = gid_of({}, PortNumber(1), peer_id(1));
  auto with = [&](std::size_t at, std::uint8_t value) {
    Gid gid = good;
    gid.bytes[at] = value;
    return parse_gid(gid).has_value();
  };
  EXPECT_TRUE(parse_gid(good));
  EXPECT_FALSE(with(0, 0xfc));
  EXPECT_FALSE(with(1, 0xfb));
  EXPECT_FALSE(with(7, 0));
  EXPECT_TRUE(with(7, kPortsMax));
  EXPECT_FALSE(with(7, kPortsMax + 1));
  EXPECT_FALSE(parse_gid(gid_of({}, PortNumber(1), PeerId{})));
  EXPECT_FALSE(parse_gid(Gid{}));
}

}  // namespace
}  // namespace fairlead::rdma::shm
