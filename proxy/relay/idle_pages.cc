#include "relay/idle_pages.h"

#include "relay/group.h"
#include "relay/smc_relay.h"

namespace fairlead::relay {

bool IdlePages::settled() {
  if (returning_ && !returning_->settle()) return false;
  returning_.reset();
  return true;
}

void IdlePages::check(SmcRelay& relay, TimePoint now) {
  const LinkTransport& transport = relay.group->transport();
  if (relay.buffers.remote.empty() || !transport.returns_pages()) return;
  const smc::TxRing& tx = relay.connection.tx();
  if (tx.taken() != sent_) {
    sent_ = tx.taken();
    sent_at_ = now;
    if (!due_) due_ = now + kIdlePagesAfter;
  }
  if (!due_ || now < *due_) return;
  due_ = sent_at_ + kIdlePagesAfter;
  if (now < *due_) return;
  if (tx.all_consumed() && !tx.urgent() && transport.works(relay.link))
    returning_ = transport.return_pages(relay.link, relay.buffers.remote);
  if (returning_)
    due_.reset();
  else
    due_ = now + kIdlePagesAfter;
}

}  // namespace fairlead::relay
