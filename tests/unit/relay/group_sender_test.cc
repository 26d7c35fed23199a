// What a group posts: messages and writes in their order, as far as there is room, in batches of
// one link each; what completions free; and what becomes of it all when a link fails.

#include "relay/group/group_sender.h"

#include "driver_parts.h"
#include "smc/connection/cursor.h"

namespace fairlead::relay {
namespace {

using Kind = rdma::WorkRequest::Kind;

constexpr BufferSizes kSizes{0, 0};
constexpr std::uint32_t kRingBytes = smc::element_bytes(0);
constexpr std::size_t kRequestsPerMessage = 2;  // a write, and what tells of it

class Failures final : public LinkFailureHandler {
 public:
  void handle_link_failure(smc::LinkIndex link, const char* why, TimePoint) override {
    ++count;
    last_link = link;
    last_why = why;
  }
  int count = 0;
  smc::LinkIndex last_link = smc::kLinksMax;
  std::string last_why;
};

class GroupSenderTest : public DriverTest {
 protected:
  explicit GroupSenderTest(std::uint8_t links_max = 1) : DriverTest(links_max) {}

  struct Sending {
    std::unique_ptr<SmcRelay> relay;
    CountingOwner owner;
  };
  // A connection on the first link with a send ring.
  Sending& add_connection() {
    Sending& added = *sending.emplace_back(std::make_unique<Sending>());
    const AlertToken token = *table.reserve();
    added.relay = std::make_unique<SmcRelay>(token, smc::ElementId{}, element,
                                             SmcRelay::Place{nullptr, 0, &added.owner});
    SmcRelay& relay = *added.relay;
    const smc::ElementId ring = memory.take_send_ring(kSizes).value();
    relay.buffers().take_send_ring(ring, memory.send_ring_bytes(ring));
    relay.connection().set_peer(AlertToken{2}, {RemoteKey{9}, RemoteAddress{0x10000}, kRingBytes},
                                kRingBytes);
    table.set(token, &relay);
    return added;
  }
  void produce(Sending& from, std::uint32_t bytes) {
    from.relay->connection().produced(bytes);
    sender.schedule(*from.relay);
  }
  void produce_and_flush(Sending& from, std::uint32_t bytes) {
    produce(from, bytes);
    sender.flush(clock.at);
  }
  // A connection has sent its last message over the first link.
  Sending& abort_connection() {
    Sending& from = add_connection();
    from.relay->connection().abort();
    sender.schedule(*from.relay);
    sender.flush(clock.at);
    return from;
  }
  // The connection's owner has taken its end.
  void remove(Sending& gone) { table.release(gone.relay->connection().local_token()); }
  // Sends what the protocol has said until here.
  void flush_llc() {
    sender.schedule_llc();
    sender.flush(clock.at);
  }
  void start() {
    confirm_first_link();
    flush_llc();
    ASSERT_TRUE(sender.drained());
    queue_pair(0).posted.clear();
    queue_pair(0).batches.clear();
  }
  std::vector<FakeQueuePair::Posted>& posted(smc::LinkIndex link = 0) {
    return queue_pair(link).posted;
  }

