// A broker in a thread, for devices of one process: introduces whoever asks to whoever is there.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/unix_address.h"
#include "conformance/shm_device_pair.h"
#include "rdma/shm/shm_broker_link.h"

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
    const auto address = unix_name(name_);
    listener_.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    EXPECT_EQ(::bind(listener_.get(), address->get(), address->length_bytes), 0);
    EXPECT_EQ(::listen(listener_.get(), 64), 0);
    stop_.reset(::eventfd(0, EFD_CLOEXEC));
    thread_ = std::thread([this] { run(); });
  }
  // As if it were killed.
  void stop() {
    if (!thread_.joinable()) return;
    const std::uint64_t one = 1;
    EXPECT_EQ(::write(stop_.get(), &one, sizeof one), 8);
    thread_.join();
    devices_.clear();
    known_.clear();
    listener_.reset();
  }

 private:
  using Kind = broker::Message::Kind;
  static constexpr FabricId kFabric{{9, 8, 7, 6, 5}};

  void run() {
    for (;;) {
      std::vector<pollfd> waiting = {{stop_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
      for (const auto& [fd, device] : devices_) waiting.push_back({fd, POLLIN, 0});
      if (::poll(waiting.data(), waiting.size(), -1) < 0) return;
      if (waiting[0].revents != 0) return;
      for (std::size_t i = 2; i < waiting.size(); ++i)
        if (waiting[i].revents != 0) read(waiting[i].fd);
      if (waiting[1].revents == 0) continue;
      FileDescriptor device(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      const int fd = device.get();
      devices_[fd] = std::move(device);
    }
  }
  void read(int fd) {
    const auto received = broker::receive(fd);
    if (!received) {
      std::erase_if(known_, [&](const auto& entry) { return entry.second == fd; });
      devices_.erase(fd);
      return;
    }
    const PeerId peer = received->message.peer;
    if (received->message.kind == Kind::kRegister) {
      known_[peer] = fd;
      ids_[fd] = peer;
      (void)broker::send(fd, {.kind = Kind::kWelcome, .fabric = kFabric});
      return;
    }
    const auto other = known_.find(peer);
    int ends[2] = {-1, -1};
    if (other == known_.end() ||
        ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
      (void)broker::send(
          fd, {.kind = Kind::kRefused, .refusal = broker::Refusal::kUnknownPeer, .peer = peer});
      return;
    }
    const FileDescriptor theirs(ends[0]), ours(ends[1]);
    (void)broker::send(other->second, {.kind = Kind::kVisitor, .peer = ids_[fd]}, theirs.get());
    (void)broker::send(fd, {.kind = Kind::kIntroduced, .peer = peer}, ours.get());
  }

  std::string name_;
  FileDescriptor listener_, stop_;
  std::map<int, FileDescriptor> devices_;
  std::map<int, PeerId> ids_;
  std::map<PeerId, int> known_;
  std::thread thread_;
};

inline std::unique_ptr<ShmDevice> open_device(const BrokerThread& broker, std::uint8_t number,
                                              unsigned ports = 1, bool addressable = true) {
  auto link = BrokerLink::open(broker.name(), peer_id(number));
  if (!link || (*link)->await_welcome(std::chrono::seconds(10)) != BrokerLink::State::kUp)
    return nullptr;
  auto device = ShmDevice::open(
      {.peer_id = peer_id(number), .ports = ports, .addressable = addressable}, std::move(*link));
  return device ? std::move(*device) : nullptr;
}

}  // namespace fairlead::rdma::shm
