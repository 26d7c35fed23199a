// The heart of a device, with a connector that the test implements and peers whose channels the
// test holds itself. Nothing happens behind the test's back: what a peer said is seen by the call
// that looks for it, and the timer is the only clock.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "broker/shared_objects.h"
#include "rdma/shm/channel/shm_channel_memory.h"
#include "rdma/shm/queue/shm_queue_pair.h"
#include "rdma/shm/queue/shm_receive_queue.h"
#include "rdma/shm/shm_device.h"
#include "rdma/shm/shm_gid.h"
#include "unit/rdma/scripted_connector.h"
#include "unit/rdma/set_of_descriptors.h"

namespace fairlead::rdma::shm {

// What a peer has of a channel.
class FarSide {
 public:
  using Kind = ControlMessage::Kind;
  FarSide(MapBudget& budget, Channel::Side side, broker::ChannelEnd end)
      : memory_(std::move(Mapping::map(end.memory.get(), sizeof(ChannelMemory)).value())),
        channel_(std::make_unique<Channel>(
            PeerId{}, std::move(Mapping::map_private(sizeof(ChannelMemory)).value()), budget)) {
    EXPECT_TRUE(channel_->attach(side, std::move(end)));
  }
  Channel& channel() { return *channel_; }
  ChannelMemory& memory() { return *reinterpret_cast<ChannelMemory*>(memory_.bytes().data()); }
  void say(const ControlMessage& message) {
    channel_->send(message);
    (void)channel_->ring_if_due();
  }
  void put(QpNumber destination, QpNumber source) {
    static constexpr std::byte kMessage[44] = {};
    ASSERT_TRUE(channel_->producer().refresh());
    channel_->producer().push({destination, source, sizeof kMessage}, kMessage);
    channel_->producer().publish();
    channel_->note_posted();
    (void)channel_->ring_if_due();
  }
  std::optional<ControlMessage> hear() {
    const auto message = channel_->control_in().front();
    if (!message) return std::nullopt;
    channel_->control_in().pop();
    return *message;
  }
  // Until it hears such a message, or nothing more.
  std::optional<ControlMessage> hear(Kind kind) {
    for (;;) {
      auto message = hear();
      if (!message || message->kind == kind) return message;
    }
  }
  bool is_shut_out() { return !channel_->peer_alive(); }
  void end() { channel_.reset(); }

 private:
  Mapping memory_;
  std::unique_ptr<Channel> channel_;
};

class ShmDeviceTest : public testing::Test {
 protected:
  using Kind = ControlMessage::Kind;
  static constexpr PeerId kPeer{{1}}, kOther{{2}}, kSelf{{3}};
  static constexpr QpNumber kTheirs{0x5001}, kTheirSecond{0x5002};
  static constexpr DomainId kTheirDomain{77};
  static constexpr RemoteSlice kTheirMemory{RemoteKey(9), RemoteAddress(0x10000)};

  void SetUp() override {
    ASSERT_TRUE(device_.set_watcher(&watcher_));
    messages_ =
        std::move(ShmBuffer::create(domain_, kMessageBytesMax, BufferUse::kMessages).value());
    post_receives(receives_, 32);
  }
  // Nothing of a test stays.
  void TearDown() override {
    buffers_.clear();
    messages_.reset();
    EXPECT_TRUE(device_.set_watcher(nullptr));
    EXPECT_TRUE(watcher_.watched.empty());
  }

  static std::unique_ptr<ShmDevice> open(ScriptedConnector* connector) {
    return std::move(
        ShmDevice::open({.peer_id = kSelf, .ports = 2}, std::unique_ptr<Connector>(connector))
            .value());
  }
  void post_receives(ShmReceiveQueue& queue, int count) {
    const ReceiveRequest request{WorkId(1), messages_.get(), 0, kMessageBytesMax};
    for (int i = 0; i < count; ++i) ASSERT_TRUE(queue.post(std::span(&request, 1)));
  }

