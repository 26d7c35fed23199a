// The connections of a connector of a directory: with whom, what they carry, and their limits. The
// other side is the test.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "conformance/shm_device_pair.h"
#include "rdma/shm/channel/shm_channel_memory.h"
#include "rdma/shm/connect/shm_directory_connector.h"
#include "rdma/shm/shm_limits.h"
#include "unit/rdma/as_user.h"
#include "unit/rdma/descriptor_limit.h"
#include "unit/rdma/limited_watcher.h"
#include "unit/rdma/other_end.h"
#include "unit/rdma/same_file.h"
#include "unit/rdma/socket_path.h"

namespace fairlead::rdma::shm {
namespace {

using broker::Message;
using Clock = std::chrono::steady_clock;
using Event = ConnectorEvent::Kind;
using Kind = Message::Kind;

class ShmDirectoryLinks : public testing::Test {
 protected:
  void SetUp() override {
    open_peer();
    ASSERT_NE(connector_, nullptr);
    ASSERT_TRUE(connector_->set_watcher(&watcher_));
    listener_ = *watcher_.watched().begin();
    hear();
    ASSERT_EQ(watcher_.watched(), std::set<int>{listener_});
  }
  std::unique_ptr<DirectoryConnector> open_connector() const {
    auto opened = DirectoryConnector::open(directory_.path(), peer_id(1));
    return opened ? std::move(*opened) : nullptr;
  }
  // It looks whether the others live, which is a connection to the connector that ends at once.
  void open_peer() {
    auto opened = Fabric::open(directory_.path(), peer_id(2));
    ASSERT_TRUE(opened);
    peer_.emplace(std::move(*opened));
  }
  void hear() { connector_->handle_readable(listener_); }
  bool listens() const { return watcher_.watched().contains(listener_); }
  FileDescriptor dial() {
    auto dialled = peer_->dial(peer_id(1), closer_);
    EXPECT_TRUE(dialled);
    return dialled ? std::move(*dialled) : FileDescriptor();
  }
  // A connection of the connector to the peer; nothing when there is none.
  FileDescriptor accept() {
    auto accepted = peer_->accept(closer_);
    return accepted ? std::move(*accepted) : FileDescriptor();
  }
  std::optional<broker::Received> receive(const FileDescriptor& socket) {
    auto received = broker::receive(socket.get(), closer_);
    if (!received) return std::nullopt;
    return std::move(*received);
  }
  Message message(Kind kind) const {
    return {.kind = kind,
            .side = 1,
            .layout = kChannelLayout,
            .peer = peer_id(2),
            .fabric = peer_->id(),
            .buffer = {5, 6}};
  }
  // With as many descriptors as its kind has.
  void say(const FileDescriptor& socket, const Message& said) const {
    const auto fds = ends_[1].descriptors();
    ASSERT_TRUE(
        broker::send(socket.get(), said, std::span(fds).first(broker::descriptors_of(said.kind))));
  }
  ConnectorEvent next() const {
    auto event = connector_->next();
    EXPECT_TRUE(event);
    return event ? std::move(*event) : ConnectorEvent{};
  }
  Blank take_buffer() const { return std::move(connector_->take_buffer().value()); }
  void find_no_descriptors() {
    const DescriptorLimit none(0);
    hear();
  }

