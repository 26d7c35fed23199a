// One device of a worker: what is made for it, when it can be used, and what becomes of all that
// arrives on it, whether for a link group or for nobody.

#include "relay/group/device_slot.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "group_fixture.h"
#include "stage_fixture.h"

namespace fairlead::relay {
namespace {

using Event = rdma::AsyncEvent;
using EventKind = smc::GroupEvent::Kind;
using Status = rdma::CompletionStatus;

constexpr Error kNoMemory{Errc::kExhausted, "the device has no more"};

class DeviceSlotTest : public GroupFixture {
 protected:
  explicit DeviceSlotTest(std::uint8_t links_max = 1) : GroupFixture(links_max) {
    auto made =
        std::make_unique<FakeDevice>("rnic", std::vector{active_port(1, 1), active_port(2, 2)});
    auto leads = std::make_unique<FakeReachability>();
    leads->pnets = {{PortNumber{1}, "NET"}, {PortNumber{2}, "NET"}};
    device = made.get();
    reachability = leads.get();
    made_device = std::move(made);
    made_reachability = std::move(leads);
  }

  Result<void> try_create() {
    auto made = DeviceSlot::create(std::move(made_device), std::move(made_reachability), groups,
                                   stats, budget);
    if (!made) return made.error();
    slot = std::move(*made);
    start.device = &slot->link_device();
    shared.devices = {&slot->link_device()};
    return {};
  }
  void create() { ASSERT_TRUE(try_create()); }
  // A group that the device's table of groups has, usable.
  void create_with_group() {
    create();
    establish();
    ASSERT_TRUE(group);
    Group& made = groups.add({}, {}, std::move(group));
    group.reset();
    in_table = &made;
  }
  // Messages arrive here, of the group's first queue pair.
  FakeReceiveQueue& receive_queue() {
    return dynamic_cast<FakeReceiveQueue&>(*first_queue_pair().options.receive_queue);
  }
  FakeQueuePair& first_queue_pair() { return *device->queue_pairs.at(0); }
  // The peer's message has arrived; it is in the first buffer that was posted.
  rdma::Completion arrived(const wire::LlcBody& body, Status status = Status::kSuccess) {
    std::array<std::byte, wire::kLlcBytesMax> bytes;
    const std::size_t count = wire::encode({wire::LlcVersion::k2, body}, bytes);
    const rdma::ReceiveRequest& into = receive_queue().posted.at(0);
    std::memcpy(into.buffer->bytes().data() + into.offset, bytes.data(), count);
    return {rdma::Completion::Kind::kReceive, status, into.id, first_queue_pair().number(),
            static_cast<std::uint32_t>(count)};
  }
  rdma::Completion sent_with(Status status, rdma::WorkId id = rdma::WorkId{1}) {
    return {rdma::Completion::Kind::kSend, status, id, first_queue_pair().number(), 0};
  }
  bool poll(const rdma::Completion& completion) {
    device->completions.push_back(completion);
    return slot->poll(clock.at);
  }
  void poll(Event::Kind kind, PortNumber port = {}, QpNumber queue_pair = {}) {
    device->events.push_back({kind, port, queue_pair});
    EXPECT_FALSE(slot->poll(clock.at));
  }
  // Buffers that have been posted once more, behind those of the beginning.
  std::vector<rdma::WorkId> posted_again() {
    std::vector<rdma::WorkId> ids;
    for (const rdma::ReceiveRequest& request : receive_queue().posted) ids.push_back(request.id);
    ids.erase(ids.begin(), ids.begin() + kPoolOfGroup.first);
    return ids;
  }
  std::string end_of_group() {
    std::string why;
    while (const auto next = in_table->protocol().output().poll_event())
      if (next->kind == EventKind::kTerminated) why = next->why;
    return why;
  }
  std::size_t lines_of_faults(std::size_t count, std::string* lines = nullptr) {
    device->faults.resize(count, {PeerId{{7}}, Error{Errc::kMalformed, "a wrong record"}});
    const std::string written = line_of([&] { slot->poll(clock.at); });
    if (lines != nullptr) *lines = written;
    return static_cast<std::size_t>(std::count(written.begin(), written.end(), '\n'));
  }
  Place place() const { return Place(companion, std::nullopt); }

