// What a link group has to say to its peer: LLC messages, and the writes and CDC messages of its
// connections, as far as the queue pairs have room.

#include <algorithm>

#include "base/assert.h"
#include "relay/connection_owner.h"
#include "relay/group.h"

namespace fairlead::relay {

void Group::mark_dirty(SmcRelay& relay) {
  if (relay.in_dirty_list) return;
  relay.in_dirty_list = true;
  dirty_.push_back(&relay);
}

// False when a link has no room, or when the batch has to go out first.
bool Group::flush_llc(SendBatch& batch, TimePoint now) {
  while (batch.room() != 0) {
    if (!llc_waiting_) llc_waiting_ = protocol_.output().poll_llc();
    if (!llc_waiting_) {
      llc_due_ = false;
      return true;
    }
    Lane& lane = lanes_[llc_waiting_->link];
    if (lane.failed || !lane.queue_pair) {
      llc_waiting_.reset();
      continue;
    }
    const bool is_long = llc_waiting_->bytes.size() > wire::kCdcBytes;
    if (batch.count != 0 && (is_long || batch.link != llc_waiting_->link)) return false;
    if (lane.queue_pair->send_room() <= batch.count) return false;
    batch.link = llc_waiting_->link;
    rdma::WorkRequest& request = batch.add();
    request.kind = rdma::WorkRequest::Kind::kSend;
    request.signaled = true;
    request.id = rdma::WorkId{lane.next_id++};
    request.message = llc_waiting_->bytes;
    shared_.stats->llc_sent.add();
    if (is_long) {
      post(batch, now);
    } else {
      std::copy(llc_waiting_->bytes.begin(), llc_waiting_->bytes.end(), batch.message().begin());
      request.message = batch.message();
    }
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
    request.from = {&staging_->buffer(*relay.buffers.staging, lane.foothold),
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
  if (several_links() && (transmit->cdc.state.closed || transmit->cdc.state.aborted))
    keep_last_word(lane, relay, send);
  if (staged && !lane.records.full())
    lane.records.push(
        {send.id, relay.connection.local_token(), transmit->sequence, transmit->staged_until});
  shared_.stats->cdc_sent.add();
  // The session may have waited for this message alone, and no event of the peer follows.
  const bool over = relay.connection.finished() || transmit->cdc.state.aborted;
  if (over) relay.owner->handle_connection_event();
  return true;
}

// Once it has been posted, the connection may go, and nobody is left to repeat it.
void Group::keep_last_word(Lane& lane, const SmcRelay& relay, rdma::WorkRequest& request) {
  request.signaled = true;
  lane.unsignaled = 0;
  if (lane.last_words.size() == kSendRequestsPerLink) lane.last_words.pop_front();
  LastWord& word = lane.last_words.emplace_back();
  word.id = request.id;
  word.token = relay.connection.local_token();
  std::copy(request.message.begin(), request.message.end(), word.message.begin());
}

void Group::flush_last_words(SendBatch& batch, TimePoint now) {
  if (!protocol_.usable()) return last_words_.clear();
  const smc::LinkIndex link = protocol_.links().least_used();
  Lane& lane = lanes_[link];
  while (!last_words_.empty() && batch.room() != 0 && lane.queue_pair->send_room() > batch.count) {
    LastWord word = last_words_.front();
    last_words_.pop_front();
    batch.link = link;
    rdma::WorkRequest& request = batch.add();
    batch.message() = word.message;
    request.kind = rdma::WorkRequest::Kind::kSend;
    request.signaled = true;
    request.id = word.id = rdma::WorkId{lane.next_id++};
    request.message = batch.message();
    lane.last_words.push_back(word);
  }
  post(batch, now);
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
    const bool done = flush_llc(batch, now);
    const bool any = batch.count != 0;
    post(batch, now);
    if (done && !llc_waiting_) break;
    if (!any) break;
  }
  if (!last_words_.empty()) flush_last_words(batch, now);
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
  lanes_[link].done_id = std::max(lanes_[link].done_id, static_cast<std::uint64_t>(id));
  std::list<LastWord>& words = lanes_[link].last_words;
  while (!words.empty() && words.front().id <= id) words.pop_front();
  BoundedQueue<SendRecord>& records = lanes_[link].records;
  while (!records.empty() && records.front().id <= id) {
    const SendRecord record = records.pop();
    SmcRelay* relay = table_.find(record.token);
    if (relay == nullptr) continue;
    relay->connection.handle_transmit_done(record.sequence, record.staged_until);
    relay->owner->handle_connection_event();
  }
}

}  // namespace fairlead::relay