  DescriptorCloser closer_;
  FabricDirectory directory_;
  LimitedWatcher watcher_;  // outlives the connector
  std::unique_ptr<DirectoryConnector> connector_ = open_connector();
  std::optional<Fabric> peer_;
  std::array<broker::ChannelEnd, 2> ends_ =
      std::move(broker::make_channel(sizeof(ChannelMemory)).value());
  int listener_ = -1;
};

TEST_F(ShmDirectoryLinks, AreWatchedByTheLatestWatcher) {
  LimitedWatcher other;
  const FileDescriptor socket = dial();
  hear();
  const std::set<int> both = watcher_.watched();
  ASSERT_EQ(both.size(), 2U);
  for (const int fd : both) EXPECT_TRUE(connector_->owns(fd));
  EXPECT_FALSE(connector_->owns(socket.get()));
  ASSERT_TRUE(connector_->set_watcher(&other));
  EXPECT_EQ(watcher_.watched(), std::set<int>{});
  EXPECT_EQ(other.watched(), both);
  ASSERT_TRUE(connector_->set_watcher(nullptr));
  EXPECT_EQ(other.watched(), std::set<int>{});
}

TEST_F(ShmDirectoryLinks, ThatCannotBeWatchedAreGivenUp) {
  watcher_.full = true;
  const FileDescriptor first = dial();
  hear();
  EXPECT_TRUE(gets_hung_up(first.get()));
  watcher_.full = false;
  const FileDescriptor second = dial();
  hear();
  EXPECT_EQ(watcher_.watched().size(), 2U);
  EXPECT_FALSE(is_hung_up(second.get()));
}

TEST_F(ShmDirectoryLinks, BringChannels) {
  const FileDescriptor socket = dial();
  say(socket, message(Kind::kChannel));
  EXPECT_FALSE(connector_->has_events());
  const ConnectorEvent event = next();
  EXPECT_EQ(event.kind, Event::kChannel);
  EXPECT_EQ(event.peer, peer_id(2));
  EXPECT_EQ(event.side, 1);
  const auto sent = ends_[1].descriptors(), came = event.end.descriptors();
  for (std::size_t i = 0; i < sent.size(); ++i) EXPECT_TRUE(same_file(sent[i], came[i])) << i;
  EXPECT_EQ(connector_->next().error().code, Errc::kWouldBlock);
}

TEST_F(ShmDirectoryLinks, BringMemory) {
  const FileDescriptor socket = dial();
  say(socket, message(Kind::kGranted));
  hear();
  EXPECT_TRUE(connector_->has_events());
  const ConnectorEvent event = next();
  EXPECT_EQ(event.kind, Event::kGranted);
  EXPECT_EQ(event.peer, peer_id(2));
  EXPECT_EQ(event.buffer, (BufferId{5, 6}));
  EXPECT_TRUE(same_file(event.memory.get(), ends_[1].memory.get()));
  EXPECT_FALSE(connector_->has_events());
}

TEST_F(ShmDirectoryLinks, WithOtherWordsEnd) {
  std::vector<Message> others = {
      message(Kind::kBlank),   message(Kind::kRefused), message(Kind::kGranted),
      message(Kind::kGranted), message(Kind::kChannel), message(Kind::kChannel),
  };
  others[2].fabric.bytes[0] ^= 1;
  others[3].peer = {};
  others[4].side = 0;
  others[5].layout = kChannelLayout + 1;
  for (const Message& other : others) {
    const FileDescriptor socket = dial();
    say(socket, other);
    hear();
    EXPECT_TRUE(is_hung_up(socket.get()));
    EXPECT_EQ(watcher_.watched(), std::set<int>{listener_});
    EXPECT_FALSE(connector_->has_events());
    hear();
  }
}

TEST_F(ShmDirectoryLinks, AreKeptWhenADescriptorIsLost) {
  const FileDescriptor socket = dial();
  hear();
  {
    const DescriptorLimit limit(DescriptorLimit::used_up());
    say(socket, message(Kind::kGranted));
    hear();
  }
  EXPECT_FALSE(has_unread(socket.get()));
  EXPECT_FALSE(is_hung_up(socket.get()));
  say(socket, message(Kind::kGranted));
  EXPECT_EQ(next().kind, Event::kGranted);
}

TEST_F(ShmDirectoryLinks, AreNotReadWhileManyEventsAreNotHandled) {
  if (!make_room_for(2 * kConnectorEventsMax)) GTEST_SKIP() << "too few descriptors";
  const FileDescriptor socket = dial();
  const auto say_one = [&] {
    say(socket, message(Kind::kGranted));
    hear();
  };
  for (std::size_t i = 0; i < kConnectorEventsMax; ++i) say_one();
  EXPECT_FALSE(has_unread(socket.get()));
  say_one();
  EXPECT_TRUE(has_unread(socket.get()));
  (void)next();
  hear();
  EXPECT_FALSE(has_unread(socket.get()));
}

TEST_F(ShmDirectoryLinks, AreTakenUpToALimit) {
  constexpr std::size_t kLinks = DirectoryConnector::kInletsMax;
  if (!make_room_for(3 * kLinks)) GTEST_SKIP() << "too few descriptors";
  std::vector<FileDescriptor> sockets;
  for (std::size_t i = 0; i < kLinks; ++i) {
    sockets.push_back(dial());
    if (sockets.size() % kArrivalsBatch == 0) hear();
  }
  EXPECT_EQ(watcher_.watched().size(), 1 + kLinks);
  const FileDescriptor beyond = dial();
  hear();
  EXPECT_TRUE(gets_hung_up(beyond.get()));
  EXPECT_EQ(watcher_.watched().size(), 1 + kLinks);
  for (const FileDescriptor& socket : sockets) EXPECT_FALSE(is_hung_up(socket.get()));
}

TEST_F(ShmDirectoryLinks, AreMadeUpToALimit) {
  constexpr std::size_t kLinks = DirectoryConnector::kOutletsMax;
  if (!make_room_for(3 * kLinks)) GTEST_SKIP() << "too few descriptors";
  const Blank buffer = take_buffer();
  std::vector<FileDescriptor> sockets;
  // They have many names, but one listens for all.
  const auto grant_to = [&](std::size_t number) {
    const PeerId named{{0x20, 0, 0, 0, 0, 0, static_cast<std::uint8_t>(number / 256),
                        static_cast<std::uint8_t>(number)}};
    std::filesystem::create_hard_link(directory_.path() + '/' + socket_name(peer_id(2)),
                                      directory_.path() + '/' + socket_name(named));
    ASSERT_TRUE(connector_->grant(buffer.id, named));
    sockets.push_back(accept());
    ASSERT_TRUE(sockets.back());
  };
  for (std::size_t i = 0; i < kLinks; ++i) grant_to(i);
  std::vector<pollfd> states;
  for (const FileDescriptor& socket : sockets) states.push_back({socket.get(), 0, 0});
  EXPECT_EQ(::poll(states.data(), states.size(), 0), 0);
  grant_to(kLinks);
  EXPECT_EQ(::poll(states.data(), states.size(), kHangMilliseconds), 1);
  EXPECT_FALSE(is_hung_up(sockets.back().get()));
}

TEST_F(ShmDirectoryLinks, AreUsedAgainUntilThePeerIsForgotten) {
  const Blank buffer = take_buffer();
  const auto grant = [&] { ASSERT_TRUE(connector_->grant(buffer.id, peer_id(2))); };
  grant();
  const FileDescriptor first = accept();
  ASSERT_TRUE(first);
  grant();
  EXPECT_FALSE(accept());
  for (int i = 0; i < 2; ++i) {
    const auto received = receive(first);
    ASSERT_TRUE(received);
    EXPECT_EQ(received->message, (Message{.kind = Kind::kGranted,
                                          .peer = peer_id(1),
                                          .fabric = peer_->id(),
                                          .buffer = buffer.id}));
    EXPECT_TRUE(same_file(received->fds[0].get(), buffer.fd.get()));
  }
  connector_->forget(peer_id(2));
  EXPECT_TRUE(gets_hung_up(first.get()));
  grant();
  EXPECT_TRUE(receive(accept()));
}

TEST_F(ShmDirectoryLinks, LeadToTheSuccessorOfWhoHasDied) {
  const Blank buffer = take_buffer();
  ASSERT_TRUE(connector_->grant(buffer.id, peer_id(2)));
  ASSERT_TRUE(accept());
  peer_.reset();
  open_peer();
  ASSERT_TRUE(connector_->grant(buffer.id, peer_id(2)));
  const FileDescriptor second = accept();
  ASSERT_TRUE(second);
  EXPECT_TRUE(receive(second));
  ASSERT_TRUE(connector_->grant(buffer.id, peer_id(2)));
  EXPECT_FALSE(accept());
  EXPECT_TRUE(receive(second));
}

TEST_F(ShmDirectoryLinks, WithNobodyAreErrors) {
  const Blank buffer = take_buffer();
  for (const bool known : {false, true}) {
    if (known) {
      ASSERT_TRUE(connector_->grant(buffer.id, peer_id(2)));
      peer_.reset();
    }
    const PeerId peer = peer_id(known ? 2 : 3);
    EXPECT_EQ(connector_->grant(buffer.id, peer).error().code, Errc::kPeerGone);
    EXPECT_EQ(connector_->request_channel(peer).error().code, Errc::kPeerGone);
    EXPECT_FALSE(connector_->backlog());
    EXPECT_FALSE(connector_->has_events());
  }
}

TEST_F(ShmDirectoryLinks, OfAChannelHaveItsOtherEnd) {
  ASSERT_TRUE(connector_->request_channel(peer_id(2)));
  EXPECT_TRUE(connector_->has_events());
  const ConnectorEvent event = next();
  EXPECT_EQ(event.kind, Event::kChannel);
  EXPECT_EQ(event.peer, peer_id(2));
  EXPECT_EQ(event.side, 0);
  const auto received = receive(accept());
  ASSERT_TRUE(received);
  EXPECT_EQ(received->message, (Message{.kind = Kind::kChannel,
                                        .side = 1,
                                        .layout = kChannelLayout,
                                        .peer = peer_id(1),
                                        .fabric = peer_->id()}));
  EXPECT_TRUE(same_file(event.end.memory.get(), received->fds[0].get()));
}

TEST_F(ShmDirectoryLinks, CarryOnlyBuffersThatAreThere) {
  const Blank one = take_buffer(), other = take_buffer();
  EXPECT_NE(one.id, other.id);
  connector_->free_buffer(one.id);
  EXPECT_EQ(connector_->grant(one.id, peer_id(2)).error().code, Errc::kNotFound);
  EXPECT_TRUE(connector_->grant(other.id, peer_id(2)));
  const DescriptorLimit none(0);
  const auto refused = connector_->take_buffer();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kExhausted);
}

class ShmDirectoryGrants : public ShmDirectoryLinks {
 protected:
  // Grants until the socket of the peer has no room. The peer has not accepted the connection yet.
  void fill_socket(const BufferId& buffer) {
    constexpr int kGrantsMax = 10'000;
    for (; !connector_->backlog(); ++granted_) {
      ASSERT_LT(granted_, kGrantsMax);
      ASSERT_TRUE(connector_->grant(buffer, peer_id(2)));
    }
  }
  // Reads all that there is.
  void drain(const FileDescriptor& socket) {
    while (const auto received = receive(socket)) {
      ++received_;
      last_ = received->message.buffer;
    }
  }

