// The shared-memory device between processes: a forked child is the peer, and ends.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <optional>

#include "conformance/shm_broker.h"

namespace fairlead::rdma::shm {
namespace {

// Numbers pass through pipes, as they would in the handshake over TCP.
struct Pipe {
  Pipe() {
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC) != 0) std::abort();
    read_end.reset(ends[0]);
    write_end.reset(ends[1]);
  }
  template <class Value>
  void put(const Value& value) const {
    if (::write(write_end.get(), &value, sizeof value) != sizeof value) std::abort();
  }
  // Nothing when the other process has ended.
  template <class Value = std::uint32_t>
  std::optional<Value> get() const {
    Value value{};
    if (::read(read_end.get(), &value, sizeof value) != sizeof value) return std::nullopt;
    return value;
  }
  FileDescriptor read_end, write_end;
};

class ShmProcess : public testing::Test {
 protected:
  ~ShmProcess() override { reap(); }

  using Life = std::function<void(Endpoint&, QueuePair&)>;
  // How many channels the two devices have. They have two if both asked for one at the same moment.
  enum class Channels { kOne, kTwo };

  // Forks before any device exists. The child's device has peer id 2 and one queue pair, connected
  // to that of the parent. It never returns.
  void start(const Life& live, Channels channels = Channels::kOne) {
    to_child_ = Pipe();
    from_child_ = Pipe();
    broker_.stop();  // a child would not have its thread
    child_ = ::fork();
    ASSERT_GE(child_, 0);
    if (child_ == 0) {
      ::alarm(60);  // should the parent fail
      auto device = open_device(broker_, 2);
      Endpoint end(*device);
      QueuePair& queue_pair = end.add_queue_pair();
      if (!end.post_receives(64)) std::abort();
      from_child_.put(queue_pair.number().value);
      const Port& port = device->ports()[0];
      const Gid ours = ShmDevice::gid_of(device->fabric(), port.number, peer_id(1));
      const QpNumber number(to_child_.get().value());
      if (!queue_pair.connect({.gid = ours, .queue_pair = number})) std::abort();
      from_child_.put(0u);
      if (!run_until(end, [&] { return queue_pair.send_room() != 0; })) std::abort();
      from_child_.put(1u);
      live(end, queue_pair);
      ::_exit(0);
    }
    broker_.start();
    // Otherwise an early end of the child would not be noticed.
    from_child_.write_end.reset();
    device_ = open_device(broker_, 1);
    ASSERT_TRUE(device_);
    end_ = std::make_unique<Endpoint>(*device_);
    ASSERT_TRUE(end_->post_receives(64));
    queue_pair_ = &end_->add_queue_pair();
    const auto number = from_child_.get();
    ASSERT_TRUE(number);
    broker_.hold_up(peer_id(2));
    to_child_.put(queue_pair_->number().value);
    ASSERT_TRUE(from_child_.get());
    // The child has asked for a channel. The parent takes that one, or gets its own one first.
    if (channels == Channels::kOne) broker_.let_go();
    const Gid theirs = ShmDevice::gid_of(device_->fabric(), PortNumber(1), peer_id(2));
    ASSERT_TRUE(queue_pair_->connect({.gid = theirs, .queue_pair = QpNumber(*number)}));
    ASSERT_TRUE(run_until([&] { return queue_pair_->send_room() != 0; }));
    if (channels == Channels::kTwo) broker_.let_go();
    ASSERT_TRUE(from_child_.get());
  }

