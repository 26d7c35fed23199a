// What a link group has to say to its peer: LLC messages, and the writes and CDC messages of its
// connections, as far as the queue pairs have room.

#include <algorithm>

#include "base/assert.h"
#include "relay/group.h"

namespace fairlead::relay {

void Group::mark_dirty(SmcRelay& relay) {
  if (relay.in_dirty_list) return;
  relay.in_dirty_list = true;
  dirty_.push_back(&relay);
}

bool Group::flush_llc(SendBatch& batch) {
  while (batch.room() != 0) {
    if (!llc_waiting_) llc_waiting_ = protocol_.poll_llc();
    if (!llc_waiting_) {
      llc_due_ = false;
      return true;
    }
    Lane& lane = lanes_[llc_waiting_->link];
    if (lane.failed || !lane.queue_pair) {
      llc_waiting_.reset();
      continue;
    }
    if (lane.queue_pair->send_room() <= batch.count) return false;
    batch.link = llc_waiting_->link;
    rdma::WorkRequest& request = batch.add();
    SMC_ASSERT(llc_waiting_->bytes.size() <= batch.message().size(), llc_waiting_->bytes.size());
    std::copy(llc_waiting_->bytes.begin(), llc_waiting_->bytes.end(), batch.message().begin());
    request.kind = rdma::WorkRequest::Kind::kSend;
    request.signaled = true;
    request.id = rdma::WorkId{lane.next_id++};
    request.message = batch.message();
    shared_.stats->llc_sent.add();
    llc_waiting_.reset();
  }
  return true;
}

bool Group::transmit(SmcRelay& relay, SendBatch& batch) {
  Lane& lane = lanes_[relay.link];
  const std::optional<smc::Transmit> transmit = relay.connection.poll_transmit();
  if (!transmit) return false;
  for (unsigned i = 0; i < transmit->write_count; ++i) {
    const smc::StagedWrite& write = transmit->writes[i];
    rdma::WorkRequest& request = batch.add();
    request.kind = rdma::WorkRequest::Kind::kWrite;
    request.id = rdma::WorkId{lane.next_id++};
    request.from = {&staging_->buffer(*relay.buffers.staging),
                    staging_->offset_bytes(*relay.buffers.staging) + write.staging_offset,
                    write.length};
    request.to = {
        relay.connection.peer_element().rkey,
        RemoteAddress{relay.connection.peer_element().address.value + write.remote_offset}};
    ++lane.unsignaled;
  }
  rdma::WorkRequest& send = batch.add();
  send.kind = rdma::WorkRequest::Kind::kSend;
  send.id = rdma::WorkId{lane.next_id++};
  send.message = batch.message();
  wire::encode(transmit->cdc, batch.message());
  const bool staged = relay.buffers.staging.has_value();
  const std::size_t ring_bytes = relay.buffers.staging_bytes.size();
  const bool tight =
      staged && relay.connection.tx_window().bytes() <= ring_bytes - ring_bytes / kRingShareHeld;
  send.signaled = ++lane.unsignaled >= kSignalEvery || tight;
  if (send.signaled) lane.unsignaled = 0;
  if (staged && !lane.records.full())
    lane.records.push(
        {send.id, relay.connection.local_token(), transmit->sequence, transmit->staged_until});
  shared_.stats->cdc_sent.add();
  // What the session waited for may have been this word of ours, and no event of the peer follows.
  const bool over = relay.connection.finished() || transmit->cdc.state.aborted;
  if (over && on_connection_news) on_connection_news(relay);
  return true;
}

void Group::post(SendBatch& batch, TimePoint now) {
  if (batch.count == 0) return;
  const Result<void> posted = lanes_[batch.link].queue_pair->post(
      std::span<const rdma::WorkRequest>(batch.requests.data(), batch.count));
  const smc::LinkIndex link = batch.link;
  batch.count = 0;
  if (!posted) handle_link_failure(link, posted.error().what, now);
}

void Group::flush(TimePoint now) {
  SendBatch& batch = shared_.batch;
  while (llc_due_ || llc_waiting_) {
    const bool done = flush_llc(batch);
    const bool any = batch.count != 0;
    post(batch, now);
    if (done && !llc_waiting_) break;
    if (!any) break;
  }
  flushing_.swap(dirty_);
  for (SmcRelay* relay : flushing_) {
    relay->in_dirty_list = false;
    Lane& lane = lanes_[relay->link];
    while (relay->connection.transmit_due() && !lane.failed) {
      if (batch.count != 0 && (batch.link != relay->link || batch.room() < kRequestsPerTransmit))
        post(batch, now);
      if (lane.failed) break;
      if (lane.queue_pair->send_room() < batch.count + kRequestsPerTransmit) {
        mark_dirty(*relay);  // again when completions have made room
        break;
      }
      batch.link = relay->link;
      if (!transmit(*relay, batch)) break;
    }
  }
  flushing_.clear();
  post(batch, now);
}

void Group::handle_send_done(smc::LinkIndex link, rdma::WorkId id) {
  BoundedQueue<SendRecord>& records = lanes_[link].records;
  while (!records.empty() && records.front().id <= id) {
    const SendRecord record = records.pop();
    SmcRelay* relay = table_.find(record.token);
    if (relay == nullptr) continue;
    relay->connection.handle_transmit_done(record.sequence, record.staged_until);
    if (on_connection_news) on_connection_news(*relay);
  }
}

}  // namespace fairlead::relay
