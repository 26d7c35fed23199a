// The other way to a fabric: a broker, whose socket is in the abstract namespace of our network
// namespace, makes a pair of sockets for two devices and passes each its end. So devices reach each
// other that share no directory. The broker sees no byte of what they say to each other.
#pragma once

#include <memory>
#include <string>

#include "base/time.h"
#include "broker/message.h"
#include "rdma/shm/shm_rendezvous.h"

namespace fairlead::rdma::shm {

class BrokerLink final : public Rendezvous {
 public:
  enum class State : std::uint8_t {
    kGreeting,  // connected, the Welcome has not come
    kUp,
    kDown,      // lost, or refused
    kMigrated,  // the broker is of another fabric than before: what is on this one is lost to it
  };

  // Connects to the broker at `name`, "@x" in the abstract namespace, and says who we are. Does not
  // wait. Errors: kPeerGone when nobody listens, kWouldBlock when its backlog is full, kPermission
  // for a socket that is not root's.
  static Result<std::unique_ptr<BrokerLink>> open(const std::string& name, PeerId self);

  // Reads the Welcome if it has come. Before a device has the link; then accept() does it.
  State greet();
  // The same, but waits for it.
  State await_welcome(Duration limit);

  State state() const { return state_; }
  // Why it is kDown, for people.
  const char* trouble() const { return trouble_; }

  FabricId id() const override { return fabric_; }
  int descriptor() const override { return socket_.get(); }
  Result<FileDescriptor> dial(PeerId peer) override;
  bool may_reach(PeerId) const override { return state_ == State::kUp; }
  Result<Arrival> accept() override;
  void reconnect() override;

 private:
  BrokerLink(std::string name, PeerId self) : name_(std::move(name)), self_(self) {}
  Result<void> connect();
  Error lose(const char* trouble);
  Result<Arrival> handle(broker::Received received);
  Result<Arrival> handle_welcome(const broker::Message& message);

  std::string name_;
  PeerId self_;
  FabricId fabric_;  // zero until the first Welcome
  FileDescriptor socket_;
  State state_ = State::kDown;
  const char* trouble_ = "";
};

}  // namespace fairlead::rdma::shm