  FakeStream companion;
  std::unique_ptr<rdma::Device> made_device;
  std::unique_ptr<Reachability> made_reachability;
  FakeDevice* device = nullptr;  // of the slot, as `reachability`
  FakeReachability* reachability = nullptr;
  std::unique_ptr<DeviceSlot> slot;  // outlives the groups
  PeerTable groups;
  Group* in_table = nullptr;
};

class DeviceSlotWithGroup : public DeviceSlotTest {
 protected:
  void SetUp() override { create_with_group(); }
};

TEST_F(DeviceSlotTest, GroupsFindTheDeviceAndWhereItLeads) {
  create();
  EXPECT_EQ(&slot->device(), device);
  EXPECT_EQ(&slot->reachability(), reachability);
  EXPECT_EQ(slot->link_device().device, device);
  EXPECT_EQ(slot->link_device().reachability, reachability);
  EXPECT_STREQ(slot->kind(), "verbs");
}

TEST_F(DeviceSlotTest, WhereGroupsHaveTheirOwnPoolsTheOneOfTheTrialGoes) {
  create();
  EXPECT_EQ(slot->link_device().shared_pool, nullptr);
  EXPECT_TRUE(device->buffers.empty());
  EXPECT_EQ(budget.left_bytes(), budget.limit_bytes());
}

TEST_F(DeviceSlotTest, ATrialIsForAPoolThatHasGrown) {
  const std::size_t needed = kPoolOfGroup.entries * rdma::kMessageBytesMax;
  ASSERT_TRUE(budget.take(MemoryUse::kConnections, budget.left_bytes() - needed + 1));
  EXPECT_STREQ(error_of(try_create()).what, kBudgetSpent);
}

TEST_F(DeviceSlotTest, AllGroupsShareAPoolWhereDomainsAreNoBorder) {
  device->able.receive_queue_crosses_domains = true;
  create();
  ReceivePool* const pool = slot->link_device().shared_pool;
  ASSERT_TRUE(pool);
  const PoolSize size = pool_of_worker(budget.limit_bytes());
  EXPECT_EQ(pool->buffer_count(), size.first);
  EXPECT_EQ(budget.used_bytes(MemoryUse::kMessages), size.first * rdma::kMessageBytesMax);
  slot.reset();
  EXPECT_EQ(budget.left_bytes(), budget.limit_bytes());
}

TEST_F(DeviceSlotTest, ADeviceWithoutADomainIsOfNoUse) {
  device->domain_error = kNoMemory;
  EXPECT_EQ(error_of(try_create()), kNoMemory);
}

TEST_F(DeviceSlotTest, ADeviceOnWhichNoGroupCouldReceiveIsOfNoUse) {
  device->buffer_error = kNoMemory;
  EXPECT_EQ(error_of(try_create()), kNoMemory);
  EXPECT_EQ(budget.left_bytes(), budget.limit_bytes());
}

TEST_F(DeviceSlotTest, ADeviceIsUsedWhileOneOfItsPortsIsUsable) {
  create();
  device->port_list[0].state = rdma::PortState::kDown;
  EXPECT_TRUE(slot->active());
  EXPECT_TRUE(slot->in_network());
  EXPECT_EQ(slot->choose_port(place()).value().number, PortNumber{2});
  reachability->ours = false;
  EXPECT_FALSE(slot->in_network());
  reachability->ours = true;
  EXPECT_FALSE(slot->withheld(place()));
  reachability->encrypted = true;
  EXPECT_TRUE(slot->withheld(place()));
  device->port_list[1].fault = rdma::PortFault::kNoGid;
  EXPECT_FALSE(slot->active());
  EXPECT_FALSE(slot->in_network());
  EXPECT_FALSE(slot->withheld(place())) << "nothing is kept from anybody";
}

// What arrives.

struct Arrival : Case {
  void (*change)(rdma::Completion&);
  unsigned heard;  // by the group
  bool posted_again;
  const char* group_end;
};

class DeviceSlotArrivals : public DeviceSlotWithGroup,
                           public testing::WithParamInterface<Arrival> {};

TEST_P(DeviceSlotArrivals, GoToTheirGroupAndTheirBuffersArePostedAgain) {
  const std::uint64_t before = stats.llc_received.get();
  rdma::Completion completion = arrived(wire::TestLink());
  GetParam().change(completion);
  EXPECT_FALSE(poll(completion));
  EXPECT_EQ(stats.llc_received.get(), before + GetParam().heard);
  EXPECT_EQ(stats.llc_rejected.get(), 0U);
  EXPECT_EQ(posted_again(), std::vector(GetParam().posted_again ? 1 : 0, completion.id));
  EXPECT_EQ(end_of_group(), GetParam().group_end);
}

INSTANTIATE_TEST_SUITE_P(
    Each, DeviceSlotArrivals,
    testing::Values(
        Arrival{"AMessage", [](rdma::Completion&) {}, 1, true, ""},
        Arrival{"AMessageForNoLink", [](rdma::Completion& c) { c.queue_pair = QpNumber{999}; }, 0,
                true, ""},
        Arrival{"AMessageWhosePoolIsGone",
                [](rdma::Completion& c) { c.id = rdma::WorkId{std::uint64_t{999} << 16U}; }, 0,
                false, ""},
        Arrival{"ABufferThatWasFlushed", [](rdma::Completion& c) { c.status = Status::kFlushed; },
                0, true, "queue pair in error"}),
    CaseName());

TEST_F(DeviceSlotWithGroup, WhatIsSentIsReportedToItsGroup) {
  in_table->sender().flush(clock.at);
  const auto before = in_table->sender().done_requests()[0];
  const rdma::WorkId last = first_queue_pair().posted.back().request.id;
  ASSERT_NE(before, static_cast<std::uint64_t>(last));
  EXPECT_FALSE(poll(arrived(wire::TestLink())));
  EXPECT_EQ(in_table->sender().done_requests()[0], before) << "what was received is no report";
  EXPECT_FALSE(poll(sent_with(Status::kSuccess, last)));
  EXPECT_EQ(in_table->sender().done_requests()[0], static_cast<std::uint64_t>(last));
}

TEST_F(DeviceSlotWithGroup, CompletionsOfNoLinkAreIgnored) {
  rdma::Completion completion = sent_with(Status::kRetryExceeded);
  completion.queue_pair = QpNumber{999};
  EXPECT_FALSE(poll(completion));
  EXPECT_TRUE(in_table->protocol().usable());
}

struct FailedSend : Case {
  Status status;
  const char* why;
};

class DeviceSlotFailures : public DeviceSlotWithGroup,
                           public testing::WithParamInterface<FailedSend> {};

TEST_P(DeviceSlotFailures, ALinkFailsWithARequest) {
  EXPECT_FALSE(poll(sent_with(GetParam().status)));
  EXPECT_EQ(stats.link_failed.get(), 1U);
  EXPECT_EQ(stats.link_refused.get(), GetParam().status == Status::kRemoteAccessError ? 1U : 0U);
  EXPECT_EQ(end_of_group(), GetParam().why);
}

INSTANTIATE_TEST_SUITE_P(
    Each, DeviceSlotFailures,
    testing::Values(FailedSend{{"Flushed"}, Status::kFlushed, "queue pair in error"},
                    FailedSend{{"Refused"}, Status::kRemoteAccessError, "remote access error"},
                    FailedSend{{"Unanswered"}, Status::kRetryExceeded, "peer does not answer"},
                    FailedSend{{"Local"}, Status::kLocalError, "local error"}),
    CaseName());

TEST_F(DeviceSlotTest, ATurnTakesInOnlySoMuch) {
  create();
  device->completions.resize(kCompletionsPerPoll * kPollsPerTurn + 1);
  EXPECT_TRUE(slot->poll(clock.at));
  EXPECT_EQ(device->completions.size(), 1U);
  EXPECT_FALSE(slot->poll(clock.at));
  EXPECT_TRUE(device->completions.empty());
}

// A device in need would otherwise be without buffers until the end of the turn.
TEST_F(DeviceSlotWithGroup, BuffersArePostedAgainInTheMiddleOfATurn) {
  const rdma::Completion message = arrived(wire::TestLink());
  device->completions.assign(kCompletionsPerPoll, sent_with(Status::kSuccess));
  device->completions[0] = message;
  device->completions.push_back(arrived(wire::TestLink()));
  receive_queue().batches.clear();
  EXPECT_FALSE(slot->poll(clock.at));
  EXPECT_EQ(receive_queue().batches, (std::vector<std::size_t>{1, 1}));
}

TEST_F(DeviceSlotWithGroup, BuffersThatCannotBePostedAgainAreToldOf) {
  receive_queue().post_error = kNoMemory;
  const std::string line = line_of([&] { EXPECT_FALSE(poll(arrived(wire::TestLink()))); });
  EXPECT_NE(line.find("event=receives_lost device=rnic"), std::string::npos) << line;
  EXPECT_NE(line.find(kNoMemory.what), std::string::npos) << line;
  const std::string lines = line_of([&] {
    for (unsigned i = 0; i < 2 * kFaultLines; ++i) slot->poll(clock.at);
  });
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), kFaultLines - 1);
}