  smc::ConnectionTable<SmcRelay> table{7};
  std::vector<std::byte> element{kRingBytes};
  std::vector<std::unique_ptr<Sending>> sending;
  Failures failures;
  GroupSender sender{shared, protocol, transport, memory, table, failures};
};

class StartedGroupSenderTest : public GroupSenderTest {
 protected:
  void SetUp() override { start(); }
};

TEST_F(GroupSenderTest, MessagesOfTheGroupAreSignaled) {
  confirm_first_link();
  EXPECT_FALSE(sender.pending());
  sender.schedule_llc();
  EXPECT_TRUE(sender.pending());
  EXPECT_FALSE(sender.drained());
  sender.flush(clock.at);
  EXPECT_TRUE(sender.drained());
  EXPECT_FALSE(sender.pending());
  ASSERT_EQ(posted().size(), 1U);
  EXPECT_EQ(posted()[0].request.kind, Kind::kSend);
  EXPECT_TRUE(posted()[0].request.signaled);
  EXPECT_TRUE(queue_pair(0).last<wire::ConfirmLink>());
  EXPECT_EQ(stats.llc_sent.get(), 1U);
  EXPECT_EQ(sender.last_request(0), 1U);
}

TEST_F(GroupSenderTest, AMessageOfTheGroupWaitsForRoom) {
  confirm_first_link();
  queue_pair(0).room = 0;
  flush_llc();
  EXPECT_TRUE(posted().empty());
  EXPECT_TRUE(sender.pending());
  EXPECT_FALSE(sender.drained());
  queue_pair(0).room = 1;
  sender.flush(clock.at);
  EXPECT_EQ(posted().size(), 1U);
  EXPECT_TRUE(sender.drained());
}

TEST_F(GroupSenderTest, AMessageForAFailedLinkIsDropped) {
  confirm_first_link();
  transport.fail(0);
  flush_llc();
  EXPECT_TRUE(posted().empty());
  EXPECT_TRUE(sender.drained());
}

TEST_F(StartedGroupSenderTest, BytesAreWrittenAndThenToldOf) {
  Sending& from = add_connection();
  produce_and_flush(from, 100);
  ASSERT_EQ(posted().size(), kRequestsPerMessage);
  const rdma::WorkRequest& write = posted()[0].request;
  EXPECT_EQ(write.kind, Kind::kWrite);
  EXPECT_EQ(write.from.buffer, &memory.send_rings().buffer(*from.relay->buffers().send_ring()));
  EXPECT_EQ(write.from.length_bytes, 100U);
  EXPECT_EQ(write.to.rkey, RemoteKey{9});
  EXPECT_EQ(write.to.address, RemoteAddress{0x10000});
  EXPECT_FALSE(write.signaled);
  EXPECT_EQ(posted()[1].request.kind, Kind::kSend);
  EXPECT_EQ(posted()[1].message.size(), wire::kCdcBytes);
  EXPECT_EQ(stats.cdc_sent.get(), 1U);
  EXPECT_FALSE(sender.pending());
}

TEST_F(StartedGroupSenderTest, AConnectionIsScheduledOnceOrNotAtAll) {
  Sending& from = add_connection();
  produce(from, 100);
  sender.schedule(*from.relay);
  sender.unschedule(*from.relay);
  EXPECT_FALSE(sender.pending());
  sender.flush(clock.at);
  EXPECT_TRUE(posted().empty());
  sender.schedule(*from.relay);
  EXPECT_TRUE(sender.pending());
}

TEST_F(StartedGroupSenderTest, ATransmissionGoesWholeOrWaits) {
  Sending& from = add_connection();
  queue_pair(0).room = kRequestsPerTransmit - 1;
  produce_and_flush(from, 100);
  EXPECT_TRUE(posted().empty());
  EXPECT_TRUE(sender.pending());
  EXPECT_TRUE(sender.drained()) << "a connection is no reason to wait";
  queue_pair(0).room = kRequestsPerTransmit;
  sender.flush(clock.at);
  EXPECT_EQ(posted().size(), kRequestsPerMessage);
}

TEST_F(GroupSenderTest, ConnectionsOfALinkShareBatches) {
  constexpr std::size_t kConnections = 40;
  start();
  for (std::size_t i = 0; i < kConnections; ++i) produce(add_connection(), 1);
  sender.flush(clock.at);
  ASSERT_EQ(posted().size(), kConnections * kRequestsPerMessage);
  ASSERT_EQ(queue_pair(0).batches.size(), 2U);
  EXPECT_GT(queue_pair(0).batches[0], SendBatch::kRequestsMax - kRequestsPerTransmit);
  for (std::size_t i = 1; i < posted().size(); ++i)
    EXPECT_EQ(static_cast<std::uint64_t>(posted()[i].request.id),
              static_cast<std::uint64_t>(posted()[i - 1].request.id) + 1);
}

TEST_F(StartedGroupSenderTest, RequestsAreSignaledNowAndThen) {
  Sending& from = add_connection();
  for (unsigned i = 0; i < kSignalEvery; ++i) produce_and_flush(from, 1);
  ASSERT_EQ(posted().size(), 2U * kSignalEvery);
  for (std::size_t i = 0; i < posted().size(); ++i)
    EXPECT_EQ(posted()[i].request.signaled, (i + 1) % kSignalEvery == 0) << i;
}

TEST_F(StartedGroupSenderTest, ACompletionIsWantedOnceAPartOfTheRingIsTaken) {
  Sending& from = add_connection();
  produce_and_flush(from, kRingBytes / kRingShareHeld - 1);
  EXPECT_FALSE(posted().back().request.signaled);
  produce_and_flush(from, 1);
  EXPECT_TRUE(posted().back().request.signaled);
}

TEST_F(StartedGroupSenderTest, ACompletionFreesWhatWasStagedBeforeIt) {
  Sending& first = add_connection();
  Sending& second = add_connection();
  produce_and_flush(first, kRingBytes / 2);
  const rdma::WorkId done = posted().back().request.id;
  produce_and_flush(second, kRingBytes / 2);
  first.owner.events = second.owner.events = 0;
  sender.handle_send_done(0, done);
  EXPECT_EQ(first.owner.events, 1);
  EXPECT_EQ(second.owner.events, 0);
  EXPECT_EQ(sender.done_requests()[0], static_cast<std::uint64_t>(done));
  sender.handle_send_done(0, posted().back().request.id);
  EXPECT_EQ(first.owner.events, 1);
  EXPECT_EQ(second.owner.events, 1);
  EXPECT_EQ(sender.done_requests()[0], sender.last_request(0));
}

TEST_F(StartedGroupSenderTest, ACompletionForAConnectionThatHasGoneIsIgnored) {
  Sending& from = add_connection();
  produce_and_flush(from, 100);
  from.owner.events = 0;
  remove(from);
  sender.handle_send_done(0, posted().back().request.id);
  EXPECT_EQ(from.owner.events, 0);
}

TEST_F(StartedGroupSenderTest, AQueuePairThatTakesNothingHasFailed) {
  queue_pair(0).post_error = Error{Errc::kWrongState, "queue pair in error"};
  produce_and_flush(add_connection(), 100);
  EXPECT_EQ(failures.count, 1);
  EXPECT_EQ(failures.last_link, 0);
  EXPECT_EQ(failures.last_why, "queue pair in error");
  queue_pair(0).post_error.reset();
  sender.flush(clock.at);
  EXPECT_TRUE(posted().empty()) << "the batch is gone with the link";
}

TEST_F(StartedGroupSenderTest, NothingIsReportedOfAFailedLink) {
  Sending& from = add_connection();
  produce_and_flush(from, 100);
  const rdma::WorkId last = posted().back().request.id;
  transport.fail(0);
  sender.handle_link_failed(0);
  from.owner.events = 0;
  sender.handle_send_done(0, last);
  EXPECT_EQ(from.owner.events, 0);
  EXPECT_EQ(sender.done_requests()[0], std::nullopt);
  produce_and_flush(from, 100);
  EXPECT_EQ(posted().size(), kRequestsPerMessage) << "nothing goes over it";
}

TEST_F(StartedGroupSenderTest, NumbersOfRequestsGoOnWhenALinkIsUsedAgain) {
  produce_and_flush(add_connection(), 100);
  const std::uint64_t last = sender.last_request(0);
  sender.reset_link(0);
  EXPECT_EQ(sender.last_request(0), last);
  EXPECT_EQ(sender.done_requests()[0], last) << "nothing of the old queue pair is on its way";
  produce_and_flush(add_connection(), 100);
  EXPECT_EQ(static_cast<std::uint64_t>(posted().back().request.id), last + kRequestsPerMessage);
}

class GroupSenderOfTwoLinks : public GroupSenderTest {
 protected:
  GroupSenderOfTwoLinks() : GroupSenderTest(2) {}

