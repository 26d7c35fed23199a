// What becomes of a connection when its link dies and another one is left (docs/wire.md,
// "Failover").

#include <algorithm>

#include "base/assert.h"
#include "smc/connection.h"

namespace fairlead::smc {

void Connection::handle_link_switched(const RmbElement& element) {
  if (!has_peer_ || lost_) return;
  SMC_ASSERT(element.size_bytes == peer_element_.size_bytes, element.size_bytes);
  peer_element_ = element;
  // As in Linux: whoever is closing moves without being asked.
  validation_due_ = state_ == CloseState::kActive;
  repeat_due_ = true;
  tx_doubtful_ = tx_reached_;
  tx_urgent_due_ = tx_urgent_at_ != 0;
  if (!staged()) return;  // the bytes themselves are where they belong
  // What the peer has consumed has arrived, even if nobody told us in time. Writing the rest again
  // puts the same bytes into the same places.
  tx_acked_ = std::max(tx_acked_, tx_peer_consumed_);
  tx_produced_ = tx_acked_;
  invariants();
}

// Linux names the message before the last completed one, and so leaves room for a last one that the
// peer has not looked at yet; its cursors and state are zero.
Transmit Connection::validation() {
  validation_due_ = false;
  Transmit transmit;
  transmit.validation = true;
  transmit.cdc.sequence =
      static_cast<std::uint16_t>(tx_sequence_done_ != 0 ? tx_sequence_done_ - 1 : 0);
  transmit.cdc.token = peer_token_;
  transmit.cdc.producer_flags.failover_validation = true;
  return transmit;
}

}  // namespace fairlead::smc
