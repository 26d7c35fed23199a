// A broker in a thread, for devices of one process. It creates channels and buffers for every
// registered device, and ends when the test says so.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/linux/unix_address.h"
#include "broker/request_ring.h"
#include "broker/shared_objects.h"
#include "conformance/connection.h"
#include "conformance/shm_device_pair.h"
#include "rdma/shm/channel/shm_channel_memory.h"
#include "rdma/shm/connect/shm_broker_connector.h"

namespace fairlead::rdma::shm {

class BrokerThread {
 public:
  BrokerThread() {
    static std::atomic<unsigned> made{0};
    name_ = "@fairlead-test-" + std::to_string(::getpid()) + "-" + std::to_string(++made);
    start();
  }
  ~BrokerThread() { stop(); }
  BrokerThread(const BrokerThread&) = delete;
  BrokerThread& operator=(const BrokerThread&) = delete;

  const std::string& name() const { return name_; }

  void start() {
    instance_ += std::uint64_t{1} << 32;
    stop_.reset(::eventfd(0, EFD_CLOEXEC));
    thread_ = std::thread([this] { run(); });
  }
  // Requests of that device wait until let_go(), which serves them.
  void hold_up(PeerId peer) {
    const std::lock_guard lock(serving_);
    held_up_ = peer;
  }
  void let_go() {
    const std::lock_guard lock(serving_);
    held_up_.reset();
    for (auto& [index, member] : devices_) (void)serve(member);
  }
  // As if it were killed.
  void stop() {
    if (!thread_.joinable()) return;
    const std::uint64_t one = 1;
    EXPECT_EQ(::write(stop_.get(), &one, sizeof one), 8);
    thread_.join();
    devices_.clear();
  }

 private:
  using Kind = broker::Message::Kind;
  using Request = broker::Request;
  static constexpr FabricId kFabric{{9, 8, 7, 6, 5}};
  static constexpr unsigned kStock = 16;

  struct Member {
    FileDescriptor socket;
    Mapping ring;
    std::unique_ptr<broker::RequestReader> requests;
    PeerId peer;
    std::map<broker::BufferId, FileDescriptor> buffers;
    unsigned stock = 0;
  };

