// The devices of a worker: their order, how they come and go, which one is offered to a peer or
// leads to one, and what is said where there is none.

#include "relay/group/device_registry.h"

#include <set>

#include "driver_parts.h"

namespace fairlead::relay {
namespace {

class NamedUsers final : public DeviceUsers {
 public:
  bool uses(const DeviceSlot& slot) const override { return used.contains(&slot); }
  void devices_changed() override { ++changes; }
  std::set<const DeviceSlot*> used;
  unsigned changes = 0;
};

class Watcher final : public FdWatcher {
 public:
  Result<void> watch_readable(int, Trigger) override { return {}; }
  void unwatch(int) override {}
};

rdma::Port down(rdma::Port port) {
  port.state = rdma::PortState::kDown;
  return port;
}

rdma::Port faulty(rdma::Port port, rdma::PortFault fault) {
  port.fault = fault;
  return port;
}

class DeviceRegistryTest : public testing::Test, protected WorkerResources {
 protected:
  struct Added {
    FakeDevice& device;
    FakeReachability& reachability;
  };
  Added make(const std::string& name, std::vector<rdma::Port> ports, bool leaves) {
    made_device = std::make_unique<FakeDevice>(name, std::move(ports));
    made_reachability = std::make_unique<FakeReachability>(leaves);
    return {*made_device, *made_reachability};
  }
  Result<void> add_made() {
    return devices.add(std::move(made_device), std::move(made_reachability));
  }
  // One that leads to other nodes.
  Added add(const std::string& name, std::vector<rdma::Port> ports = {active_port(1, 1)},
            bool leaves = true) {
    const Added added = make(name, std::move(ports), leaves);
    EXPECT_TRUE(add_made());
    return added;
  }
  // One of this node alone.
  Added add_near(const std::string& name, std::uint8_t host = 50) {
    const Added added = add(name, {active_port(1, host)}, false);
    added.reachability.kind_name = "shm";
    return added;
  }
  DeviceSlot* slot(std::size_t at) { return devices.slots().at(at).get(); }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& each : devices.slots()) names.push_back(each->device().name());
    return names;
  }
  std::uint8_t links_from(std::size_t at) {
    return devices.links_from(*slot(at), slot(at)->device().ports()[0]);
  }

  config::Config config;
  const PeerId peer_id{{1}};
  NamedUsers users;
  Watcher watcher;
  FakeStream companion;
  const Place place{companion, std::nullopt};
  std::unique_ptr<FakeDevice> made_device;
  std::unique_ptr<FakeReachability> made_reachability;
  LinkGroupRegistry groups{shared, 0, 7};
  DeviceRegistry devices{config, peer_id, groups, shared, users};
};