TEST_F(DeviceSlotWithGroup, AReceiveLimitIsArmedAgain) {
  receive_queue().limit = 0;
  poll(Event::Kind::kReceiveLimit);
  EXPECT_EQ(stats.receive_limit_events.get(), 1U);
  EXPECT_FALSE(poll(arrived(wire::TestLink())));
  EXPECT_NE(receive_queue().limit, 0U);
}

TEST_F(DeviceSlotWithGroup, ALinkFailsWithThePeersQueuePair) {
  poll(Event::Kind::kQueuePairFatal, {}, QpNumber{999});
  EXPECT_TRUE(in_table->protocol().usable());
  poll(Event::Kind::kQueuePairFatal, {}, first_queue_pair().number());
  EXPECT_EQ(end_of_group(), "the peer's queue pair has gone");
  EXPECT_EQ(stats.link_refused.get(), 0U);
}

TEST_F(DeviceSlotWithGroup, ALinkIsRefusedWithAQueuePairInError) {
  poll(Event::Kind::kQueuePairError, {}, QpNumber{999});
  EXPECT_TRUE(in_table->protocol().usable());
  poll(Event::Kind::kQueuePairError, {}, first_queue_pair().number());
  EXPECT_EQ(end_of_group(), "the queue pair has refused a packet");
  poll(Event::Kind::kQueuePairError, {}, first_queue_pair().number());
  EXPECT_EQ(stats.link_failed.get(), 1U);
  EXPECT_EQ(stats.link_refused.get(), 1U);
}

