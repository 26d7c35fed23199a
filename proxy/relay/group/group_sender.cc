#include "relay/group/group_sender.h"

#include <algorithm>

#include "relay/connection/connection_owner.h"

namespace fairlead::relay {

void GroupSender::schedule(SmcRelay& relay) {
  if (!relay.exchange_scheduled(true)) scheduled_.push_back(&relay);
}

void GroupSender::unschedule(SmcRelay& relay) {
  if (relay.exchange_scheduled(false)) std::erase(scheduled_, &relay);
}

void GroupSender::reset_link(smc::LinkIndex link) {
  const std::uint64_t next_id = queues_[link].next_id;
  queues_[link] = {};
  queues_[link].next_id = next_id;
  queues_[link].done_id = next_id - 1;
}

void GroupSender::handle_link_failed(smc::LinkIndex link) {
  SendQueue& queue = queues_[link];
  queue.records.clear();
  // A connection that still exists repeats everything by itself.
  for (const FinalMessage& message : queue.final_messages)
    if (connections_.find(message.token) == nullptr) final_messages_.push_back(message);
  queue.final_messages.clear();
}

GroupMemory::DoneRequests GroupSender::done_requests() const {
  GroupMemory::DoneRequests done;
  for (smc::LinkIndex i = 0; i < smc::kLinksMax; ++i)
    if (transport_.works(i)) done[i] = queues_[i].done_id;
  return done;
}

// False if a link has no room, or if the batch must be posted first.
bool GroupSender::flush_llc(TimePoint now) {
  SendBatch& batch = shared_.batch;
  while (batch.room() != 0) {
    if (!llc_waiting_) llc_waiting_ = protocol_.output().poll_llc();
    if (!llc_waiting_) {
      llc_due_ = false;
      return true;
    }
    const smc::LinkIndex link = llc_waiting_->link;
    if (!transport_.works(link)) {
      llc_waiting_.reset();
      continue;
    }
    const bool is_long = llc_waiting_->bytes.size() > wire::kCdcBytes;
    if (batch.count != 0 && (is_long || batch.link != link)) return false;
    if (transport_.queue_pair(link)->send_room() <= batch.count) return false;
    batch.link = link;
    rdma::WorkRequest& request = batch.add();
    request.kind = rdma::WorkRequest::Kind::kSend;
    request.signaled = true;
    request.id = rdma::WorkId{queues_[link].next_id++};
    request.message = llc_waiting_->bytes;
    shared_.stats->llc_sent.add();
    if (is_long) {
      post(now);
    } else {
      std::copy(llc_waiting_->bytes.begin(), llc_waiting_->bytes.end(), batch.message().begin());
      request.message = batch.message();
    }
    llc_waiting_.reset();
  }
  return true;
}

void GroupSender::add_write(const SmcRelay& relay, const smc::SendRingWrite& write) {
  SendQueue& queue = queues_[relay.link()];
  const smc::ElementId ring = *relay.buffers().send_ring();
  const BufferSlabs& rings = memory_.send_rings();
  const smc::RmbElement& element = relay.connection().tx().element();
  rdma::WorkRequest& request = shared_.batch.add();
  request.kind = rdma::WorkRequest::Kind::kWrite;
  request.id = rdma::WorkId{queue.next_id++};
  request.from = {&rings.buffer(ring, transport_.attachment(relay.link())),
                  rings.offset_bytes(ring) + write.ring_offset, write.length};
  request.to = {element.rkey, RemoteAddress{element.address.value + write.remote_offset}};
  ++queue.unsignaled;
}

bool GroupSender::transmit(SmcRelay& relay) {
  const std::optional<smc::Transmit> transmit = relay.connection().poll_transmit();
  if (!transmit) return false;
  for (unsigned i = 0; i < transmit->write_count; ++i) add_write(relay, transmit->writes[i]);
  SendQueue& queue = queues_[relay.link()];
  SendBatch& batch = shared_.batch;
  rdma::WorkRequest& send = batch.add();
  send.kind = rdma::WorkRequest::Kind::kSend;
  send.id = rdma::WorkId{queue.next_id++};
  send.message = batch.message();
  wire::encode(transmit->cdc, batch.message());
  const bool staged = relay.buffers().send_ring().has_value();
  const std::size_t ring_bytes = relay.buffers().send_ring_bytes().size();
  const bool tight =
      staged && relay.connection().tx_window().bytes() <= ring_bytes - ring_bytes / kRingShareHeld;
  send.signaled = ++queue.unsignaled >= kSignalEvery || tight;
  if (send.signaled) queue.unsignaled = 0;
  const bool several_links = protocol_.links().max() > 1;
  if (several_links && (transmit->cdc.state.closed || transmit->cdc.state.aborted))
    keep_final_message(relay, send);
  if (staged && !queue.records.full())
    queue.records.push(
        {send.id, relay.connection().local_token(), transmit->sequence, transmit->written_until});
  shared_.stats->cdc_sent.add();
  // The owner may have waited for this message alone, and no event of the peer follows.
  const bool over = relay.connection().finished() || transmit->cdc.state.aborted;
  if (over) relay.owner().handle_connection_event();
  return true;
}

// Keeps a copy: once the message is posted, the connection may go and could not repeat it.
void GroupSender::keep_final_message(const SmcRelay& relay, rdma::WorkRequest& request) {
  SendQueue& queue = queues_[relay.link()];
  request.signaled = true;
  queue.unsignaled = 0;
  if (queue.final_messages.size() == kSendRequestsPerLink) queue.final_messages.pop_front();
  FinalMessage& message = queue.final_messages.emplace_back();
  message.id = request.id;
  message.token = relay.connection().local_token();
  std::copy(request.message.begin(), request.message.end(), message.bytes.begin());
}

void GroupSender::flush_final_messages(TimePoint now) {
  if (!protocol_.usable()) return final_messages_.clear();
  const smc::LinkIndex link = protocol_.links().least_used();
  SendBatch& batch = shared_.batch;
  while (!final_messages_.empty() && batch.room() != 0 &&
         transport_.queue_pair(link)->send_room() > batch.count) {
    FinalMessage message = final_messages_.front();
    final_messages_.pop_front();
    batch.link = link;
    rdma::WorkRequest& request = batch.add();
    batch.message() = message.bytes;
    request.kind = rdma::WorkRequest::Kind::kSend;
    request.signaled = true;
    request.id = message.id = rdma::WorkId{queues_[link].next_id++};
    request.message = batch.message();
    queues_[link].final_messages.push_back(message);
  }
  post(now);
}

void GroupSender::post(TimePoint now) {
  SendBatch& batch = shared_.batch;
  if (batch.count == 0) return;
  const Result<void> posted =
      transport_.queue_pair(batch.link)
          ->post(std::span<const rdma::WorkRequest>(batch.requests.data(), batch.count));
  const smc::LinkIndex link = batch.link;
  batch.count = 0;
  if (!posted) failures_.handle_link_failure(link, posted.error().what, now);
}

void GroupSender::flush_connection(SmcRelay& relay, TimePoint now) {
  SendBatch& batch = shared_.batch;
  (void)relay.exchange_scheduled(false);
  const smc::LinkIndex link = relay.link();  // a moved connection is scheduled again
  while (relay.connection().transmit_due() && transport_.works(link)) {
    if (batch.count != 0 && (batch.link != link || batch.room() < kRequestsPerTransmit)) post(now);
    if (!transport_.works(link)) break;
    if (transport_.queue_pair(link)->send_room() < batch.count + kRequestsPerTransmit)
      return schedule(relay);  // again when completions have freed room
    batch.link = link;
    if (!transmit(relay)) break;
  }
}

void GroupSender::flush(TimePoint now) {
  while (llc_pending()) {
    const bool done = flush_llc(now);
    const bool any = shared_.batch.count != 0;
    post(now);
    if (done && !llc_waiting_) break;
    if (!any) break;
  }
  if (!final_messages_.empty()) flush_final_messages(now);
  flushing_.swap(scheduled_);
  for (SmcRelay* relay : flushing_) flush_connection(*relay, now);
  flushing_.clear();
  post(now);
}

void GroupSender::handle_send_done(smc::LinkIndex link, rdma::WorkId id) {
  SendQueue& queue = queues_[link];
  queue.done_id = std::max(queue.done_id, static_cast<std::uint64_t>(id));
  std::list<FinalMessage>& messages = queue.final_messages;
  while (!messages.empty() && messages.front().id <= id) messages.pop_front();
  while (!queue.records.empty() && queue.records.front().id <= id) {
    const SendRecord record = queue.records.pop();
    SmcRelay* relay = connections_.find(record.token);
    if (relay == nullptr) continue;
    relay->connection().handle_transmit_done(record.sequence, record.written_until);
    relay->owner().handle_connection_event();
  }
}

}  // namespace fairlead::relay
