// Adding a link to a group, in both roles (docs/wire.md, "Adding links"): ADD_LINK, in version 1
// ADD_LINK_CONT, and CONFIRM_LINK on the new link. The owner makes and connects the queue pair.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "base/time.h"
#include "smc/group/link_group_parts.h"
#include "wire/llc.h"

namespace fairlead::smc {

inline constexpr Duration kAddedLinkWait = std::chrono::seconds(5);  // for CONFIRM_LINK

// A client's checks of what a server asks for. They hold for the request alone; the group must be
// usable as well.
bool is_acceptable(const wire::AddLink& request, const LinkGroupParts& group);
// Within the server's two seconds, so that its accept() is not held up.
void reject_add_link(LinkIndex link, const wire::AddLink& request, LinkGroupOutput& out);

class AddLinkFlow {
 public:
  // Server. REQUIRES: the carrier is active, an index is free.
  static AddLinkFlow begin(LinkGroupParts& group, LinkIndex carrier, TimePoint now);
  // Client. REQUIRES: is_acceptable(request)
  static AddLinkFlow begin(LinkGroupParts& group, LinkIndex carrier, const wire::AddLink& request,
                           TimePoint now);

  LinkIndex link() const { return link_; }
  LinkIndex carrier() const { return carrier_; }
  TimePoint deadline() const { return deadline_; }
  bool prepares() const { return step_ == Step::kPreparing; }
  bool exchanges_keys() const { return step_ == Step::kExchangingKeys; }
  // The peer has listed its keys for the new link, and only its confirmation is missing.
  bool awaits_confirm() const { return step_ == Step::kAwaitingConfirm; }

  // Reports of the owner about the link. REQUIRES: prepares()
  void handle_prepared(LinkGroupParts& group, const LinkOffer& offer, TimePoint now);
  // Ignored at another time.
  void handle_connected(LinkGroupParts& group, TimePoint now);

  // Messages. After kFailed the owner calls fail().
  struct Outcome {
    FlowStep step = FlowStep::kRuns;
    const char* why = "";  // of kFailed
  };
  Outcome take(LinkGroupParts& group, LinkIndex link, const wire::AddLink& answer);
  Outcome take(LinkGroupParts& group, LinkIndex link, const wire::AddLinkCont& message,
               TimePoint now);

  // Releases the link, if there is one, and tells the peer as far as it has heard of it.
  void fail(LinkGroupParts& group, const char* why);

 private:
  enum class Step : std::uint8_t {
    kPreparing,        // the owner makes a queue pair
    kAwaitingAnswer,   // server: ADD_LINK has been sent
    kConnecting,       // the owner connects it
    kExchangingKeys,   // version 1: ADD_LINK_CONT
    kAwaitingConfirm,  // CONFIRM_LINK is under way on the new link
  };

  AddLinkFlow(LinkIndex link, LinkIndex carrier, TimePoint deadline)
      : link_(link), carrier_(carrier), deadline_(deadline) {}

  wire::AddLink describe_link(LinkGroupParts& group, wire::LlcKind kind);
  void connect(LinkGroupParts& group, const wire::AddLink& peer, Mtu mtu);
  void send_keys(LinkGroupParts& group, wire::LlcKind kind);
  void ask_to_confirm(LinkGroupParts& group, TimePoint now);

  LinkIndex link_;
  LinkIndex carrier_;
  TimePoint deadline_;
  Step step_ = Step::kPreparing;
  LinkOffer offer_;
  std::unique_ptr<wire::AddLink> request_;  // client: what is being answered
  // Version 1.
  std::size_t next_rmb_ = 0;  // the next of this side to list
  std::size_t rounds_ = 0;
};

}  // namespace fairlead::smc