TEST_F(DeviceSlotWithGroup, ALinkIsRefusedWithAMessageThatDoesNotFit) {
  EXPECT_FALSE(poll(arrived(wire::TestLink(), Status::kLocalError)));
  EXPECT_EQ(stats.link_refused.get(), 1U);
}

TEST_F(DeviceSlotWithGroup, AllLinksOfAFailedDeviceFail) {
  start.device = &one.link;
  shared.devices.push_back(&one.link);
  establish();
  Group& elsewhere = groups.add({}, {}, std::move(group));
  poll(Event::Kind::kDeviceFatal);
  EXPECT_EQ(end_of_group(), "the device has failed");
  EXPECT_TRUE(elsewhere.protocol().usable());
}

TEST_F(DeviceSlotTest, FaultsOfPeersAreCountedAndToldOf) {
  create();
  std::string lines;
  EXPECT_EQ(lines_of_faults(1, &lines), 1U);
  EXPECT_NE(lines.find(" WARN "), std::string::npos) << lines;
  EXPECT_NE(lines.find("event=peer_fault device=rnic peer_id=" + to_string(PeerId{{7}})),
            std::string::npos)
      << lines;
  EXPECT_NE(lines.find("a wrong record"), std::string::npos) << lines;
  EXPECT_EQ(lines_of_faults(2), 2U);
  EXPECT_EQ(stats.peer_faults.get(), 3U);
}

