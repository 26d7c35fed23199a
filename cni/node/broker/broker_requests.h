// Executes the requests of devices: registration, channels, grants and buffers. Thread: the
// broker's.
#pragma once

#include <cstdint>

#include "cni/node/broker/broker_book.h"
#include "cni/node/broker/broker_devices.h"
#include "cni/node/broker/broker_file.h"
#include "cni/node/broker/broker_member.h"

namespace fairlead::cni::node {

class BrokerRequests {
 public:
  using Member = BrokerBook::Member;

  // All outlive it.
  BrokerRequests(BrokerDevices& devices, BrokerBook& book, BrokerFile& file, BrokerCounts& counts)
      : devices_(devices), book_(book), file_(file), counts_(counts) {}

  // False if the device was dropped.
  bool apply(Member member, const broker::Request& request);
  // Gives the device the blank buffers that it may have.
  void refill(Member member);

 private:
  bool enroll(Member member, const broker::Request& request);
  bool introduce(Member member, PeerId peer);
  broker::Refusal make_channel(Member member, Member other);
  bool grant(Member member, const broker::Request& request);
  broker::Message granted(Member owner, const broker::BufferId& buffer) const;
  void deliver_held(Member member, PeerId peer);
  bool take_or_free(Member member, const broker::Request& request);

  BrokerDevices& devices_;
  BrokerBook& book_;
  BrokerFile& file_;
  BrokerCounts& counts_;
  std::uint64_t buffers_made_ = 0;
};

}  // namespace fairlead::cni::node
