// Sends what a link group has for its peer as far as the queue pairs have room: LLC messages, and
// the writes and CDC messages of its connections.
#pragma once

#include <array>
#include <list>
#include <optional>
#include <vector>

#include "base/bounded_queue.h"
#include "relay/group/group_memory.h"
#include "relay/group/group_resources.h"
#include "relay/group/link_transport.h"
#include "relay/pipes/smc_relay.h"
#include "smc/group/connection_table.h"
#include "smc/group/link_group.h"

namespace fairlead::relay {

// A transmission is at most three writes and one message.
inline constexpr std::uint32_t kRequestsPerTransmit = smc::Transmit::kWritesMax + 1;
// A completion only frees room, but wakes the thread. So it is requested once per kSignalEvery
// requests, or when 1/kRingShareHeld of a connection's send ring is in use.
inline constexpr unsigned kSignalEvery = 32;
inline constexpr unsigned kRingShareHeld = 4;

class LinkFailureHandler {
 public:
  virtual void handle_link_failure(smc::LinkIndex link, const char* why, TimePoint now) = 0;

 protected:
  ~LinkFailureHandler() = default;
};

class GroupSender {
 public:
  GroupSender(GroupResources& shared, smc::LinkGroup& protocol, const LinkTransport& transport,
              const GroupMemory& memory, const smc::ConnectionTable<SmcRelay>& connections,
              LinkFailureHandler& failures)
      : shared_(shared),
        protocol_(protocol),
        transport_(transport),
        memory_(memory),
        connections_(connections),
        failures_(failures) {}

  // Queues a connection that has something to send. It may have a transmission in flight.
  void schedule(SmcRelay& relay);
  void unschedule(SmcRelay& relay);
  // Notes that the group may have LLC messages to send.
  void schedule_llc() { llc_due_ = true; }
  bool pending() const { return !scheduled_.empty() || llc_pending() || !final_messages_.empty(); }
  // Sends what is due as far as the links have room.
  void flush(TimePoint now);
  // True when nothing but data of connections waits to be sent.
  bool drained() const { return !llc_pending() && final_messages_.empty(); }

  // Frees the staged bytes of completed requests, and notifies the owners of the connections.
  void handle_send_done(smc::LinkIndex link, rdma::WorkId id);
  // Drops the link's records: nothing more goes over it, and no posted request will be reported.
  void handle_link_failed(smc::LinkIndex link);
  // Prepares the link index for another queue pair.
  void reset_link(smc::LinkIndex link);

  std::uint64_t last_request(smc::LinkIndex link) const { return queues_[link].next_id - 1; }
  GroupMemory::DoneRequests done_requests() const;

 private:
  struct SendRecord {
    rdma::WorkId id{};
    AlertToken token;
    std::uint64_t sequence = 0;
    std::uint64_t written_until = 0;
  };
  // The last message of a connection that may be gone. Its peer waits for the message.
  struct FinalMessage {
    rdma::WorkId id{};
    AlertToken token;
    std::array<std::byte, wire::kCdcBytes> bytes{};
  };
  // The requests in flight on a link.
  struct SendQueue {
    BoundedQueue<SendRecord> records{kSendRequestsPerLink};
    std::list<FinalMessage> final_messages;  // at most kSendRequestsPerLink; if links can be added
    std::uint64_t next_id = 1;               // continues when the index is used again
    std::uint64_t done_id = 0;               // last request known to be complete
    unsigned unsignaled = 0;
  };

  bool llc_pending() const { return llc_waiting_.has_value() || llc_due_; }
  bool flush_llc(TimePoint now);
  void flush_final_messages(TimePoint now);
  void flush_connection(SmcRelay& relay, TimePoint now);
  bool transmit(SmcRelay& relay);
  void add_write(const SmcRelay& relay, const smc::SendRingWrite& write);
  void keep_final_message(const SmcRelay& relay, rdma::WorkRequest& request);
  void post(TimePoint now);

  GroupResources& shared_;
  smc::LinkGroup& protocol_;
  const LinkTransport& transport_;
  const GroupMemory& memory_;
  const smc::ConnectionTable<SmcRelay>& connections_;
  LinkFailureHandler& failures_;
  std::array<SendQueue, smc::kLinksMax> queues_;
  std::vector<SmcRelay*> scheduled_;
  std::vector<SmcRelay*> flushing_;
  std::optional<smc::LlcToSend> llc_waiting_;
  bool llc_due_ = false;
  std::list<FinalMessage> final_messages_;  // lost with their link; to be sent on another one
};

}  // namespace fairlead::relay