TEST_F(DeviceSlotTest, APeerThatIsLateIsNotAtFault) {
  create();
  for (const Errc code : {Errc::kTimedOut, Errc::kPeerGone}) {
    device->faults.push_back({PeerId{{7}}, Error{code, "memory of an announced buffer"}});
    const std::string line = line_of([&] { slot->poll(clock.at); });
    EXPECT_NE(line.find("event=peer_late device=rnic"), std::string::npos) << line;
  }
  EXPECT_EQ(stats.peer_faults.get(), 0U);
}

TEST_F(DeviceSlotTest, PeersCannotFillTheLog) {
  create();
  EXPECT_EQ(lines_of_faults(kFaultLines + 5), kFaultLines);
  EXPECT_EQ(stats.peer_faults.get(), kFaultLines + 5);
  clock.at += kFaultLineInterval - Duration(1);
  EXPECT_EQ(lines_of_faults(1), 0U);
  clock.at += Duration(1);
  std::string lines;
  EXPECT_EQ(lines_of_faults(1, &lines), 1U);
  EXPECT_NE(lines.find("left_out=6"), std::string::npos) << lines;
}

class DeviceSlotOfTwoLinks : public DeviceSlotTest {
 protected:
  DeviceSlotOfTwoLinks() : DeviceSlotTest(2) {}

  // A group that could not get a second link, and now it could.
  void create_with_group_that_lacks_a_link() {
    create();
    connect();
    reachability->encrypted = true;
    confirm(0);
    reachability->encrypted = false;
    ASSERT_FALSE(sent<wire::AddLink>());
    in_table = &groups.add({}, {}, std::move(group));
  }
  bool link_offered() { return device->queue_pairs.size() == 2; }
};

struct PortNews : Case {
  Event::Kind kind;
  const char* line;
  bool brings_link;
};

class DeviceSlotPorts : public DeviceSlotOfTwoLinks,
                        public testing::WithParamInterface<PortNews> {};

TEST_P(DeviceSlotPorts, NewsOfAPortIsLoggedAndForGroups) {
  create_with_group_that_lacks_a_link();
  const std::string line = line_of([&] { poll(GetParam().kind, PortNumber{2}); });
  EXPECT_NE(line.find(GetParam().line), std::string::npos) << line;
  EXPECT_EQ(link_offered(), GetParam().brings_link);
}

INSTANTIATE_TEST_SUITE_P(
    Each, DeviceSlotPorts,
    testing::Values(PortNews{{"Down"},
                             Event::Kind::kPortDown,
                             " WARN relay.device event=port_down device=rnic port=2",
                             false},
                    PortNews{{"Up"},
                             Event::Kind::kPortUp,
                             " INFO relay.device event=port_up device=rnic port=2",
                             true},
                    PortNews{{"Gid"},
                             Event::Kind::kGidChange,
                             " INFO relay.device event=gid_change device=rnic port=2",
                             true}),
    CaseName());

TEST_F(DeviceSlotOfTwoLinks, APortThatGoesDownTakesItsLinks) {
  create();
  establish_two_links();
  in_table = &groups.add({}, {}, std::move(group));
  device->port_list[1].state = rdma::PortState::kDown;
  poll(Event::Kind::kPortDown, PortNumber{2});
  EXPECT_TRUE(in_table->protocol().links().active(0));
  EXPECT_FALSE(in_table->protocol().links().active(1));
}

}  // namespace
}  // namespace fairlead::relay
