#include "rdma/verbs/verbs_status.h"

#include <cerrno>

namespace fairlead::rdma::verbs {

CompletionStatus status_of(ibv_wc_status status, Completion::Kind kind) {
  if (status == IBV_WC_SUCCESS) return CompletionStatus::kSuccess;
  if (status == IBV_WC_WR_FLUSH_ERR) return CompletionStatus::kFlushed;
  if (kind == Completion::Kind::kReceive) return CompletionStatus::kLocalError;
  // NOLINTNEXTLINE(clang-diagnostic-switch-enum): the rest is local, whatever comes to be added
  switch (static_cast<int>(status)) {
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_REM_INV_REQ_ERR:  // the peer refused what we asked for: its receive was too short
    case IBV_WC_REM_OP_ERR:
      return CompletionStatus::kRemoteAccessError;
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RNR_RETRY_EXC_ERR:
    case IBV_WC_RESP_TIMEOUT_ERR:
    case IBV_WC_REM_ABORT_ERR:
      return CompletionStatus::kRetryExceeded;
    default:
      return CompletionStatus::kLocalError;
  }
}

std::optional<EventMeaning> meaning_of(ibv_event_type type) {
  using Kind = AsyncEvent::Kind;
  switch (type) {
    case IBV_EVENT_PORT_ACTIVE:
      return EventMeaning{Kind::kPortUp, EventSubject::kPort};
    case IBV_EVENT_PORT_ERR:
      return EventMeaning{Kind::kPortDown, EventSubject::kPort};
    case IBV_EVENT_GID_CHANGE:
    case IBV_EVENT_LID_CHANGE:
    case IBV_EVENT_PKEY_CHANGE:
      return EventMeaning{Kind::kGidChange, EventSubject::kPort};
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      return EventMeaning{Kind::kReceiveLimit, EventSubject::kReceiveQueue};
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    // With a shared receive queue it is the word of a queue pair that went into error; Soft-RoCE
    // has no other.
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      return EventMeaning{Kind::kQueuePairError, EventSubject::kQueuePair};
    // A queue that all share cannot be trusted any more.
    case IBV_EVENT_CQ_ERR:
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_DEVICE_FATAL:
      return EventMeaning{Kind::kDeviceFatal, EventSubject::kDevice};
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_SM_CHANGE:
    case IBV_EVENT_CLIENT_REREGISTER:
    case IBV_EVENT_WQ_FATAL:
      return std::nullopt;
  }
  return std::nullopt;
}

Mtu mtu_from(ibv_mtu mtu) {
  const auto code = static_cast<unsigned>(mtu);
  return code >= 1 && code <= 5 ? static_cast<Mtu>(code) : Mtu::k256;
}

ibv_mtu ibv_mtu_of(Mtu mtu) { return static_cast<ibv_mtu>(mtu); }

Error connect_error(const char* what, int error_number) noexcept {
  Error error = system_error(what, error_number);
  if (error_number == ETIMEDOUT) error.code = Errc::kPeerGone;
  return error;
}

}  // namespace fairlead::rdma::verbs
