// The connector of a device on a node with a broker: it listens in the abstract namespace of its
// pod, the broker connects, makes all that is shared and passes the descriptors. Requests go
// through memory, because no descriptor can travel there (docs/broker.md).
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "base/linux/unix_listener.h"
#include "base/time.h"
#include "broker/message.h"
#include "broker/request_ring.h"
#include "rdma/shm/connect/shm_connector.h"
#include "rdma/shm/memory/shm_segment.h"

namespace fairlead::rdma::shm {

class BrokerConnector final : public Connector {
 public:
  enum class State : std::uint8_t {
    kListening,    // no broker has connected yet
    kRegistering,  // one has, and has not answered yet
    kRegistered,
    kDown,           // lost, or refused; still listening
    kFabricChanged,  // the broker is of another fabric: what is on this one is lost to it
  };

  // Listens as "`name`-0" or the next free index. `broker_uid` may be the broker, and with root
  // the own user too. Errors: kUnsupported for a name too long, kExhausted when all indices are
  // taken, those of bind(2).
  static Result<std::unique_ptr<BrokerConnector>> open(const std::string& name, PeerId self,
                                                       std::uint32_t broker_uid = 0);
  ~BrokerConnector() override;

  // Reads what has come. Before a device has the connector; then next() does it.
  State poll_registration();
  // The same, but waits for the answer to the registration.
  State wait_registered(Duration limit);
  State state() const { return state_; }
  // Why it is not kRegistered, for people.
  const char* error_text() const { return error_text_; }

  FabricId id() const override { return fabric_; }
  Result<void> set_watcher(FdWatcher* watcher) override;
  bool owns(int fd) const override { return fd == listener_.descriptor() || fd == link_.get(); }
  void handle_readable(int fd) override;
  Result<void> request_channel(PeerId peer) override;
  bool may_reach(PeerId) const override { return state_ == State::kRegistered; }
  // Waits up to kStockWaitMax for an empty stock to be refilled; not again within kStockWaitPause.
  Result<Blank> take_buffer() override;
  Result<void> grant(const BufferId& buffer, PeerId peer) override;
  void free_buffer(const BufferId& buffer) override;
  bool may_bring(const BufferId& buffer) const override {
    const auto broker = [](std::uint64_t instance) { return instance >> 32; };
    return broker(buffer.instance) != broker(lost_instance_) ||
           broker(buffer.instance) == broker(instance_);
  }
  Result<ConnectorEvent> next() override;
  bool has_events() const override { return !events_.empty() || lost_; }
  void flush() override;
  bool backlog() const override { return !waiting_.empty() || wake_due_; }

 private:
  BrokerConnector(PeerId self, std::uint32_t broker_uid) : self_(self), broker_uid_(broker_uid) {}
  Result<void> listen(const std::string& name);
  bool may_be_broker(int link) const;
  void accept_broker();
  void take_link(ForeignDescriptor link);
  void drop_link();
  void lose(State state, const char* why);
  void read_all();
  Result<void> handle(broker::Received received);
  Result<void> handle_ring(broker::Received received);
  Result<void> handle_welcome(const broker::Message& message);
  Result<void> keep(broker::Received received);
  void ask(const broker::Request& request);
  void wake_broker();
  bool usable(const BufferId& buffer) const {
    return state_ == State::kRegistered && buffer.instance == instance_;
  }

  PeerId self_;
  std::uint32_t broker_uid_;
  FdWatcher* watcher_ = nullptr;
  // Closes what came from a process that may not be the broker, because root in another container
  // of the pod can connect too. Declared before listener_, so that it outlives its descriptors.
  DescriptorCloser closer_;
  UnixListener listener_;
  ForeignDescriptor link_;
  State state_ = State::kListening;
  const char* error_text_ = "no broker has connected yet";
  FabricId fabric_;                  // zero until the first Welcome
  std::uint64_t instance_ = 0;       // of link_; its upper half is of the broker
  std::uint64_t lost_instance_ = 0;  // of the one before
  Mapping ring_memory_;
  std::optional<broker::RequestWriter> requests_;
  std::deque<broker::Request> waiting_;  // the ring is full
  bool wake_due_ = false;
  bool lost_ = false;  // next() has to say so
  struct Stock {
    std::deque<Blank> blanks;
    TimePoint no_wait_before{};
  };
  Stock stock_;
  std::deque<ConnectorEvent> events_;
};

}  // namespace fairlead::rdma::shm
