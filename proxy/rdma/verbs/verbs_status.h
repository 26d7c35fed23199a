// The codes of libibverbs as those of the seam. Pure.
#pragma once

#include <infiniband/verbs.h>

#include <optional>

#include "base/result.h"
#include "rdma/device.h"

namespace fairlead::rdma::verbs {

CompletionStatus status_of(ibv_wc_status status, Completion::Kind kind);

// What an asynchronous event is about.
enum class EventSubject : std::uint8_t { kPort, kQueuePair, kReceiveQueue, kDevice };
struct EventMeaning {
  AsyncEvent::Kind kind;
  EventSubject subject;
};
// Nothing for events that need no answer.
std::optional<EventMeaning> meaning_of(ibv_event_type type);

Mtu mtu_from(ibv_mtu mtu);
ibv_mtu ibv_mtu_of(Mtu mtu);

// Of ibv_modify_qp(3) towards a peer: an address that nobody answers for is kPeerGone.
Error connect_error(const char* what, int error_number) noexcept;

}  // namespace fairlead::rdma::verbs