  void run() {
    for (;;) {
      look();
      std::vector<pollfd> waiting = {{stop_.get(), POLLIN, 0}};
      for (int left = 5; left > 0; --left) {
        if (::poll(waiting.data(), 1, 1) != 0) return;
        const std::lock_guard lock(serving_);
        for (auto at = devices_.begin(); at != devices_.end();)
          at = serve(at->second) ? std::next(at) : devices_.erase(at);
      }
    }
  }
  // Connects to all listening devices to which it is not connected.
  void look() {
    const std::lock_guard lock(serving_);
    for (unsigned index = 0; index < 16; ++index) {
      if (devices_.contains(index)) continue;
      const auto address = UnixAddress::parse(name_ + "-" + std::to_string(index));
      FileDescriptor fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      (void)::shutdown(fd.get(), SHUT_RD);
      if (::connect(fd.get(), address->data(), address->size()) != 0) continue;
      Member member;
      member.socket = std::move(fd);
      auto memory = broker::make_memory("requests", broker::kRequestRingBytes);
      member.ring = std::move(Mapping::map(memory->get(), broker::kRequestRingBytes).value());
      member.requests = std::make_unique<broker::RequestReader>(
          *reinterpret_cast<broker::RequestRingMemory*>(member.ring.bytes().data()));
      const int sent = memory->get();
      (void)broker::send(member.socket.get(),
                         {.kind = Kind::kRequestRing, .buffer = {instance_, 0}},
                         std::span(&sent, 1));
      devices_[index] = std::move(member);
    }
  }
  bool serve(Member& member) {
    pollfd state{member.socket.get(), 0, 0};
    (void)::poll(&state, 1, 0);
    if ((state.revents & POLLHUP) != 0) return false;
    while (member.peer != held_up_) {
      const auto request = member.requests->take();
      if (!request) break;
      handle(member, *request);
    }
    if (member.requests->take_wish()) say(member, {.kind = Kind::kRoom});
    for (; !member.peer.is_zero() && member.stock < kStock; ++member.stock) {
      const broker::BufferId id{instance_, ++made_};
      FileDescriptor& blank = member.buffers[id] = std::move(broker::make_blank().value());
      say(member, {.kind = Kind::kBlank, .buffer = id}, {blank.get()});
    }
    return true;
  }
  static void say(Member& to, const broker::Message& message, std::vector<int> fds = {}) {
    // The device of a test always reads eventually.
    for (;;) {
      const auto sent = broker::send(to.socket.get(), message, fds);
      if (sent || sent.error().code != Errc::kWouldBlock) return;
      pollfd room{to.socket.get(), POLLOUT, 0};
      (void)::poll(&room, 1, 10);
    }
  }
  Member* find(PeerId peer) {
    for (auto& [index, member] : devices_)
      if (member.peer == peer) return &member;
    return nullptr;
  }
  void handle(Member& member, const Request& request) {
    switch (request.kind) {
      case Request::Kind::kRegister:
        member.peer = request.peer;
        return say(member, {.kind = Kind::kWelcome, .peer = member.peer, .fabric = kFabric});
      case Request::Kind::kConnect: {
        Member* const other = find(request.peer);
        if (other == nullptr)
          return say(member, {.kind = Kind::kRefused,
                              .refusal = broker::Refusal::kUnknownPeer,
                              .peer = request.peer});
        auto ends = std::move(broker::make_channel(sizeof(ChannelMemory)).value());
        for (unsigned side : {1u, 0u}) {
          const auto fds = ends[side].descriptors();
          say(side == 0 ? member : *other,
              {.kind = Kind::kChannel,
               .side = static_cast<std::uint8_t>(side),
               .layout = kChannelLayout,
               .peer = side == 0 ? other->peer : member.peer},
              {fds.begin(), fds.end()});
        }
        return;
      }
      case Request::Kind::kTake:
        --member.stock;
        return;
      case Request::Kind::kGrant: {
        Member* const other = find(request.peer);
        const auto buffer = member.buffers.find(request.buffer);
        if (other == nullptr || buffer == member.buffers.end()) return;
        return say(*other, {.kind = Kind::kGranted, .peer = member.peer, .buffer = request.buffer},
                   {buffer->second.get()});
      }
      case Request::Kind::kFree:
        member.buffers.erase(request.buffer);
        return;
    }
  }

  std::string name_;
  std::uint64_t instance_ = 0, made_ = 0;
  FileDescriptor stop_;
  std::map<unsigned, Member> devices_;
  std::mutex serving_;
  std::optional<PeerId> held_up_;
  std::thread thread_;
};

inline std::unique_ptr<ShmDevice> open_device(const BrokerThread& broker, std::uint8_t number) {
  auto connector = BrokerConnector::open(broker.name(), peer_id(number), ::geteuid());
  if (!connector || (*connector)->wait_registered(std::chrono::seconds(10)) !=
                        BrokerConnector::State::kRegistered)
    return nullptr;
  auto device = ShmDevice::open({.peer_id = peer_id(number)}, std::move(*connector));
  return device ? std::move(*device) : nullptr;
}

// A test with two devices that the broker connects.
template <class Base>
class ShmBrokeredTest : public Base {
 protected:
  void SetUp() override {
    ASSERT_NE(left_device_, nullptr);
    ASSERT_NE(right_device_, nullptr);
    left_ = std::make_unique<Endpoint>(*left_device_);
    right_ = std::make_unique<Endpoint>(*right_device_);
    ASSERT_TRUE(left_->post_receives(16));
    ASSERT_TRUE(right_->post_receives(16));
  }
  Connection connect() { return rdma::connect(*left_, *right_); }
  static BrokerConnector::State state_of(const ShmDevice& device) {
    return static_cast<const BrokerConnector&>(device.connector()).state();
  }

  BrokerThread broker_;
  std::unique_ptr<ShmDevice> left_device_ = open_device(broker_, 1);
  std::unique_ptr<ShmDevice> right_device_ = open_device(broker_, 2);
  std::unique_ptr<Endpoint> left_, right_;
};

}  // namespace fairlead::rdma::shm