  int granted_ = 0, received_ = 0;
  BufferId last_;
};

TEST_F(ShmDirectoryGrants, ThatWaitAreSentInOrderWhenThereIsRoom) {
  const Blank one = take_buffer(), other = take_buffer();
  fill_socket(one.id);
  ASSERT_TRUE(connector_->grant(other.id, peer_id(2)));
  connector_->flush();
  EXPECT_TRUE(connector_->backlog());
  const FileDescriptor socket = accept();
  drain(socket);
  EXPECT_EQ(received_, granted_ - 1);
  connector_->flush();
  EXPECT_FALSE(connector_->backlog());
  drain(socket);
  EXPECT_EQ(received_, granted_ + 1);
  EXPECT_EQ(last_, other.id);
}

// The buffer may be freed before.
TEST_F(ShmDirectoryGrants, ThatWaitAreForgottenWithTheirPeer) {
  const Blank buffer = take_buffer();
  fill_socket(buffer.id);
  connector_->free_buffer(buffer.id);
  peer_.reset();
  connector_->flush();
  EXPECT_FALSE(connector_->backlog());
}

TEST_F(ShmDirectoryGrants, WaitUpToALimit) {
  if (!make_room_for(kRequestsWaitingMax + 1000)) GTEST_SKIP() << "too few descriptors";
  const Blank buffer = take_buffer();
  fill_socket(buffer.id);
  for (std::size_t i = 1; i < kRequestsWaitingMax; ++i)
    ASSERT_TRUE(connector_->grant(buffer.id, peer_id(2)));
  EXPECT_EQ(connector_->grant(buffer.id, peer_id(2)).error().code, Errc::kExhausted);
}

class ShmDirectoryListener : public ShmDirectoryLinks {};

TEST_F(ShmDirectoryListener, IsWatchedAgainWhenTheWatcherHasRoom) {
  find_no_descriptors();
  find_no_descriptors();
  EXPECT_FALSE(listens());
  watcher_.full = true;
  for (int i = 0; i < 2; ++i) {
    hear();
    EXPECT_FALSE(listens()) << i;
  }
  watcher_.full = false;
  hear();
  EXPECT_TRUE(listens());
}

TEST_F(ShmDirectoryListener, ThatIsLeftAloneIsWatchedByTheNextWatcher) {
  find_no_descriptors();
  expect_next_watcher_watches(*connector_, listener_);
}

TEST_F(ShmDirectoryListener, IsUsedWithoutAWatcherToo) {
  ASSERT_TRUE(connector_->set_watcher(nullptr));
  find_no_descriptors();
  const FileDescriptor socket = dial();
  say(socket, message(Kind::kGranted));
  EXPECT_EQ(next().kind, Event::kGranted);
}

TEST_F(ShmDirectoryListener, ThatIsLeftAloneIsTriedAgainAfterAWhile) {
  bool left_alone = false;
  TimePoint begun;
  // A test that was held up for that long has seen nothing.
  do {
    begun = Clock::now();
    find_no_descriptors();
    connector_->flush();
    left_alone = !listens();
  } while (Clock::now() - begun >= kAcceptRetry);
  EXPECT_TRUE(left_alone);
  while (!listens() && Clock::now() - begun < std::chrono::seconds(30)) {
    (void)::poll(nullptr, 0, 1);
    connector_->flush();
  }
  EXPECT_TRUE(listens());
  EXPECT_GE(Clock::now() - begun, kAcceptRetry);
}

// Of the directory's users, root alone trusts all.
TEST(ShmDirectoryStranger, IsPassedOver) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can act as several users";
  FabricDirectory directory;
  std::filesystem::permissions(directory.path(), std::filesystem::perms::all);
  const std::string path = directory.path() + '/' + socket_name(peer_id(1));
  const FileDescriptor theirs(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)),
      ours(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  LimitedWatcher watcher;
  std::unique_ptr<DirectoryConnector> connector;
  as_user(kUser, [&] {
    auto opened = DirectoryConnector::open(directory.path(), peer_id(1));
    ASSERT_TRUE(opened);
    connector = std::move(*opened);
    std::filesystem::permissions(path, std::filesystem::perms::all);
  });
  ASSERT_NE(connector, nullptr);
  as_user(kStranger, [&] { connect_to(theirs.get(), path); });
  as_user(kUser, [&] {
    connect_to(ours.get(), path);
    ASSERT_TRUE(connector->set_watcher(&watcher));
    const int listener = *watcher.watched().begin();
    connector->handle_readable(listener);
    EXPECT_TRUE(watcher.watched().contains(listener));
  });
  EXPECT_EQ(watcher.watched().size(), 2U);
  EXPECT_TRUE(gets_hung_up(theirs.get()));
  EXPECT_FALSE(is_hung_up(ours.get()));
}

}  // namespace
}  // namespace fairlead::rdma::shm
