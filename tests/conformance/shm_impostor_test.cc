// Goal: a process that plays the broker, as root in a container of the same pod can, does not block
// the worker with the descriptors that it sends. Method: sockets that linger, and descriptors of
// other kinds, wherever a descriptor can be sent. Two devices exchange messages meanwhile.
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "base/linux/unix_socket.h"
#include "conformance/shm_broker.h"
#include "lingering_socket.h"

namespace fairlead::rdma::shm {
namespace {

using Clock = std::chrono::steady_clock;
using Kind = broker::Message::Kind;
using State = BrokerConnector::State;

// Far below the time that a socket lingers, and far above a turn of a device on a busy machine.
constexpr auto kGapMax = LingeringSockets::kLinger / 10;
constexpr PeerId kStranger{{9, 9, 9, 9, 9, 9, 9, 9}};

// Connects to a device and says what a broker says, up to the registration.
class Impostor {
 public:
  explicit Impostor(const std::string& name) {
    socket = std::move(
        connect_unix_socket(UnixAddress::parse(name + "-0").value(), SOCK_SEQPACKET).value());
  }
  void register_device(FabricId fabric) {
    give_ring();
    say({.kind = Kind::kWelcome, .peer = peer_id(1), .fabric = fabric});
  }
  void give_ring() {
    const FileDescriptor ring =
        std::move(broker::make_memory("ring", broker::kRequestRingBytes).value());
    say({.kind = Kind::kRequestRing, .buffer = {77, 0}}, {ring.get()});
  }
  // With as many descriptors as the caller likes.
  void say(const broker::Message& message, std::vector<int> fds = {}) {
    const broker::MessageBytes bytes = broker::encode(message);
    EXPECT_TRUE(send_with_descriptors(socket.get(), bytes, fds));
  }
  FileDescriptor socket;
};

struct Descriptors {
  const char* name;
  std::function<FileDescriptor(LingeringSockets&)> make;
};

FileDescriptor full_of_lingering(LingeringSockets& sockets) {
  std::array<int, 2> ends{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
  const FileDescriptor sender(ends[0]), inner = sockets.make();
  const int fd = inner.get();
  EXPECT_TRUE(send_with_descriptors(sender.get(), std::array<std::byte, 1>{}, std::span(&fd, 1)));
  return FileDescriptor(ends[1]);
}

FileDescriptor fifo() {
  const std::string path = testing::TempDir() + "fairlead-fifo-" + std::to_string(::getpid());
  EXPECT_EQ(::mkfifo(path.c_str(), 0600), 0);
  FileDescriptor made(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  EXPECT_EQ(::unlink(path.c_str()), 0);
  return made;
}

FileDescriptor memfd(unsigned flags, int seals) {
  FileDescriptor made(::memfd_create("impostor", MFD_CLOEXEC | flags));
  EXPECT_EQ(::ftruncate(made.get(), 2 << 20), 0);
  if ((flags & MFD_ALLOW_SEALING) != 0) {
    EXPECT_EQ(::fcntl(made.get(), F_ADD_SEALS, seals), 0);
  }
  return made;
}

const std::vector<Descriptors> kDescriptors = {
    {"lingering", [](LingeringSockets& sockets) { return sockets.make(); }},
    {"lingering_in_a_socket", full_of_lingering},
    {"fifo", [](LingeringSockets&) { return fifo(); }},
    {"path", [](LingeringSockets&) { return FileDescriptor(::open("/", O_PATH | O_CLOEXEC)); }},
    {"folder", [](LingeringSockets&) { return FileDescriptor(::open("/", O_RDONLY | O_CLOEXEC)); }},
    {"epoll", [](LingeringSockets&) { return FileDescriptor(::epoll_create1(EPOLL_CLOEXEC)); }},
    {"eventfd", [](LingeringSockets&) { return FileDescriptor(::eventfd(0, EFD_CLOEXEC)); }},
    {"unsealable", [](LingeringSockets&) { return memfd(0, 0); }},
    {"unsealed", [](LingeringSockets&) { return memfd(MFD_ALLOW_SEALING, 0); }},
    {"may_not_be_written",
     [](LingeringSockets&) {
       return memfd(MFD_ALLOW_SEALING, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
     }},
    {"larger", [](LingeringSockets&) { return memfd(MFD_ALLOW_SEALING, F_SEAL_SHRINK); }},
};

class ShmImpostor : public ShmBrokeredTest<testing::TestWithParam<Descriptors>> {
 protected:
  void SetUp() override {
    ShmBrokeredTest::SetUp();
    connection_ = connect();
    ASSERT_TRUE(run_until(
        [&] { return connection_.left->send_room() != 0 && connection_.right->send_room() != 0; }));
  }
  void TearDown() override { sockets_ = LingeringSockets(); }

  void turn() {
    const auto begun = Clock::now();
    left_->turn();
    left_->watcher().wait(*left_device_, 1);
    gap_ = std::max<Clock::duration>(gap_, Clock::now() - begun);
    right_->turn();
    right_->watcher().wait(*right_device_, 1);
  }
  bool run_until(const std::function<bool()>& done) {
    const auto deadline = Clock::now() + std::chrono::seconds(30);
    while (!done() && Clock::now() < deadline) turn();
    return done();
  }
  bool works() {
    const std::size_t before = right_->received.size();
    return post(*connection_.left, any_send()) &&
           run_until([&] { return right_->received.size() > before; });
  }
  // Registers the device with an impostor, which then says something with descriptors of the kind.
  void attack(const char* what, const broker::Message& message, std::size_t count,
              std::size_t good = 0) {
    SCOPED_TRACE(what);
    Impostor impostor(broker_.name());
    const bool first = message.kind == Kind::kRequestRing;
    if (!first) impostor.register_device(left_device_->connector().id());
    std::vector<FileDescriptor> sent;
    std::vector<int> numbers;
    for (std::size_t i = 0; i < count; ++i) {
      sent.push_back(i < good
                         ? std::move(broker::make_memory("good", sizeof(ChannelMemory)).value())
                         : GetParam().make(sockets_));
      numbers.push_back(sent.back().get());
    }
    impostor.say(message, numbers);
    sent.clear();
    for (int i = 0; i < 5; ++i) turn();
    impostor.socket.reset();
    EXPECT_TRUE(works());
    // The broker connects again, and is taken.
    EXPECT_TRUE(run_until([&] { return state_of(*left_device_) == State::kRegistered; }))
        << static_cast<int>(state_of(*left_device_));
    EXPECT_LT(gap_, kGapMax);
  }

  Clock::duration gap_{};  // the longest turn of the left device
  Connection connection_{};
  LingeringSockets sockets_;
};

TEST_P(ShmImpostor, DescriptorsBlockNobodyWhereverTheyAreSent) {
  const broker::Message channel{
      .kind = Kind::kChannel, .side = 1, .layout = kChannelLayout, .peer = kStranger};
  attack("ring", {.kind = Kind::kRequestRing, .buffer = {78, 0}}, 1);
  attack("channel", channel, 3);
  attack("bells of a channel with memory", channel, 3, 1);
  attack("granted", {.kind = Kind::kGranted, .peer = peer_id(2), .buffer = {78, 1}}, 1);
  attack("blank", {.kind = Kind::kBlank, .buffer = {77, 1}}, 1);
  attack("surplus", {.kind = Kind::kRoom}, 3);
  attack("more than a record may have", {.kind = Kind::kBlank, .buffer = {77, 1}}, 20);
}

// What is unread when the connection ends, closes with it.
TEST_P(ShmImpostor, UnreadDescriptorsBlockNobody) {
  {
    Impostor first(broker_.name()), second(broker_.name());
    const FileDescriptor sent = GetParam().make(sockets_);
    for (Impostor* impostor : {&first, &second})
      for (int i = 0; i < 3; ++i) impostor->say({.kind = Kind::kRoom}, {sent.get()});
  }
  EXPECT_TRUE(works());
  EXPECT_TRUE(run_until([&] { return state_of(*left_device_) == State::kRegistered; }));
  EXPECT_LT(gap_, kGapMax);
}

INSTANTIATE_TEST_SUITE_P(Kinds, ShmImpostor, testing::ValuesIn(kDescriptors),
                         [](const auto& kind) { return std::string(kind.param.name); });

// Whoever is not the broker's user is not read, but its connection may hold descriptors.
TEST(ShmStranger, DescriptorsOfAnotherUserBlockNobody) {
  LingeringSockets sockets;
  const auto begun = Clock::now();
  {
    const std::string name = "@fairlead-stranger-" + std::to_string(::getpid());
    auto connector = BrokerConnector::open(name, peer_id(1), ::geteuid() + 1);
    ASSERT_TRUE(connector);
    {
      Impostor stranger(name);
      const FileDescriptor sent = sockets.make();
      stranger.say({.kind = Kind::kRoom}, {sent.get()});
    }
    EXPECT_EQ((*connector)->poll_registration(), State::kListening);
    Impostor waiting(name);
    const FileDescriptor sent = sockets.make();
    waiting.say({.kind = Kind::kRoom}, {sent.get()});
  }
  EXPECT_LT(Clock::now() - begun, kGapMax);
}

}  // namespace
}  // namespace fairlead::rdma::shm