  std::unique_ptr<ShmQueuePair> make_queue_pair(PortNumber port = PortNumber(1),
                                                SharedReceiveQueue* queue = nullptr) {
    const QueuePairOptions options{
        .domain = &domain_, .receive_queue = queue != nullptr ? queue : &receives_, .port = port};
    auto made = std::make_unique<ShmQueuePair>(device_, options, PacketSeq(1));
    EXPECT_TRUE(device_.add(*made));
    return made;
  }
  Result<void> connect(ShmQueuePair& queue_pair, PeerId peer = kPeer, QpNumber theirs = kTheirs) {
    return queue_pair.connect(
        {.gid = gid_of(connector_->id(), PortNumber(1), peer), .queue_pair = theirs});
  }
  ShmBuffer& make_buffer(std::size_t size_bytes = 4096) {
    buffers_.push_back(std::move(ShmBuffer::create(domain_, size_bytes, BufferUse::kRmb).value()));
    return *buffers_.back();
  }
  static Result<void> post(ShmQueuePair& queue_pair, bool signaled = true) {
    static constexpr std::byte kMessage[44] = {};
    const WorkRequest request{
        .kind = WorkRequest::Kind::kSend, .signaled = signaled, .message = kMessage};
    return queue_pair.post(std::span(&request, 1));
  }

  // A channel on its way from the connector: `side` is 0 for an answer, 1 when the peer has asked.
  std::pair<ConnectorEvent, FarSide> make_channel(PeerId peer, std::uint8_t side) {
    auto ends = std::move(broker::make_channel(sizeof(ChannelMemory)).value());
    ConnectorEvent event;
    event.kind = ConnectorEvent::Kind::kChannel;
    event.peer = peer;
    event.side = side;
    event.end = std::move(ends[side]);
    const auto far = side == 0 ? Channel::Side::kAcceptor : Channel::Side::kDialler;
    return {std::move(event), FarSide(far_budget_, far, std::move(ends[1u - side]))};
  }
  FarSide send_channel(PeerId peer, std::uint8_t side) {
    auto [event, far] = make_channel(peer, side);
    connector_->arrivals.emplace_back(std::move(event));
    return std::move(far);
  }
  void send_grant(PeerId peer, std::uint64_t number, FileDescriptor memory) {
    ConnectorEvent event;
    event.kind = ConnectorEvent::Kind::kGranted;
    event.peer = peer;
    event.buffer = {2, number};
    event.memory = std::move(memory);
    connector_->arrivals.emplace_back(std::move(event));
  }
  void send_grant(PeerId peer, std::uint64_t number) {
    send_grant(peer, number, std::move(broker::make_memory("test", 4096).value()));
  }
  void send_refusal(PeerId peer) {
    ConnectorEvent event;
    event.peer = peer;
    connector_->arrivals.emplace_back(std::move(event));
  }
  void take_arrivals() { device_.handle_readable(ScriptedConnector::kDescriptor); }

  ControlMessage ready_for(const ShmQueuePair& queue_pair, QpNumber theirs = kTheirs) const {
    return {.kind = Kind::kQueuePairReady,
            .source = theirs,
            .destination = queue_pair.number(),
            .domain = kTheirDomain};
  }
  static ControlMessage gone_for(const ShmQueuePair& queue_pair, QpNumber theirs = kTheirs) {
    return {.kind = Kind::kQueuePairGone, .source = theirs, .destination = queue_pair.number()};
  }
  // Of the memory that send_grant() brings.
  static ControlMessage announcement(std::uint64_t number) {
    return {.kind = Kind::kAnnounce,
            .domain = kTheirDomain,
            .rkey = kTheirMemory.rkey,
            .address = kTheirMemory.address,
            .size_bytes = 4096,
            .buffer = {2, number}};
  }
  // A channel with that peer on which both queue pairs face each other.
  FarSide face(ShmQueuePair& queue_pair, PeerId peer = kPeer) {
    FarSide far = send_channel(peer, 1);
    EXPECT_TRUE(connect(queue_pair, peer));
    far.say(ready_for(queue_pair));
    turn();
    return far;
  }

