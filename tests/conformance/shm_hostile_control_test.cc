// Lies in control messages, floods, and descriptors that run out. See shm_hostile_test.h.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <thread>

#include "conformance/shm_hostile_test.h"

namespace fairlead::rdma::shm {
namespace {

// No descriptor can be opened while it lives.
class NoMoreDescriptors {
 public:
  NoMoreDescriptors() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    rlimit now = before_;
    now.rlim_cur = 0;  // those that are open stay
    ::setrlimit(RLIMIT_NOFILE, &now);
  }
  ~NoMoreDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  NoMoreDescriptors(const NoMoreDescriptors&) = delete;
  NoMoreDescriptors& operator=(const NoMoreDescriptors&) = delete;

 private:
  rlimit before_{};
};

TEST_F(ShmHostile, HelloThatIsNoHello) {
  const ControlBytes good =
      encode({.kind = Kind::kHello, .peer = peer_id(9), .fabric = fake_->fabric()});
  Segment segment = std::move(create_segment("fake", sizeof(ChannelMemory)).value());
  Segment small = std::move(create_segment("fake", sizeof(ChannelMemory) - 4096).value());
  FileDescriptor unsealed(::memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(unsealed.get(), sizeof(ChannelMemory)), 0);
  const int fd = segment.fd.get();
  auto changed = [&](std::size_t at) {
    std::vector<std::byte> bytes(good.begin(), good.end());
    bytes[at] ^= std::byte{0xff};
    return bytes;
  };
  const std::vector<std::byte> whole(good.begin(), good.end());
  std::vector<std::byte> longer = whole;
  longer.push_back({});
  const struct {
    std::vector<std::byte> bytes;
    std::vector<int> fds;
  } cases[] = {{whole, {}},
               {whole, {fd, fd}},
               {whole, {fd, fd, fd, fd, fd, fd}},
               {whole, {small.fd.get()}},
               {whole, {unsealed.get()}},
               {changed(0), {fd}},   // magic
               {changed(4), {fd}},   // kind
               {changed(7), {fd}},   // version
               {changed(48), {fd}},  // fabric
               {changed(56), {fd}},  // ring size
               {{whole.begin(), whole.begin() + 63}, {fd}},
               {longer, {fd}},
               {{std::byte{1}}, {}}};
  for (const auto& one : cases) {
    fake_->dial(peer_id(1));
    ASSERT_TRUE(fake_->say_raw(one.bytes, one.fds));
    run();
    EXPECT_TRUE(fake_->is_shut_out()) << &one - cases;
    EXPECT_TRUE(device_->poll_fault()) << &one - cases;
  }
}

TEST_F(ShmHostile, HelloOfPeerZero) {
  fake_->dial(peer_id(1));
  Segment segment = std::move(create_segment("fake", sizeof(ChannelMemory)).value());
  fake_->say({.kind = Kind::kHello, .fabric = fake_->fabric()}, segment.fd.get());
  run();
  EXPECT_TRUE(fake_->is_shut_out());
}

TEST_F(ShmHostile, StrangersWhoSayNothing) {
  std::vector<FileDescriptor> silent;
  for (std::size_t i = 0; i < 3 * kStrangersMax; ++i) {
    fake_->dial(peer_id(1));
    silent.push_back(std::move(fake_->socket));
    run();
  }
  silent.erase(silent.begin() + 2 * kStrangersMax, silent.end());
  run();
  face_fake();  // gets in nevertheless
  expect_unmoved();
}

TEST_F(ShmHostile, ManyChannelsOfOnePeer) {
  std::vector<FileDescriptor> sockets;
  std::size_t shut_out = 0;
  for (std::size_t i = 0; i < kChannelsPerPeerMax + 3; ++i) {
    fake_->open_channel(peer_id(1));
    run();
    shut_out += fake_->is_shut_out();
    sockets.push_back(std::move(fake_->socket));
  }
  EXPECT_EQ(shut_out, 3u);
}

TEST_F(ShmHostile, SecondHello) {
  face_fake();
  fake_->say({.kind = Kind::kHello, .peer = peer_id(9), .fabric = fake_->fabric()},
             fake_->segment.fd.get());
  expect_given_up();
}

TEST_F(ShmHostile, GarbageInsteadOfControlMessages) {
  for (std::size_t size : {1u, 63u, 64u, 65u, 5000u}) {
    face_fake();
    ASSERT_TRUE(fake_->say_raw(pattern(size, 3), {}));
    expect_given_up();
  }
}

TEST_F(ShmHostile, DescriptorsWhereNoneBelong) {
  face_fake();
  const ControlBytes wake = encode({.kind = Kind::kWake});
  FileDescriptor null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(fake_->say_raw({wake.begin(), wake.end()}, {null.get()}));
  expect_given_up();
}

TEST_F(ShmHostile, DoorbellThatIsNoPipe) {
  face_fake();
  FileDescriptor null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  fake_->say({.kind = Kind::kDoorbell}, null.get());
  expect_given_up();
}

TEST_F(ShmHostile, QueuePairReadyTwice) {
  face_fake();
  fake_->say({.kind = Kind::kQueuePairReady,
              .source = kFakeQp,
              .destination = facing_->number(),
              .domain = kFakeDomain});
  expect_given_up();
}

TEST_F(ShmHostile, SleepingWordThatNeverRestsDoesNotBlockTheRinger) {
  face_fake();
  std::size_t doorbells = 0;
  std::vector<FileDescriptor> pipes;
  const unsigned rings = 3 * kDoorbellPipeBytes;
  for (unsigned i = 0; i < rings; ++i) {
    fake_->memory().sides[0].sleeping = ~std::uint64_t{0};
    ASSERT_TRUE(post(*facing_, send_request(std::span(kAnyMessage), i % 16 == 0)));
    device_->ring_doorbells();
    fake_->in().head = fake_->in().tail.load();
    if (i % 16 == 0) victim_->turn();
    while (auto heard = fake_->hear()) {
      if (heard->message.kind != Kind::kDoorbell) continue;
      ++doorbells;
      // We make the pipe block, for what it is worth: the end that the device writes to is not
      // ours.
      ::fcntl(heard->fd.get(), F_SETFL, 0);
      pipes.push_back(std::move(heard->fd));
    }
  }
  // Full pipes were replaced; nobody read from them.
  EXPECT_GE(doorbells, 3u);
  EXPECT_LE(doorbells, 5u);
  pipes.clear();
  expect_unmoved();
}

TEST_F(ShmHostile, PipeOfTheDoorbellClosed) {
  face_fake();
  for (int i = 0; i < 3; ++i) {
    fake_->memory().sides[0].sleeping = kWakeOnMessage;
    ASSERT_TRUE(post(*facing_, send_request(std::span(kAnyMessage))));
    device_->ring_doorbells();
    while (fake_->hear()) {
    }
  }
  expect_unmoved();
}

TEST_F(ShmHostile, HintOfControlMessagesThatNeverCome) {
  face_fake();
  for (std::uint64_t i = 0; i < 1000; ++i) {
    fake_->out().control_sent = i * 0x123456789;
    victim_->turn();
  }
  run();
  EXPECT_TRUE(device_->arm());
  device_->disarm();
  expect_unmoved();
}

TEST_F(ShmHostile, PeerThatNeverReadsItsSocketIsGivenUpInTheEnd) {
  face_fake();
  // Each of these is answered with a refusal.
  for (std::size_t i = 0; i < kControlQueueMax + 2000; ++i) {
    fake_->put(QpNumber(0xffffff), kFakeQp, 44);
    if (i % 512 == 0) run();
  }
  run();
  EXPECT_TRUE(victim_->has_fatal(*facing_));
}

TEST_F(ShmHostile, HalfClosedSocketEndsTheChannelAndNotOurSleep) {
  face_fake();
  ASSERT_EQ(::shutdown(fake_->socket.get(), SHUT_RD), 0);
  facing_->fail();  // has to tell, and cannot
  run();
  EXPECT_TRUE(device_->arm());
  device_->disarm();
}

TEST_F(ShmHostile, MessagesFloodOneQueuePairOthersGetTheirTurn) {
  face_fake();
  for (int i = 0; i < 500; ++i) fake_->put(facing_->number(), kFakeQp, 44);
  ASSERT_TRUE(post(*theirs_, send_request(std::span(kAnyMessage))));
  friend_->turn();
  // Eight completions a turn: without turns the honest message would come after 500 others.
  for (int turn = 0; turn < 8; ++turn) victim_->turn();
  bool heard = false;
  for (const auto& message : victim_->received) heard |= message.queue_pair == ours_->number();
  EXPECT_TRUE(heard);
  EXPECT_LT(victim_->received.size(), 100u);
}

TEST_F(ShmHostile, DescriptorThatFindsNoRoomCostsTheChannel) {
  face_fake();
  Segment segment = std::move(create_segment("lost", 4096).value());
  fake_->say(announcement(4096), segment.fd.get());
  {
    NoMoreDescriptors none;
    run();
  }
  expect_given_up();
}

TEST_F(ShmHostile, ConnectionsWithoutDescriptorsLeftDoNotKeepUsAwake) {
  std::vector<FileDescriptor> sockets;
  for (int i = 0; i < 3; ++i) {
    fake_->dial(peer_id(1));
    sockets.push_back(std::move(fake_->socket));
  }
  {
    NoMoreDescriptors none;
    run();
    EXPECT_TRUE(device_->arm());
    EXPECT_EQ(victim_->watcher().wait(*device_, 0), 0);
    device_->disarm();
  }
  sockets.clear();
  fake_->dial(peer_id(1));
  run();
  face_fake();  // back to normal
  expect_unmoved();
}

}  // namespace
}  // namespace fairlead::rdma::shm