TEST_F(DeviceRegistryTest, DevicesOfTheNodeComeBeforeThoseThatLeaveIt) {
  add("far1");
  add_near("near1");
  add("far2");
  add_near("near2");
  EXPECT_EQ(names(), (std::vector<std::string>{"near1", "near2", "far1", "far2"}));
  ASSERT_EQ(shared.devices.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(shared.devices[i], &slot(i)->link_device());
}

TEST_F(DeviceRegistryTest, ADeviceWithoutMemoryForMessagesIsNotAdded) {
  const Added bad = make("bad", {active_port(1, 1)}, true);
  bad.device.buffer_error = Error{Errc::kExhausted, "locked memory"};
  EXPECT_EQ(error_of(add_made()).code, Errc::kExhausted);
  EXPECT_TRUE(devices.slots().empty());
  EXPECT_TRUE(shared.devices.empty());
  EXPECT_EQ(budget.left_bytes(), budget.limit_bytes());
}

TEST_F(DeviceRegistryTest, AllDevicesAreWatched) {
  const Added first = add("first");
  devices.set_watcher(&watcher);
  const Added second = add("second");
  EXPECT_EQ(first.device.watcher, &watcher);
  EXPECT_EQ(second.device.watcher, &watcher);
  devices.set_watcher(nullptr);
  EXPECT_EQ(first.device.watcher, nullptr);
  EXPECT_EQ(devices.slots().size(), 2U);
}

TEST_F(DeviceRegistryTest, ADeviceThatCannotBeWatchedGoes) {
  add("good");
  add("bad").device.watcher_error = Error{Errc::kExhausted, "watches"};
  devices.set_watcher(&watcher);
  EXPECT_EQ(names(), std::vector<std::string>{"good"});
  EXPECT_EQ(shared.devices.size(), 1U);
  make("late", {active_port(1, 1)}, true).device.watcher_error = Error{Errc::kExhausted, "watches"};
  EXPECT_FALSE(add_made());
  EXPECT_EQ(names(), std::vector<std::string>{"good"});
}

TEST_F(DeviceRegistryTest, ADeviceIsRemovedWhenNobodyUsesIt) {
  add("first");
  add("second");
  EXPECT_TRUE(devices.remove("unknown"));
  users.used.insert(slot(0));
  EXPECT_FALSE(devices.remove("first"));
  users.used.clear();
  EXPECT_TRUE(devices.remove("first"));
  EXPECT_EQ(names(), std::vector<std::string>{"second"});
  EXPECT_EQ(shared.devices, std::vector{&slot(0)->link_device()});
}

TEST_F(DeviceRegistryTest, ADeviceOfALinkGroupIsNotRemoved) {
  const Added used = add("used");
  GroupStart start;
  start.device = &slot(0)->link_device();
  start.port = used.device.port_list[0];
  const auto group = groups.create({}, {}, start);
  ASSERT_TRUE(group);
  EXPECT_FALSE(devices.remove("used"));
  groups.peers().remove(**group);
  EXPECT_TRUE(devices.remove("used"));
}

TEST_F(DeviceRegistryTest, AProviderScansNowAndAtIntervals) {
  const Duration interval = std::chrono::seconds(5);
  struct Counting final : DeviceProvider {
    void scan(DeviceRegistry&) override { ++scans; }
    int scans = 0;
  };
  Counting provider;
  const int& scans = provider.scans;
  devices.add_provider(provider, interval);
  EXPECT_EQ(scans, 1);
  timers.run(clock.at += interval - Duration(1));
  EXPECT_EQ(scans, 1);
  timers.run(clock.at += Duration(1));
  EXPECT_EQ(scans, 2);
  timers.run(clock.at += interval);
  EXPECT_EQ(scans, 3);
}

TEST_F(DeviceRegistryTest, AnOperatorTakesPortsOfKnownDevices) {
  const Added added = add("one");
  EXPECT_TRUE(devices.set_port_state("one", PortNumber{1}, rdma::PortState::kDown));
  EXPECT_EQ(added.device.port_list[0].state, rdma::PortState::kDown);
  EXPECT_FALSE(devices.set_port_state("one", PortNumber{2}, rdma::PortState::kDown));
  EXPECT_FALSE(devices.set_port_state("two", PortNumber{1}, rdma::PortState::kDown));
}

TEST_F(DeviceRegistryTest, WithoutADeviceTheReasonIsThatOfTheProvider) {
  EXPECT_EQ(devices.no_device_reason(), FallbackReason::kNoRdmaDevice);
  devices.set_no_device_reason(FallbackReason::kMemlockLimit);
  EXPECT_EQ(devices.no_device_reason(), FallbackReason::kMemlockLimit);
  EXPECT_EQ(users.changes, 1U);
  devices.set_no_device_reason(FallbackReason::kMemlockLimit);
  EXPECT_EQ(users.changes, 1U);
  add_near("near");
  EXPECT_EQ(users.changes, 2U);
  EXPECT_EQ(devices.no_device_reason(), FallbackReason::kMemlockLimit)
      << "it does not lead to other nodes";
}

TEST_F(DeviceRegistryTest, AFaultSaysMoreThanAPortThatIsDown) {
  const Added added = add("far", {down(active_port(1, 1))});
  EXPECT_EQ(devices.no_device_reason(), FallbackReason::kPortDown);
  added.device.port_list.push_back(faulty(active_port(2, 2), rdma::PortFault::kNoGid));
  EXPECT_EQ(devices.no_device_reason(), FallbackReason::kNoUsableGid);
  added.device.port_list.push_back(faulty(active_port(3, 3), rdma::PortFault::kNoPartition));
  EXPECT_EQ(devices.no_device_reason(), FallbackReason::kNoUsableGid) << "the first one";
}

TEST_F(DeviceRegistryTest, APortOfAnotherNetworkIsAsGoodAsNone) {
  EXPECT_FALSE(devices.any_in_network());
  const Added other = add("other");
  other.reachability.ours = false;
  EXPECT_EQ(devices.no_device_reason(), FallbackReason::kNoPnet);
  EXPECT_FALSE(devices.any_in_network());
  const Added own = add("own");
  EXPECT_EQ(devices.no_device_reason(), FallbackReason::kNoRdmaDevice)
      << "one that is well does not lead there";
  EXPECT_TRUE(devices.any_in_network());
  own.device.port_list[0] = down(own.device.port_list[0]);
  EXPECT_FALSE(devices.any_in_network());
}

TEST_F(DeviceRegistryTest, AProposalNamesThePortThatLeavesTheNodeAndTheFabricThatDoesNot) {
  const wire::VendorArea fabric{{1, 2, 3}, {4}};
  add_near("near").reachability.vendor = fabric;
  EXPECT_EQ(devices.offer_towards(place).slot, slot(0));
  add("far1", {down(active_port(1, 1)), active_port(2, 2)});
  add("far2", {active_port(1, 3)});
  const DeviceRegistry::Offered offered = devices.offer_towards(place);
  EXPECT_EQ(offered.slot, slot(1));
  EXPECT_EQ(offered.port.number, PortNumber{2});
  EXPECT_EQ(offered.port.gid, gid_of(2));
  EXPECT_EQ(offered.vendor, fabric);
  EXPECT_FALSE(offered.withheld);
}

TEST_F(DeviceRegistryTest, ADeviceThatIsDownIsNotOffered) {
  add_near("near").device.port_list[0].state = rdma::PortState::kDown;
  add("far", {down(active_port(1, 1))});
  const DeviceRegistry::Offered offered = devices.offer_towards(place);
  EXPECT_EQ(offered.slot, nullptr);
  EXPECT_EQ(offered.vendor, wire::VendorArea{});
}

TEST_F(DeviceRegistryTest, WhatWouldPassAnEncryptedPathByIsWithheld) {
  add_near("near");
  const Added far = add("far");
  far.reachability.encrypted = true;
  far.reachability.vendor = {{9, 9, 9}, {9}};
  const DeviceRegistry::Offered offered = devices.offer_towards(place);
  EXPECT_TRUE(offered.withheld);
  EXPECT_EQ(offered.slot, slot(0));
  EXPECT_EQ(offered.vendor, wire::VendorArea{});
}

TEST_F(DeviceRegistryTest, AServerIsReachedByTheOfferedDeviceIfItCan) {
  const Added near = add_near("near");
  const Added far = add("far");
  EXPECT_EQ(devices.slot_of_server(gid_of(7), slot(1)), nullptr);
  near.reachability.servers = {gid_of(7)};
  EXPECT_EQ(devices.slot_of_server(gid_of(7), slot(1)), slot(0));
  EXPECT_EQ(devices.slot_of_server(gid_of(7), nullptr), slot(0));
  far.reachability.servers = {gid_of(7)};
  EXPECT_EQ(devices.slot_of_server(gid_of(7), slot(1)), slot(1));
  far.device.port_list[0].state = rdma::PortState::kDown;
  EXPECT_EQ(devices.slot_of_server(gid_of(7), slot(1)), slot(0));
}

TEST_F(DeviceRegistryTest, ADirectionWithTwoRingsHasHalfTheSizeForEach) {
  const Added added = add("one");
  const BufferSizes halved = devices.buffer_sizes(added.device);
  added.device.able.remote_memory_addressable = true;
  const BufferSizes whole = devices.buffer_sizes(added.device);
  EXPECT_EQ(whole.wanted_code, 5);  // 512 KiB
  EXPECT_EQ(halved.wanted_code, 4);
  EXPECT_EQ(whole.least_code, 0);
  EXPECT_EQ(halved.least_code, 0);
  config::Config small;
  small.buffers.size = small.buffers.size_min;
  const DeviceRegistry own(small, peer_id, groups, shared, users);
  added.device.able.remote_memory_addressable = false;
  EXPECT_EQ(own.buffer_sizes(added.device).wanted_code, 0) << "the least is not halved";
}

TEST_F(DeviceRegistryTest, AGroupHasTwoLinksWhereAnotherPortLeadsToTheSamePeers) {
  const Added first = add("first");
  EXPECT_EQ(links_from(0), 1);
  first.reachability.pnets[PortNumber{1}] = "NET";
  const Added second = add("second", {down(active_port(1, 2))});
  EXPECT_EQ(links_from(0), 1);
  second.reachability.pnets[PortNumber{1}] = "NET";
  EXPECT_EQ(links_from(0), 2) << "it may come up";
  second.device.port_list[0] = faulty(active_port(1, 2), rdma::PortFault::kNoGid);
  EXPECT_EQ(links_from(0), 1);
  second.device.port_list[0] = active_port(1, 2);
  second.device.port_list[0].gid = {};
  EXPECT_EQ(links_from(0), 1);
  second.device.port_list[0] = active_port(1, 2);
  EXPECT_EQ(links_from(0), 2);
  add("third").reachability.pnets[PortNumber{1}] = "NET";
  EXPECT_EQ(links_from(0), 2) << "more are not usual";
}

TEST_F(DeviceRegistryTest, TheConfiguredNumberOfLinksHoldsForAllPorts) {
  add("first");
  config.smc.max_links = 3;
  EXPECT_EQ(links_from(0), 3);
  EXPECT_EQ(devices.links_offered(), 3);
}

TEST_F(DeviceRegistryTest, AProposalOffersTheMostLinksOfAnyUsablePort) {
  EXPECT_EQ(devices.links_offered(), 1);
  add("alone");
  EXPECT_EQ(devices.links_offered(), 1);
  const Added pair = add("pair", {active_port(1, 2), active_port(2, 3)});
  pair.reachability.pnets = {{PortNumber{1}, "NET"}, {PortNumber{2}, "NET"}};
  EXPECT_EQ(devices.links_offered(), 2);
  for (rdma::Port& port : pair.device.port_list) port = down(port);
  EXPECT_EQ(devices.links_offered(), 1);
}

TEST_F(DeviceRegistryTest, EveryDeviceIsPolledArmedAndRung) {
  const Added first = add("first");
  const Added second = add("second");
  EXPECT_TRUE(devices.arm());
  EXPECT_TRUE(first.device.armed && second.device.armed);
  devices.disarm();
  EXPECT_FALSE(first.device.armed || second.device.armed);
  EXPECT_FALSE(devices.pending());
  first.device.completions.emplace_back();
  EXPECT_TRUE(devices.pending());
  EXPECT_FALSE(devices.arm()) << "something has arrived";
  EXPECT_TRUE(second.device.armed);
  EXPECT_FALSE(devices.poll(clock.at));
  EXPECT_FALSE(devices.pending());
  devices.ring_doorbells();
  devices.handle_readable(17);
  for (const FakeDevice* device : {&first.device, &second.device}) {
    EXPECT_EQ(device->doorbells, 1);
    EXPECT_EQ(device->readable, std::vector{17});
  }
}

TEST_F(DeviceRegistryTest, MoreIsThereWhenOneDeviceHasMore) {
  const Added first = add("first");
  const Added second = add("second");
  for (FakeDevice* busy : {&first.device, &second.device}) {
    busy->completions.resize(kCompletionsPerPoll * kPollsPerTurn);
    EXPECT_TRUE(devices.poll(clock.at));
    EXPECT_FALSE(devices.poll(clock.at));
  }
}

TEST_F(DeviceRegistryTest, RowsTellOfPortsAndOfDevicesThatCannotBeUsed) {
  const Added added = add("one", {active_port(1, 1), down(active_port(2, 2)),
                                  faulty(active_port(3, 3), rdma::PortFault::kLinkLayer)});
  added.reachability.pnets[PortNumber{1}] = "NET";
  config.pnet.id = "CONFIGURED";
  DeviceRow absent;
  absent.name = "absent";
  devices.set_unusable("verbs", {DeviceRow(), DeviceRow()});
  devices.set_unusable("verbs", {absent});
  const std::vector<DeviceRow> rows = devices.rows();
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_EQ(rows[0].name, "one");
  EXPECT_EQ(rows[0].kind, "verbs");
  EXPECT_EQ(rows[0].port, 1U);
  EXPECT_EQ(rows[0].state, "active");
  EXPECT_EQ(rows[0].gid, to_string(gid_of(1)));
  EXPECT_EQ(rows[0].mac, to_string(mac_of(1)));
  EXPECT_EQ(rows[0].pnet, "NET");
  EXPECT_EQ(rows[0].mtu_bytes, 1024U);
  EXPECT_EQ(rows[0].reason, "");
  EXPECT_EQ(rows[1].state, "down");
  EXPECT_EQ(rows[1].pnet, "CONFIGURED");
  EXPECT_EQ(rows[1].reason, "rnic_port_down");
  EXPECT_EQ(rows[2].state, kDeviceUnsupported);
  EXPECT_EQ(rows[2].reason, "rnic_unsupported");
  EXPECT_NE(rows[2].detail, "");
  EXPECT_EQ(rows[3].name, "absent");
}

TEST_F(DeviceRegistryTest, TheRowOfAnUnusedPortSaysThatItIsInAnotherNetwork) {
  const Added added = add("one", {active_port(1, 1), down(active_port(2, 2))});
  added.reachability.ours = false;
  const std::vector<DeviceRow> rows = devices.rows();
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].state, "active");
  EXPECT_EQ(rows[0].reason, "no_pnet");
  EXPECT_EQ(rows[0].detail, "the port is not in this pod's network (PNET), and is not used");
  EXPECT_EQ(rows[1].reason, "rnic_port_down") << "the nearer cause";
}

}  // namespace
}  // namespace fairlead::relay
