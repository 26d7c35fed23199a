// Misbehaving peers, floods, and exhausted descriptors; see shm_hostile_test.h for goal and method.
#include "conformance/shm_hostile_test.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <optional>
#include <thread>
#include <utility>

#include "base/linux/descriptors.h"
#include "descriptor_limit.h"

namespace fairlead::rdma::shm {
namespace {

// What no device writes; each must end the channel.
TEST_F(ShmHostile, LiesEndTheChannel) {
  constexpr std::uint64_t kFar = std::uint64_t{1} << 60;
  const auto put = [&](std::uint64_t length, std::uint64_t tail) {
    fake_->put(facing_->number(), kFakeQp, length);
    fake_->out().tail = tail;
  };
  const auto say_nonsense = [&](int kind) {
    ControlBytes bytes{};
    bytes[0] = static_cast<std::byte>(kind);
    fake_->say_raw(bytes);
  };
  const auto tell = [&](SharedWord& index, std::uint64_t lie) {
    index = lie;
    fake_->ring_bell();
  };
  const struct {
    const char* name;
    std::function<void()> tell;
  } lies[] = {
      {"tail", [&] { tell(fake_->out().tail, kRingSlots + 1); }},
      {"tail that runs backwards",
       [&] {
         fake_->put(facing_->number(), kFakeQp, 10);
         run();
         EXPECT_EQ(victim_->received.size(), 1u);
         fake_->out().tail = 0;
       }},
      {"control tail",
       [&] { tell(fake_->control_out().tail, fake_->control_tail + kControlSlots + 1); }},
      {"control tail that runs backwards", [&] { tell(fake_->control_out().tail, 0); }},
      {"control message of kind 0", [&] { say_nonsense(0); }},
      {"control message of kind 5", [&] { say_nonsense(5); }},
      {"control message of kind 255", [&] { say_nonsense(255); }},
      {"nonsense before a write",
       [&] {
         say_nonsense(255);
         EXPECT_EQ(post(*facing_, write_request(victim_->memory(), 0, 1, slice())).error().code,
                   Errc::kWrongState);
       }},
      {"empty message", [&] { put(0, 1); }},
      {"message that reaches past the tail", [&] { put(49, 1); }},
      {"too long a message", [&] { put(kMessageBytesMax + 1, kRingSlots); }},
      {"message of the largest length", [&] { put(~std::uint64_t{0}, 1); }},
      {"buffer smaller than it says", [&] { offer(announcement(8192), memory_of(4096).get()); }},
      {"buffer announced twice", [&] { offer(announcement(4096), offer_memory(4096).get()); }},
      {"head that runs backwards",
       [&] {
         for (int i = 0; i < 3; ++i) EXPECT_TRUE(post(*facing_, any_send(true)));
         fake_->in().head = 2;
         run();
         EXPECT_EQ(victim_->sent(*facing_).size(), 2u);
         fake_->in().head = 1;
       }},
      {"head that is taken back before the device looks at it again", [&] {
         while (facing_->send_room() != 0) ASSERT_TRUE(post(*facing_, any_send(true)));
         fake_->in().head = kFar;
         EXPECT_EQ(post(*facing_, any_send()).error().code, Errc::kWrongState);
         fake_->in().head = 0;
       }}};
  for (const auto& lie : lies) {
    SCOPED_TRACE(lie.name);
    face_fake();
    lie.tell();
    expect_given_up();
  }
}

// A tail that is wrong only while control messages are handled must not become a position to wait
// for.
TEST_F(ShmHostile, TailThatLiesWhileAQueuePairLeaves) {
  for (const std::uint64_t lie : {kRingSlots, kRingSlots + 1, ~std::uint64_t{0}}) {
    face_fake();
    fake_->out().tail = fake_->tail + lie;
    say(*fake_, Kind::kQueuePairGone, *facing_);
    (void)facing_->remote_memory(slice(), 1);
    fake_->out().tail = fake_->tail;
    run();
    EXPECT_FALSE(device_->pending());
    expect_given_up();
  }
}

// After the end of a channel, only messages that were already in its ring are handled.
TEST_F(ShmHostile, MessagesAfterTheEndOfTheirChannel) {
  constexpr int kAhead = 100, kEachTurn = 8, kTurnsMax = 100;
  face_fake();
  for (int i = 0; i < kAhead; ++i) fake_->put(facing_->number(), kFakeQp, 44);
  fake_->ring.reset();
  fake_->watch.reset();
  for (int turn = 0; turn < kTurnsMax && !victim_->has_fatal(*facing_); ++turn) {
    victim_->watcher().wait(*device_, 0);
    for (int i = 0; i < kEachTurn; ++i) fake_->put(facing_->number(), kFakeQp, 44);
    victim_->turn();
  }
  EXPECT_TRUE(victim_->has_fatal(*facing_));
  EXPECT_LE(victim_->received.size(), std::size_t{kAhead + 2 * kEachTurn});
}

TEST_F(ShmHostile, HeadBeyondWhatWasSent) {
  face_fake();
  ASSERT_TRUE(post(*facing_, any_send(true)));
  fake_->in().head = std::uint64_t{1} << 60;
  expect_given_up();
  ASSERT_EQ(victim_->sent(*facing_).size(), 1u);
  EXPECT_EQ(victim_->sent(*facing_)[0].status, CompletionStatus::kRetryExceeded);
}

// All slots of the ring are of use, those that were never used and those that the peer gave back.
TEST_F(ShmHostile, MessageThatFitsTheRingExactlyIsTaken) {
  constexpr std::uint64_t kWhole = kRingSlots / kSlotsPerMessageMax;
  constexpr std::size_t kRest =
      (kRingSlots - kWhole * kSlotsPerMessageMax) * kSlotBytes - kHeaderBytes;
  face_fake();
  const Bytes message = pattern(kMessageBytesMax, 1);
  for (std::uint64_t i = 0; i < kWhole; ++i)
    ASSERT_TRUE(post(*facing_, send_request(message, true)));
  ASSERT_TRUE(post(*facing_, send_request(std::span(message).first(kRest), true)));
  EXPECT_EQ(post(*facing_, any_send()).error().code, Errc::kExhausted);
  fake_->in().head = kSlotsPerMessageMax;
  EXPECT_TRUE(post(*facing_, send_request(message, true)));
  expect_unmoved();
}

TEST_F(ShmHostile, WordsOfSomebodyElsesQueuePair) {
  face_fake();
  fake_->put(ours_->number(), kFakeQp, 44);
  fake_->put(ours_->number(), theirs_->number(), 44);
  run();
  EXPECT_TRUE(victim_->received.empty());
  say(*fake_, Kind::kQueuePairGone, *ours_, theirs_->number());
  say(*fake_, Kind::kQueuePairReady, *ours_, theirs_->number());
  expect_unmoved();
}

// Another peer uses the number of the queue pair that is expected, and is the first to speak.
TEST_F(ShmHostile, WhoSpeaksForTheOtherEndOfAnotherIsRefused) {
  facing_ = &connect_to(*fake_);
  FakePeer other(fabric_, 10, peer_id(1));
  for (FakePeer* peer : {&other, fake_.get()}) {
    say(*peer, Kind::kQueuePairReady, *facing_);
    peer->put(facing_->number(), kFakeQp, 44);
    run();
    EXPECT_EQ(victim_->received.size(), peer == &other ? 0u : 1u);
  }
  EXPECT_TRUE(hears_refusal(other));
  expect_unmoved();
}

TEST_F(ShmHostile, FalseNameOnASecondChannelDoesNotReachTheFirst) {
  fake_->open_channel_as(peer_id(1), peer_id(2));
  say(*fake_, Kind::kQueuePairReady, *ours_, theirs_->number());
  say(*fake_, Kind::kQueuePairGone, *ours_, theirs_->number());
  fake_->put(ours_->number(), theirs_->number(), 44);
  run();
  EXPECT_TRUE(victim_->received.empty());
  EXPECT_FALSE(victim_->has_fatal(*ours_));
}

TEST_F(ShmHostile, HolesPunchedIntoABufferInUse) {
  face_fake();
  const FileDescriptor segment = offer_memory(1 << 16);
  run();
  auto view = facing_->remote_memory(slice(), 1 << 16);
  ASSERT_TRUE(view);
  for (int i = 0; i < 4; ++i) {
    std::memset(view->data(), i, view->size());
    ASSERT_EQ(::fallocate(segment.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 1 << 16),
              0);
  }
  expect_unmoved();
}

TEST_F(ShmHostile, EndThatOpensNoChannel) {
  const FileDescriptor small = memory_of(sizeof(ChannelMemory) - 4096);
  const FileDescriptor null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const FileDescriptor path(::open("/tmp", O_PATH | O_CLOEXEC));
  auto ends = std::move(broker::make_channel(sizeof(ChannelMemory)).value());
  const int memory = ends[1].memory.get(), ring = ends[1].ring.get(), watch = ends[1].watch.get();
  const std::array<int, 3> cases[] = {{small.get(), ring, watch},
                                      {memory, null.get(), watch},
                                      {memory, ring, null.get()},
                                      {memory, ring, path.get()},
                                      {ring, memory, watch}};
  const auto copy = [](int fd) { return FileDescriptor(::fcntl(fd, F_DUPFD_CLOEXEC, 0)); };
  for (const auto& fds : cases) {
    fake_->give_end(peer_id(1), peer_id(9), {copy(fds[0]), copy(fds[1]), copy(fds[2])});
    run();
    EXPECT_TRUE(device_->poll_fault()) << &fds - cases;
  }
}

TEST_F(ShmHostile, SleepingWordThatNeverRestsDoesNotBlockTheRinger) {
  face_fake();
  for (unsigned i = 0; i < 10000; ++i) {
    fake_->memory().sides[0].sleeping = ~std::uint64_t{0};
    ASSERT_TRUE(post(*facing_, any_send(i % 16 == 0)));
    device_->ring_doorbells();
    fake_->in().head = fake_->in().tail.load();
    if (i % 16 == 0) victim_->turn();
  }
  expect_unmoved();
}

// Nothing can be sent over a bell, in neither direction.
TEST_F(ShmHostile, BellCarriesNoBytesAndMayBeRungWithoutEnd) {
  face_fake();
  const char byte = 1;
  for (const int fd : {fake_->ring.get(), fake_->watch.get()}) {
    EXPECT_EQ(::send(fd, &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT), -1);
    EXPECT_EQ(errno, EPIPE);
  }
  expect_unmoved();
  for (int i = 0; i < 1000; ++i) {
    fake_->ring_bell();
    if (i % 100 == 0) run();
  }
  expect_unmoved();
}

// Ringing walks all watchers of the peer's end.
TEST_F(ShmHostile, BellWithVeryManyWatchersIsGivenUp) {
  constexpr std::size_t kEpolls = 200, kCopies = 200;
  constexpr int kRingsMax = 5000;
  raise_descriptor_limit();
  face_fake();
  std::vector<FileDescriptor> copies, epolls;
  for (std::size_t i = 0; i < kCopies; ++i)
    copies.emplace_back(::fcntl(fake_->watch.get(), F_DUPFD_CLOEXEC, 0));
  for (std::size_t i = 0; i < kEpolls; ++i) {
    epolls.emplace_back(::epoll_create1(EPOLL_CLOEXEC));
    for (const FileDescriptor& copy : copies) {
      epoll_event event{};
      event.events = EPOLLIN | EPOLLET;
      if (::epoll_ctl(epolls.back().get(), EPOLL_CTL_ADD, copy.get(), &event) != 0)
        GTEST_SKIP() << "fs.epoll.max_user_watches is too low";
    }
  }
  int rings = 0;
  for (; rings < kRingsMax && !victim_->has_fatal(*facing_); ++rings) {
    fake_->memory().sides[0].sleeping = ~std::uint64_t{0};
    ASSERT_TRUE(post(*facing_, any_send(true)));
    device_->ring_doorbells();
    fake_->in().head = fake_->in().tail.load();
    victim_->turn();
  }
  std::printf("given up after %d rings\n", rings);
  epolls.clear();
  EXPECT_GT(rings, 2);  // one slow ring may have another reason
  expect_given_up();
}

// A queue pair that is not connected yet waits for one other, and keeps one channel in use.
TEST_F(ShmHostile, WhoTalksToAQueuePairOfAnotherHasAnIdleChannel) {
  constexpr std::size_t kMore = 5;
  const QueuePair& waiting = victim_->add_queue_pair();
  std::vector<std::unique_ptr<FakePeer>> strangers;
  for (std::size_t i = 0; i < kIdleChannelsMax + kMore; ++i) {
    strangers.push_back(
        std::make_unique<FakePeer>(fabric_, static_cast<std::uint8_t>(20 + i), peer_id(1)));
    say(*strangers.back(), Kind::kQueuePairReady, waiting);
    run();
    EXPECT_EQ(hears_refusal(*strangers.back()), i != 0) << i;
  }
  // The last to be closed.
  EXPECT_TRUE(strangers[kMore - 1]->becomes_shut_out());
  std::size_t shut_out = 0;
  for (const auto& stranger : strangers) shut_out += stranger->is_shut_out();
  EXPECT_EQ(shut_out, kMore - 1);
  EXPECT_FALSE(strangers.front()->is_shut_out());
  // Without the queue pair that channel is like the others, and the oldest.
  victim_->queue_pairs.pop_back();
  fake_->open_channel(peer_id(1));
  run();
  EXPECT_TRUE(strangers.front()->becomes_shut_out());
  strangers.clear();
}

TEST_F(ShmHostile, OnlyThePeerOfTheHandshakeIsWaitedFor) {
  face_fake();
  QueuePairOptions options;
  options.domain = &victim_->domain();
  options.receive_queue = &victim_->receive_queue();
  options.peer = peer_id(9);
  const auto waiting = std::move(device_->create_queue_pair(options).value());
  FakePeer other(fabric_, 10, peer_id(1));
  for (FakePeer* peer : {&other, fake_.get()}) {
    (void)peer->hear();
    say(*peer, Kind::kQueuePairReady, *waiting, QpNumber(kFakeQp.value + 1));
    run();
  }
  EXPECT_TRUE(hears_refusal(other));
  ASSERT_TRUE(waiting->connect(end_of(*fake_, QpNumber(kFakeQp.value + 1))));
  fake_->put(waiting->number(), QpNumber(kFakeQp.value + 1), 44);
  run();
  ASSERT_EQ(victim_->received.size(), 1u);
  EXPECT_EQ(victim_->received[0].queue_pair, waiting->number());
}

// Numbers that a peer invents for one of the device's queue pairs are not stored.
TEST_F(ShmHostile, ManyNamesForOneOtherEnd) {
  face_fake();
  const QueuePair& waiting = victim_->add_queue_pair();
  std::size_t refused = 0;
  while (fake_->hear()) continue;
  for (std::uint32_t i = 1; i <= kRemoteQueuePairsMax + 10; ++i) {
    say(*fake_, Kind::kQueuePairReady, waiting, QpNumber(i));
    if (i % 32 == 0) run();
    while (const auto answer = fake_->hear()) refused += answer->kind == Kind::kQueuePairGone;
  }
  run();
  while (const auto answer = fake_->hear()) refused += answer->kind == Kind::kQueuePairGone;
  EXPECT_EQ(refused, kRemoteQueuePairsMax + 9);
  expect_unmoved();
}

// If a peer withdraws its announcement or ends, another one may announce itself for the queue pair.
TEST_F(ShmHostile, AnAnnouncedQueuePairThatLeavesMakesRoomForAnother) {
  QueuePair& waiting = victim_->add_queue_pair();
  const auto tell = [&](FakePeer& peer, Kind kind) {
    say(peer, kind, waiting);
    run();
  };
  FakePeer first(fabric_, 10, peer_id(1)), second(fabric_, 11);
  tell(first, Kind::kQueuePairReady);
  tell(first, Kind::kQueuePairGone);
  second.open_channel(peer_id(1));
  tell(second, Kind::kQueuePairReady);
  EXPECT_FALSE(second.hear());
  second.close_channel();
  run();
  EXPECT_FALSE(victim_->has_fatal(waiting));
  fake_->open_channel(peer_id(1));
  tell(*fake_, Kind::kQueuePairReady);
  ASSERT_TRUE(waiting.connect(end_of(*fake_)));
  fake_->put(waiting.number(), kFakeQp, 44);
  run();
  EXPECT_EQ(victim_->received.size(), 1u);
}

// A peer that reads the byte of its bell counts as ended from its next ring on. Its real end is
// noticed as well.
TEST_F(ShmHostile, PeerThatEndsOrEatsTheMarkOfItsBell) {
  for (const auto& [eats, rings] : {std::pair{false, false}, {true, false}, {true, true}}) {
    face_fake();
    char byte = 0;
    ASSERT_TRUE(!eats || ::recv(fake_->ring.get(), &byte, 1, MSG_DONTWAIT) == 1);
    if (rings)
      fake_->ring_bell();
    else
      fake_->ring.reset();
    run();
    EXPECT_TRUE(victim_->has_fatal(*facing_)) << rings;
  }
}

TEST_F(ShmHostile, AnnouncedMemoryThatNeverComes) {
  face_fake();
  fake_->say(announcement(4096));
  fake_->put(facing_->number(), kFakeQp, 44);
  run();
  EXPECT_TRUE(victim_->received.empty());
  EXPECT_TRUE(device_->arm());  // it sleeps meanwhile
  // The honest pair continues, and after the timeout so does the channel.
  ASSERT_TRUE(post(*theirs_, any_send()));
  run();
  EXPECT_EQ(victim_->received.size(), 1u);
  while (victim_->received.size() < 2) {
    victim_->watcher().wait(*device_, 1000);
    run();
  }
  EXPECT_FALSE(facing_->remote_memory(slice(), 4096));
  EXPECT_TRUE(device_->poll_fault());
  EXPECT_FALSE(victim_->has_fatal(*facing_));
}

// What has come and cannot be mapped is not waited for, as at a limit of mappings.
TEST_F(ShmHostile, AnnouncedMemoryThatCannotBeMappedHoldsNothingUp) {
  FileDescriptor kinds[] = {FileDescriptor(::memfd_create("unsealed", MFD_CLOEXEC)),
                            FileDescriptor(::open("/dev/null", O_RDWR | O_CLOEXEC))};
  for (const FileDescriptor& kind : kinds) {
    victim_->received.clear();
    face_fake();
    fake_->say(announcement(4096));
    run();
    EXPECT_EQ(facing_->remote_memory(slice(), 4096).error().code, Errc::kWouldBlock);
    ASSERT_TRUE(fake_->grant(FakePeer::buffer(1).number, kind.get()));
    EXPECT_EQ(facing_->remote_memory(slice(), 4096).error().code, Errc::kNotFound);
    fake_->put(facing_->number(), kFakeQp, 44);
    run();
    EXPECT_EQ(victim_->received.size(), 1U);
    EXPECT_TRUE(device_->poll_fault());
    EXPECT_FALSE(victim_->has_fatal(*facing_));
    EXPECT_FALSE(fake_->is_shut_out());
  }
}

// One queued refusal represents all equal ones.
TEST_F(ShmHostile, TheSameRefusalWaitsOnce) {
  face_fake();
  for (std::size_t i = 0; i < 2 * kControlQueueMax; ++i) {
    fake_->put(QpNumber(0xffffff), kFakeQp, 44);
    if (i % 512 == 0) run();
  }
  expect_unmoved();
  std::size_t told = 0;
  for (; fake_->hear(); run()) ++told;
  EXPECT_GT(told, kControlSlots);
  EXPECT_LT(told, 2 * kControlSlots);
}

TEST_F(ShmHostile, MessagesFloodOneQueuePairOthersGetTheirTurn) {
  face_fake();
  for (int i = 0; i < 500; ++i) fake_->put(facing_->number(), kFakeQp, 44);
  ASSERT_TRUE(post(*theirs_, any_send()));
  friend_->turn();
  // Eight completions a turn: without turns the honest message would come after 500 others.
  for (int turn = 0; turn < 8; ++turn) victim_->turn();
  bool heard = false;
  for (const auto& message : victim_->received) heard |= message.queue_pair == ours_->number();
  EXPECT_TRUE(heard);
  EXPECT_LT(victim_->received.size(), 100u);
}

// Goal: messages that a peer sent before it ended are handled, also if another peer ends meanwhile.
// Method: more messages than one turn handles, and both end before the first turn.
TEST_F(ShmHostile, WhoLeavesDoesNotCutShortAnother) {
  face_fake();
  FakePeer other(fabric_, 10);
  QueuePair& faced = connect_to(other);
  say(other, Kind::kQueuePairReady, faced);
  run();
  constexpr int kMessages = 50;
  for (int i = 0; i < kMessages; ++i) fake_->put(facing_->number(), kFakeQp, 44);
  for (auto& [peer, queue_pair] : {std::pair(fake_.get(), facing_), std::pair(&other, &faced)})
    say(*peer, Kind::kQueuePairGone, *queue_pair);
  run();
  EXPECT_EQ(std::count_if(victim_->received.begin(), victim_->received.end(),
                          [&](const auto& one) { return one.queue_pair == facing_->number(); }),
            kMessages);
  EXPECT_TRUE(victim_->has_fatal(*facing_));
  EXPECT_TRUE(victim_->has_fatal(faced));
}

TEST_F(ShmHostile, ChannelThatWouldTakeTheLastDescriptorsIsRefused) {
  // A thread of the devices may close others meanwhile: then there was room, and the next try
  // counts.
  std::optional<PeerFault> fault;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!fault && std::chrono::steady_clock::now() < deadline) {
    fake_->close_channel();
    run();
    // Enough to receive it.
    const DescriptorLimit few(DescriptorLimit::next() + 14);
    fake_->open_channel(peer_id(1));
    run();
    fault = device_->poll_fault();
  }
  ASSERT_TRUE(fault);
  EXPECT_STREQ(fault->error.what, "descriptors");
  face_fake();  // there is room again
}

}  // namespace
}  // namespace fairlead::rdma::shm
