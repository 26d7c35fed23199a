// Both sides of one channel in one test, each with a mapping of its own, and who hears their bells.
#pragma once

#include <gtest/gtest.h>
#include <sys/epoll.h>

#include <memory>
#include <utility>

#include "broker/shared_objects.h"
#include "rdma/shm/channel/shm_channel.h"
#include "rdma/shm/channel/shm_channel_memory.h"

namespace fairlead::rdma::shm {

class ShmChannelPair : public testing::Test {
 protected:
  // A bell is heard through it.
  struct Listener {
    bool was_rung(int timeout_milliseconds) const {
      epoll_event event{};
      return ::epoll_wait(epoll.get(), &event, 1, timeout_milliseconds) == 1;
    }
    FileDescriptor epoll;
  };

  void SetUp() override {
    auto ends = std::move(broker::make_channel(sizeof(ChannelMemory)).value());
    memory_ = std::move(Mapping::map(ends[0].memory.get(), sizeof(ChannelMemory)).value());
    left_ = make();
    right_ = make();
    ASSERT_TRUE(left_->attach(Channel::Side::kDialler, std::move(ends[0])));
    ASSERT_TRUE(right_->attach(Channel::Side::kAcceptor, std::move(ends[1])));
    listen(left_ears_, left_->bell());
    listen(right_ears_, right_->bell());
  }
  static void listen(Listener& listener, int bell) {
    listener.epoll.reset(::epoll_create1(EPOLL_CLOEXEC));
    epoll_event event{};
    event.events = EPOLLIN | EPOLLET;
    ASSERT_EQ(::epoll_ctl(listener.epoll.get(), EPOLL_CTL_ADD, bell, &event), 0);
    // The end has been shut down before.
    ASSERT_TRUE(listener.was_rung(0));
    ASSERT_FALSE(listener.was_rung(0));
  }
  // One that has no memory yet.
  std::unique_ptr<Channel> make() {
    return std::make_unique<Channel>(
        PeerId{}, std::move(Mapping::map_private(sizeof(ChannelMemory)).value()), budget_);
  }

  static constexpr MessageHeader kHeader{QpNumber(1), QpNumber(2)};
  static constexpr std::byte kMessage[44] = {};

  void post() {
    ASSERT_TRUE(left_->producer().refresh());
    left_->producer().push(kHeader, kMessage);
    left_->producer().publish();
    left_->note_posted();
  }
  unsigned receive() {
    unsigned count = 0;
    if (!right_->consumer().refresh()) return 0;
    while (!right_->consumer().empty()) {
      right_->consumer().pop(*right_->consumer().front());
      ++count;
    }
    right_->consumer().publish();
    return count;
  }
  // What a side wants to be woken for, as the other one sees it.
  std::uint64_t wish_of(Channel::Side side) const {
    return shared().sides[static_cast<int>(side)].sleeping.load();
  }
  ChannelMemory& shared() const {
    return *reinterpret_cast<ChannelMemory*>(memory_.bytes().data());
  }

  Mapping memory_;
  MapBudget budget_;
  std::unique_ptr<Channel> left_, right_;
  Listener left_ears_, right_ears_;
};

}  // namespace fairlead::rdma::shm
