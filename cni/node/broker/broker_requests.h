// Executes the requests of devices: registration, channels, grants and buffers. Thread: the
// broker's.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "cni/node/broker/broker_book.h"
#include "cni/node/broker/broker_closer.h"
#include "cni/node/broker/broker_member.h"
#include "cni/node/broker/broker_shares.h"

namespace fairlead::cni::node {

inline constexpr std::size_t kBuffersPerPodMax = 4096;
inline constexpr std::size_t kBuffersPerNodeMax = 65536;  // or half of the descriptors
inline constexpr std::size_t kBuffersPerPodWhenScarce = 256;
inline constexpr std::ptrdiff_t kHeldGrantsPerPeerMax = 64;  // of one pod, for one peer

struct BrokerCounts {
  static constexpr std::size_t kRefusals = broker::kRefusals;
  std::atomic<std::uint64_t> pods{0};         // that can be checked for devices
  std::atomic<std::uint64_t> pods_failed{0};  // that cannot be entered at present
  std::atomic<std::uint64_t> devices{0};
  std::array<std::atomic<std::uint64_t>, kRefusals> registrations{};  // by Refusal, kNone is good
  std::array<std::atomic<std::uint64_t>, kRefusals> introductions{};
  std::atomic<std::uint64_t> strangers{0};  // of another user, or with wrong messages
  std::atomic<std::uint64_t> buffers{0};
  std::atomic<std::uint64_t> buffers_refused{0};
  std::atomic<std::uint64_t> records_lost{0};  // for devices that do not read
};

// The broker's interface for requests.
class BrokerDevices {
 public:
  using Member = BrokerBook::Member;
  // Null if the member is not connected any more.
  virtual BrokerMember* find(Member member) = 0;
  // False if the device was dropped.
  virtual bool send(Member member, const broker::Message& message,
                    std::span<const int> descriptors = {}) = 0;
  virtual bool drop(Member member) = 0;
  // Drops a device that has sent a request that no correct sidecar sends.
  virtual bool drop_hostile(Member member, const char* what) = 0;
  // Called when the device with this index in the pod was refused. It may come again after a while.
  virtual void avoid(const std::string& pod, unsigned index) = 0;
  // Writes the owners of peer ids to the file.
  virtual void remember() = 0;
  // The number of buffers of the pod's devices.
  virtual std::size_t& buffers_of(const std::string& pod) = 0;
  // A log line that pods can cause. `event` is a string literal.
  virtual void warn(std::string_view event, const std::string& pod, std::string_view what) = 0;

 protected:
  ~BrokerDevices() = default;
};

class BrokerRequests {
 public:
  using Member = BrokerBook::Member;

  // All arguments outlive this object.
  BrokerRequests(BrokerDevices& devices, BrokerBook& book, BrokerShares& shares,
                 BrokerCloser& closer, BrokerCounts& counts)
      : devices_(devices), book_(book), shares_(shares), closer_(closer), counts_(counts) {}

  void set_fabric(FabricId fabric) { fabric_ = fabric; }
  FabricId fabric() const { return fabric_; }
  void set_buffers_max(std::size_t max) { buffers_max_ = max; }

  // False if the device was dropped.
  bool apply(Member member, const broker::Request& request);
  // Gives the device new blank buffers, up to its limit.
  void refill(Member member);
  // Called when the device has gone.
  void forget(Member member);

 private:
  bool enroll(Member member, const broker::Request& request);
  bool introduce(Member member, PeerId peer);
  broker::Refusal make_channel(Member member, Member other);
  bool grant(Member member, const broker::Request& request);
  broker::Message granted(Member owner, const broker::BufferId& buffer) const;
  void deliver_held(Member member, PeerId peer);
  bool take_or_free(Member member, const broker::Request& request);
  bool may_have_buffer(std::size_t of_pod, const BrokerMember& member) const;

  BrokerDevices& devices_;
  BrokerBook& book_;
  BrokerShares& shares_;
  BrokerCloser& closer_;
  BrokerCounts& counts_;
  FabricId fabric_;
  std::size_t buffers_max_ = kBuffersPerNodeMax;
  std::uint64_t buffers_made_ = 0;
  // Grants to known devices that have not connected yet, because this broker is new.
  struct HeldGrant {
    Member owner;
    broker::BufferId buffer;
  };
  std::multimap<PeerId, HeldGrant> held_grants_;
};

}  // namespace fairlead::cni::node