  // What an event loop does, without its descriptors.
  void turn() {
    Completion batch[8];
    for (;;) {
      device_.ring_doorbells();
      const std::size_t count = device_.poll(batch);
      for (const Completion& completion : std::span(batch).first(count))
        (completion.kind == Completion::Kind::kReceive ? received_ : sent_).push_back(completion);
      bool any = count != 0;
      while (auto event = device_.parts().events.poll()) {
        events_.push_back(*event);
        any = true;
      }
      if (!any) return;
    }
  }
  bool has_fatal(const ShmQueuePair& queue_pair) const {
    return std::any_of(events_.begin(), events_.end(), [&](const AsyncEvent& event) {
      return event.kind == AsyncEvent::Kind::kQueuePairFatal &&
             event.queue_pair == queue_pair.number();
    });
  }
  void expect_fault(Errc code, PeerId peer = kPeer) {
    const auto fault = device_.parts().faults.poll();
    ASSERT_TRUE(fault);
    EXPECT_EQ(fault->peer, peer);
    EXPECT_EQ(fault->error.code, code);
  }
  bool sleeps() {
    device_.disarm();
    turn();
    return device_.arm();
  }

  Channel* channel(PeerId peer = kPeer) { return device_.parts().channels.find_open(peer); }
  std::size_t channel_count() {
    std::size_t count = 0;
    device_.parts().channels.for_each([&](const Channel&) { ++count; });
    return count;
  }
  void hear_bell(PeerId peer = kPeer) { device_.handle_readable(channel(peer)->bell()); }
  // For the answer to a request, so that a slow machine does not change the test.
  void wait_long() { channel()->note_asked(channel()->asked_at() + std::chrono::hours(1)); }
  bool timer_runs() {
    itimerspec spec{};
    EXPECT_EQ(::timerfd_gettime(device_.parts().timer.descriptor(), &spec), 0);
    return spec.it_interval.tv_nsec != 0;
  }
  // Waits for the timer once, as long as it runs.
  void let_timer_expire() {
    ASSERT_TRUE(timer_runs());
    pollfd timer{device_.parts().timer.descriptor(), POLLIN, 0};
    ASSERT_EQ(::poll(&timer, 1, -1), 1);
    device_.handle_readable(timer.fd);
  }
  // The timer stops as soon as it finds that nothing waits any more.
  void expect_timer_stops() {
    for (int ticks = 0; timer_runs() && ticks < 100; ++ticks) let_timer_expire();
    EXPECT_FALSE(timer_runs());
  }
  static TimePoint in(Duration duration) { return std::chrono::steady_clock::now() + duration; }

  SetOfDescriptors watcher_;
  MapBudget far_budget_;
  ScriptedConnector* connector_ = new ScriptedConnector;  // owned by the device
  const std::unique_ptr<ShmDevice> opened_ = open(connector_);
  ShmDevice& device_ = *opened_;
  ControlPath control_{device_.parts()};
  ShmDomain domain_{device_, DomainId(5)};
  ShmReceiveQueue receives_{device_, 64};
  std::unique_ptr<ShmBuffer> messages_;
  std::vector<std::unique_ptr<ShmBuffer>> buffers_;
  std::vector<Completion> received_, sent_;
  std::vector<AsyncEvent> events_;
};

// A test of `Base` that begins with a queue pair that faces one of kPeer.
template <class Base>
class Faced : public Base {
 protected:
  void SetUp() override {
    Base::SetUp();
    queue_pair_ = this->make_queue_pair();
    far_.emplace(this->face(*queue_pair_));
  }
  void TearDown() override {
    far_.reset();
    queue_pair_.reset();
    Base::TearDown();
  }

  std::unique_ptr<ShmQueuePair> queue_pair_;
  std::optional<FarSide> far_;
};

}  // namespace fairlead::rdma::shm
