#include "cni/node/broker/broker_requests.h"

#include <utility>
#include <vector>

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
    PodProbe& probe = book_.pod_of(member).probe();
    const unsigned index = device.index();
    if (devices_.send(member, {.kind = Kind::kRefused, .refusal = refusal, .peer = request.peer}))
      devices_.drop(member);
    probe.avoid(index, now_());
    return false;
  }
  device.set_channel_form({request.layout, request.channel_bytes});
  devices_.count();
  // Before the device learns that it owns the id, so that it keeps the id if the broker ends.
  file_.remember(book_);
  if (!devices_.send(member,
                     {.kind = Kind::kWelcome, .peer = request.peer, .fabric = file_.fabric()}))
    return false;
  refill(member);
  deliver_held(member, request.peer);
  return devices_.find(member) != nullptr;
}

bool BrokerRequests::introduce(Member member, PeerId peer) {
  book_.pod_of(member).credits().charge(kRequestsPerConnect - 1);
  const std::optional<Member> other = book_.find(peer);
  const Refusal refusal = other ? make_channel(member, *other) : Refusal::kUnknownPeer;
  ++counts_.introductions[index_of(refusal)];
  if (refusal == Refusal::kNone) return devices_.find(member) != nullptr;
  if (devices_.find(member) == nullptr) return false;  // it asked for itself, and has gone
  return devices_.send(member, {.kind = Kind::kRefused, .refusal = refusal, .peer = peer});
}

// The broker creates all objects, so that no pod gets one of another pod. It creates them in its
// own network namespace, because a socket keeps the namespace alive in which it was created.
Refusal BrokerRequests::make_channel(Member member, Member other) {
  const ChannelForm form = devices_.find(member)->channel_form();
  const BrokerMember& visited = *devices_.find(other);
  if (form != visited.channel_form()) return Refusal::kVersion;
  BrokerPod& pod = book_.pod_of(member);
  BrokerPod& visited_pod = book_.pod_of(other);
  if (visited.waiting() >= kOutboxMax / 2 || visited_pod.credits().shunned() ||
      (visited.has_waiting() && !visited_pod.share().may_wait(descriptors_of(Kind::kChannel))))
    return Refusal::kBusy;
  if (!pod.share().may_give(now_())) {
    devices_.warn("limit", pod, "a channel: pods keep too much memory of the kernel");
    return Refusal::kLimit;
  }
  auto ends = broker::make_channel(form.bytes);
  if (!ends) return Refusal::kFailed;
  pod.share().given(kChannelKernelBytes, now_());
  const Message visit{.kind = Kind::kChannel,
                      .side = 1,
                      .layout = form.layout,
                      .peer = book_.peer_of(member),
                      .pod = pod.number()};
  const Message answer{.kind = Kind::kChannel,
                       .side = 0,
                       .layout = form.layout,
                       .peer = book_.peer_of(other),
                       .pod = visited_pod.number()};
  if (!devices_.send(other, visit, (*ends)[1].descriptors())) return Refusal::kUnknownPeer;
  // If this answer is lost, the other side notices that its bell has no peer.
  (void)devices_.send(member, answer, (*ends)[0].descriptors());
  return Refusal::kNone;
}

Message BrokerRequests::granted(Member owner, const BufferId& buffer) const {
  return {.kind = Kind::kGranted,
          .peer = book_.peer_of(owner),
          .buffer = buffer,
          .pod = book_.pod_of(owner).number()};
}

bool BrokerRequests::grant(Member member, const Request& request) {
  const std::optional<int> memory = devices_.find(member)->memory_of(request.buffer);
  if (!memory) return devices_.drop_hostile(member, "buffer of somebody else");
  if (const std::optional<Member> other = book_.find(request.peer)) {
    (void)devices_.send(*other, granted(member, request.buffer), std::span(&*memory, 1));
    return devices_.find(member) != nullptr;
  }
  // A known peer without a connection may still connect. An unknown peer has ended.
  if (!book_.has_owner(request.peer) || book_.hold_grant(request.peer, {member, request.buffer}))
    return true;
  ++counts_.records_lost;
  devices_.warn("limit", book_.pod_of(member),
                "a grant: too many wait for devices that have not come");
  return true;
}

void BrokerRequests::deliver_held(Member member, PeerId peer) {
  for (const auto& [owner, buffer] : book_.take_grants(peer)) {
    const BrokerMember* const from = devices_.find(owner);
    if (from == nullptr || devices_.find(member) == nullptr) continue;
    const std::optional<int> memory = from->memory_of(buffer);
    if (memory) (void)devices_.send(member, granted(owner, buffer), std::span(&*memory, 1));
  }
}

bool BrokerRequests::take_or_free(Member member, const Request& request) {
  BrokerMember& device = *devices_.find(member);
  if (request.kind == Request::Kind::kTake) {
    if (!device.take(request.buffer))
      return devices_.drop_hostile(member, "buffer of somebody else, or taken twice");
  } else {
    std::vector<FileDescriptor> memory;
    memory.push_back(device.remove(request.buffer));
    if (!memory.back())
      return devices_.drop_hostile(member, "buffer of somebody else, or taken twice");
    BrokerPod& pod = book_.pod_of(member);
    const PodMeter meter(pod.credits());
    devices_.close(pod, std::move(memory));
    devices_.count();
  }
  refill(member);
  return devices_.find(member) != nullptr;
}

void BrokerRequests::refill(Member member) {
  BrokerMember* const device = devices_.find(member);
  if (device == nullptr || !book_.enrolled(member)) return;
  BrokerPod& pod = book_.pod_of(member);
  while (device->wants_blank()) {
    auto blank = device->may_have_buffer() && pod.share().may_give(now_())
                     ? broker::make_blank()
                     : Result<FileDescriptor>(Error{Errc::kExhausted, "buffers"});
    if (!blank) {
      ++counts_.buffers_refused;
      devices_.warn("limit", pod, "a buffer for its stock");
      return;
    }
    pod.share().given(kBufferKernelBytes, now_());
    const int memory = blank->get();
    const BufferId id = device->add_blank(++buffers_made_, std::move(*blank));
    devices_.count();
    const std::uint64_t lost = counts_.records_lost;
    if (!devices_.send(member, {.kind = Kind::kBlank, .buffer = id}, std::span(&memory, 1))) return;
    if (counts_.records_lost == lost) continue;
    (void)device->remove(id);  // otherwise its stock would permanently lack one
    devices_.count();
    return;
  }
}

}  // namespace fairlead::cni::node
