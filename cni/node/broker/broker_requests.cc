#include "cni/node/broker/broker_requests.h"

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "cni/node/broker/broker_meter.h"

namespace fairlead::cni::node {
namespace {

using broker::BufferId;
using broker::Message;
using broker::Refusal;
using broker::Request;
using Kind = broker::Message::Kind;

TimePoint now_() { return std::chrono::steady_clock::now(); }

std::size_t index_of(Refusal refusal) { return static_cast<std::size_t>(refusal); }

}  // namespace

bool BrokerRequests::apply(Member member, const Request& request) {
  const bool enrolled = book_.enrolled(member);
  if (enrolled == (request.kind == Request::Kind::kRegister))
    return devices_.drop_hostile(member, "registration that is missing, or comes twice");
  switch (request.kind) {
    case Request::Kind::kRegister:
      return enroll(member, request);
    case Request::Kind::kConnect:
      return introduce(member, request.peer);
    case Request::Kind::kGrant:
      return grant(member, request);
    case Request::Kind::kTake:
    case Request::Kind::kFree:
      return take_or_free(member, request);
  }
  return devices_.drop_hostile(member, "kind of a request");
}

bool BrokerRequests::enroll(Member member, const Request& request) {
  BrokerMember& device = *devices_.find(member);
  if (request.channel_bytes == 0 || request.channel_bytes > broker::kChannelBytesMax)
    return devices_.drop_hostile(member, "size of a channel");
  const Refusal refusal = book_.enroll(member, request.peer);
  ++counts_.registrations[index_of(refusal)];
  if (refusal != Refusal::kNone) {
    const std::string pod = book_.pod_of(member);
    const unsigned index = device.index();
    if (devices_.send(member, {.kind = Kind::kRefused, .refusal = refusal, .peer = request.peer}))
      devices_.drop(member);
    devices_.avoid(pod, index);
    return false;
  }
  device.layout = request.layout;
  device.channel_bytes = request.channel_bytes;
  counts_.devices = book_.device_count();
  // Must precede the welcome, so that the device keeps the id even if the broker ends.
  devices_.remember();
  if (!devices_.send(member, {.kind = Kind::kWelcome, .peer = request.peer, .fabric = fabric_}))
    return false;
  refill(member);
  deliver_held(member, request.peer);
  return devices_.find(member) != nullptr;
}

bool BrokerRequests::introduce(Member member, PeerId peer) {
  book_.charge(book_.pod_of(member), kRequestsPerConnect - 1);
  const std::optional<Member> other = book_.find(peer);
  const Refusal refusal = other ? make_channel(member, *other) : Refusal::kUnknownPeer;
  ++counts_.introductions[index_of(refusal)];
  if (refusal == Refusal::kNone) return devices_.find(member) != nullptr;
  if (devices_.find(member) == nullptr) return false;  // it asked for itself, and was dropped
  return devices_.send(member, {.kind = Kind::kRefused, .refusal = refusal, .peer = peer});
}

// The broker creates all objects, so that no pod gets one of another pod. It creates them in its
// own network namespace, because a socket keeps the namespace alive in which it was created.
Refusal BrokerRequests::make_channel(Member member, Member other) {
  const BrokerMember& device = *devices_.find(member);
  BrokerMember& visited = *devices_.find(other);
  if (device.layout != visited.layout || device.channel_bytes != visited.channel_bytes)
    return Refusal::kVersion;
  const std::string& pod = book_.pod_of(member);
  if (visited.waiting() >= kOutboxMax / 2 || book_.shunned(book_.pod_of(other)) ||
      (visited.has_waiting() &&
       !shares_.may_wait(book_.pod_of(other), descriptors_of(Kind::kChannel))))
    return Refusal::kBusy;
  if (!shares_.may_give(pod, now_())) {
    devices_.warn("limit", pod, "a channel: pods keep too much memory of the kernel");
    return Refusal::kLimit;
  }
  auto ends = broker::make_channel(device.channel_bytes);
  if (!ends) return Refusal::kFailed;
  shares_.given(pod, kChannelKernelBytes, now_());
  const Message visit{.kind = Kind::kChannel,
                      .side = 1,
                      .layout = device.layout,
                      .peer = book_.peer_of(member),
                      .pod = book_.number_of(book_.pod_of(member))};
  const Message answer{.kind = Kind::kChannel,
                       .side = 0,
                       .layout = device.layout,
                       .peer = book_.peer_of(other),
                       .pod = book_.number_of(book_.pod_of(other))};
  if (!devices_.send(other, visit, (*ends)[1].descriptors())) return Refusal::kUnknownPeer;
  // If this answer is lost, the other side notices that its bell has no peer.
  (void)devices_.send(member, answer, (*ends)[0].descriptors());
  return Refusal::kNone;
}

Message BrokerRequests::granted(Member owner, const BufferId& buffer) const {
  return {.kind = Kind::kGranted,
          .peer = book_.peer_of(owner),
          .buffer = buffer,
          .pod = book_.number_of(book_.pod_of(owner))};
}

bool BrokerRequests::grant(Member member, const Request& request) {
  const auto& buffers = devices_.find(member)->buffers;
  const auto found = buffers.find(request.buffer.number);
  if (request.buffer.instance != devices_.find(member)->instance() || found == buffers.end())
    return devices_.drop_hostile(member, "buffer of somebody else");
  const std::optional<Member> other = book_.find(request.peer);
  if (!other) {
    // A known peer without a connection may still connect. An unknown peer has ended.
    if (!book_.has_owner(request.peer)) return true;
    const std::string& pod = book_.pod_of(member);
    const auto [begin, end] = held_grants_.equal_range(request.peer);
    const auto own = std::count_if(
        begin, end, [&](const auto& held) { return book_.pod_of(held.second.owner) == pod; });
    if (!shares_.may_hold_grant(pod) || own >= kHeldGrantsPerPeerMax) {
      ++counts_.records_lost;
      devices_.warn("limit", pod, "a grant: too many wait for devices that have not come");
      return true;
    }
    held_grants_.emplace(request.peer, HeldGrant{member, request.buffer});
    shares_.grant_held(pod);
    return true;
  }
  const int memory = found->second.memory.get();
  (void)devices_.send(*other, granted(member, request.buffer), std::span(&memory, 1));
  return devices_.find(member) != nullptr;
}

void BrokerRequests::deliver_held(Member member, PeerId peer) {
  std::vector<HeldGrant> held;
  const auto [begin, end] = held_grants_.equal_range(peer);
  for (auto at = begin; at != end; ++at) held.push_back(at->second);
  held_grants_.erase(begin, end);
  for (const auto& [owner, buffer] : held) shares_.grant_let_go(book_.pod_of(owner));
  for (const auto& [owner, buffer] : held) {
    BrokerMember* const from = devices_.find(owner);
    if (from == nullptr || devices_.find(member) == nullptr) continue;
    const auto found = from->buffers.find(buffer.number);
    if (found == from->buffers.end()) continue;
    const int memory = found->second.memory.get();
    (void)devices_.send(member, granted(owner, buffer), std::span(&memory, 1));
  }
}

bool BrokerRequests::take_or_free(Member member, const Request& request) {
  BrokerMember& device = *devices_.find(member);
  const auto found = device.buffers.find(request.buffer.number);
  const bool take = request.kind == Request::Kind::kTake;
  if (request.buffer.instance != device.instance() || found == device.buffers.end() ||
      (take && !found->second.blank))
    return devices_.drop_hostile(member, "buffer of somebody else, or taken twice");
  if (std::exchange(found->second.blank, false)) --device.blanks;
  if (!take) {
    const BrokerMeter meter(book_, book_.pod_of(member));
    std::vector<FileDescriptor> memory;
    memory.push_back(std::move(found->second.memory));
    closer_.close(book_.pod_of(member), std::move(memory));
    device.buffers.erase(found);
    --devices_.buffers_of(book_.pod_of(member));
    --counts_.buffers;
  }
  refill(member);
  return devices_.find(member) != nullptr;
}

bool BrokerRequests::may_have_buffer(std::size_t of_pod, const BrokerMember& device) const {
  const bool scarce = counts_.buffers >= buffers_max_ / 4 * 3;
  return device.buffers.size() < kBuffersPerDeviceMax && counts_.buffers < buffers_max_ &&
         of_pod < (scarce ? kBuffersPerPodWhenScarce : kBuffersPerPodMax);
}

void BrokerRequests::refill(Member member) {
  BrokerMember* const device = devices_.find(member);
  if (device == nullptr || !book_.enrolled(member)) return;
  std::size_t& of_pod = devices_.buffers_of(book_.pod_of(member));
  while (device->blanks < kBlanksPerDevice && !device->has_waiting()) {
    const std::string& name = book_.pod_of(member);
    auto blank = may_have_buffer(of_pod, *device) && shares_.may_give(name, now_())
                     ? broker::make_blank()
                     : Result<FileDescriptor>(Error{Errc::kExhausted, "buffers"});
    if (!blank) {
      ++counts_.buffers_refused;
      devices_.warn("limit", name, "a buffer for its stock");
      return;
    }
    shares_.given(name, kBufferKernelBytes, now_());
    const BufferId id{device->instance(), ++buffers_made_};
    const int memory = blank->get();
    device->buffers[id.number].memory = std::move(*blank);
    ++device->blanks;
    ++of_pod;
    ++counts_.buffers;
    const std::uint64_t lost = counts_.records_lost;
    if (!devices_.send(member, {.kind = Kind::kBlank, .buffer = id}, std::span(&memory, 1))) return;
    if (counts_.records_lost == lost) continue;
    // Otherwise the device's stock of blanks would permanently lack one.
    device->buffers.erase(id.number);
    --device->blanks;
    --of_pod;
    --counts_.buffers;
    return;
  }
}

void BrokerRequests::forget(Member member) {
  std::erase_if(held_grants_, [&](const auto& held) {
    if (held.second.owner != member) return false;
    shares_.grant_let_go(book_.pod_of(member));
    return true;
  });
}

}  // namespace fairlead::cni::node