  void start_two_links() {
    start();
    add_second_link();
    flush_llc();
    posted(0).clear();
    posted(1).clear();
  }
  void fail_first_link() {
    transport.fail(0);
    protocol.handle_link_down(0, clock.at, "cut");
    while (protocol.poll_task(clock.at)) continue;
    while (protocol.output().poll_llc()) continue;
    sender.handle_link_failed(0);
  }
};

// A message with keys does not fit the slots of a batch.
TEST_F(GroupSenderOfTwoLinks, ALongMessageIsABatchOfItsOwn) {
  ASSERT_TRUE(create(0, one.at()));
  confirm_first_link();
  connect_second_link();
  flush_llc();
  bool found = false;
  std::size_t at = 0;
  for (const std::size_t count : queue_pair(0).batches) {
    if (posted()[at].message.size() > wire::kCdcBytes) {
      EXPECT_EQ(count, 1U);
      const auto message = wire::decode_llc(posted()[at].message);
      EXPECT_TRUE(message && std::holds_alternative<wire::AddLink>(message->body));
      found = true;
    }
    at += count;
  }
  EXPECT_TRUE(found);
}

TEST_F(GroupSenderOfTwoLinks, EachLinkHasItsBatch) {
  start_two_links();
  produce(add_connection(), 1);
  Sending& other = add_connection();
  other.relay->move_to(1);
  produce(other, 1);
  sender.flush(clock.at);
  EXPECT_EQ(posted(0).size(), kRequestsPerMessage);
  ASSERT_EQ(posted(1).size(), kRequestsPerMessage);
  EXPECT_EQ(
      posted(1)[0].request.from.buffer,
      &memory.send_rings().buffer(*other.relay->buffers().send_ring(), transport.attachment(1)));
}

TEST_F(GroupSenderOfTwoLinks, TheLastMessageOfAConnectionIsRepeatedOverAnotherLink) {
  start_two_links();
  Sending& gone = abort_connection();
  EXPECT_TRUE(posted().back().request.signaled);
  const std::vector<std::byte> last = posted().back().message;
  remove(gone);
  fail_first_link();
  EXPECT_TRUE(sender.pending());
  EXPECT_FALSE(sender.drained());
  sender.flush(clock.at);
  ASSERT_EQ(posted(1).size(), 1U);
  EXPECT_EQ(posted(1)[0].message, last);
  EXPECT_TRUE(posted(1)[0].request.signaled);
  EXPECT_TRUE(sender.drained());
}

TEST_F(GroupSenderOfTwoLinks, AConnectionThatIsThereRepeatsItsMessagesItself) {
  start_two_links();
  abort_connection();
  fail_first_link();
  EXPECT_TRUE(sender.drained());
}

TEST_F(GroupSenderOfTwoLinks, AMessageThatWasTakenIsNotRepeated) {
  start_two_links();
  Sending& gone = abort_connection();
  sender.handle_send_done(0, posted().back().request.id);
  remove(gone);
  fail_first_link();
  EXPECT_TRUE(sender.drained());
}

TEST_F(GroupSenderOfTwoLinks, AGroupThatHasEndedRepeatsNothing) {
  start_two_links();
  remove(abort_connection());
  fail_first_link();
  protocol.terminate(wire::DeleteLinkReason::kOperator, true, "the end");
  sender.flush(clock.at);
  EXPECT_TRUE(posted(1).empty());
  EXPECT_TRUE(sender.drained());
}

TEST_F(StartedGroupSenderTest, WithOneLinkNoLastMessageIsKept) {
  remove(abort_connection());
  ASSERT_EQ(posted().size(), 1U);
  sender.handle_link_failed(0);
  EXPECT_TRUE(sender.drained());
}

}  // namespace
}  // namespace fairlead::relay