  // Dies with 20 messages on their way.
  void expect_last_messages(Channels channels) {
    const Life post_and_wait = [&](Endpoint& end, QueuePair& queue_pair) {
      for (unsigned i = 0; i < 20; ++i)
        if (!post(queue_pair, send_request(pattern(100, i)))) ::_exit(1);
      end.device().ring_doorbells();
      from_child_.put(2u);
      for (;;) ::pause();
    };
    ASSERT_NO_FATAL_FAILURE(start(post_and_wait, channels));
    ASSERT_TRUE(from_child_.get());
    for (std::uint64_t i = 0; i < 5; ++i) ASSERT_TRUE(post(*queue_pair_, any_send(false, i)));
    reap();
    ASSERT_TRUE(
        run_until([&] { return end_->has_fatal(*queue_pair_) && end_->sends.size() == 5; }));
    ASSERT_EQ(end_->received.size(), 20u);
    for (unsigned i = 0; i < 20; ++i) EXPECT_EQ(end_->received[i].bytes, pattern(100, i));
    EXPECT_EQ(end_->sends[0].status, CompletionStatus::kRetryExceeded);
    EXPECT_EQ(end_->sends[4].status, CompletionStatus::kFlushed);
    EXPECT_FALSE(device_->poll_fault());
  }

  void reap() {
    if (child_ <= 0) return;
    ::kill(child_, SIGKILL);
    ::waitpid(std::exchange(child_, -1), nullptr, 0);
  }

  // Sleeps as an event loop does.
  static bool run_until(Endpoint& end, const std::function<bool()>& done) {
    for (int turns = 0; turns < 1000000; ++turns) {
      if (done()) return true;
      if (end.turn() || !end.device().arm()) continue;
      const int woken = end.watcher().wait(end.device(), 5000);
      end.device().disarm();
      if (woken == 0) return done();
    }
    return done();
  }
  bool run_until(const std::function<bool()>& done) { return run_until(*end_, done); }

  BrokerThread broker_;
  Pipe to_child_, from_child_;
  pid_t child_ = -1;
  std::unique_ptr<ShmDevice> device_;
  std::unique_ptr<Endpoint> end_;
  QueuePair* queue_pair_ = nullptr;
};

TEST_F(ShmProcess, DeathOfThePeerIsNoticedAfterItsLastMessages) {
  expect_last_messages(Channels::kOne);
}

TEST_F(ShmProcess, DeathOfThePeerIsNoticedAfterItsLastMessagesOnASecondChannel) {
  expect_last_messages(Channels::kTwo);
}

TEST_F(ShmProcess, MemoryOfADeadPeerCanStillBeWritten) {
  start([&](Endpoint& end, QueuePair&) {
    from_child_.put(at(end.memory()));
    for (;;) ::pause();
  });
  const RemoteSlice memory = from_child_.get<RemoteSlice>().value();
  auto view = queue_pair_->remote_memory(memory, 1 << 20);
  ASSERT_TRUE(view);
  reap();
  std::memset(view->data(), 1, view->size());
  ASSERT_TRUE(run_until([&] { return end_->has_fatal(*queue_pair_); }));
  std::memset(view->data(), 2, view->size());
  EXPECT_FALSE(queue_pair_->remote_memory(memory, 1));
}

TEST_F(ShmProcess, PeerKilledAtAnyMomentOfABulkTransfer) {
  const Life send = [](Endpoint& end, QueuePair& queue_pair) {
    const Bytes message = pattern(700, 1);
    for (;;) {
      while (queue_pair.send_room() > 0 && post(queue_pair, send_request(message, true))) {
      }
      end.turn();
      end.sends.clear();
    }
  };
  for (unsigned round = 0; round < 10; ++round) {
    start(send, round % 2 == 0 ? Channels::kOne : Channels::kTwo);
    const std::size_t goal = 1 + 997 * round;
    std::size_t count = 0;
    auto check = [&] {
      for (const auto& message : end_->received) EXPECT_EQ(message.bytes, pattern(700, 1));
      count += end_->received.size();
      end_->received.clear();
    };
    ASSERT_TRUE(run_until([&] {
      check();
      return count >= goal;
    }));
    reap();
    ASSERT_TRUE(run_until([&] {
      check();
      return end_->has_fatal(*queue_pair_);
    }));
    end_.reset();
    device_.reset();
  }
}

}  // namespace
}  // namespace fairlead::rdma::shm
