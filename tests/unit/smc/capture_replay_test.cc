// Goal: Fairlead sends the same messages as a Linux kernel. Method: the captures in tests/captures
// are one link group of two kernels, and Fairlead replaces one of them. Its handshake and link
// group get the other kernel's messages. Their answers are compared with the recorded ones, field
// by field, link by link. Numbers that a host chooses by itself (queue pairs, keys, sequence
// numbers) are taken from the recording.
//
// Not compared: CDC, and Fairlead's own DELETE_RKEY with the CONFIRM_RKEY of the next connection.
// Linux frees an RMB with its connection, Fairlead keeps its RMB as long as the group.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "smc/clc/handshake.h"
#include "smc/clc/negotiate.h"
#include "smc/group/link_group.h"
#include "unit/wire/pcap_reader.h"
#include "wire/cdc.h"

namespace fairlead::smc {
namespace {

using wire::test::CapturedMessage;
using wire::test::Channel;
using wire::test::Origin;
using wire::test::origin_of;

std::uint8_t host_of(std::uint32_t address) { return static_cast<std::uint8_t>(address & 0xffU); }
std::uint8_t host_of(const Gid& gid) { return gid.bytes[15]; }

template <class Message>
const Message* body_as(const wire::LlcMessage& message) {
  return std::get_if<Message>(&message.body);
}

bool about_our_rkeys(const wire::LlcMessage& message, bool ours) {
  const auto asks = [&](wire::LlcKind kind) { return (kind == wire::LlcKind::kRequest) == ours; };
  if (const auto* told = body_as<wire::ConfirmRkey>(message)) return asks(told->kind);
  if (const auto* deleted = body_as<wire::DeleteRkey>(message)) return asks(deleted->kind);
  return false;
}

// Without fields that a host may choose freely.
wire::LlcMessage comparable(wire::LlcMessage message) {
  if (auto* confirm = std::get_if<wire::ConfirmLink>(&message.body)) confirm->link_user_id = 0;
  // Linux counts the deleted keys, but does not repeat them.
  if (auto* deleted = std::get_if<wire::DeleteRkey>(&message.body))
    for (RemoteKey& rkey : deleted->rkeys.items) rkey = RemoteKey{0};
  return message;
}

class Stand {
 public:
  explicit Stand(Origin us) : us_(us) {
    offer_.peer_id.bytes[0] = 1;
    offer_.max_links = 2;
    offer_.host_name = "(none)";
    wire::Eid eid;
    const std::string_view text = "FAIRLEAD-LAB";
    std::copy(text.begin(), text.end(), eid.bytes.begin());
    offer_.ueids.push_back(eid);
  }

  void play(const std::string& name) {
    const wire::test::Capture capture = wire::test::read_capture(name);
    ASSERT_EQ(capture.error, "");
    messages_ = capture.messages;
    handshake_.reset();
    for (at_ = 0; at_ < messages_.size(); ++at_) {
      const CapturedMessage& message = messages_[at_];
      SCOPED_TRACE(name + " frame " + std::to_string(message.frame));
      if (message.channel == Channel::kTcp)
        take_clc(message);
      else if (!wire::is_cdc(message.bytes))
        take_llc(message);
      if (testing::Test::HasFatalFailure()) return;
    }
    EXPECT_FALSE(group_->output().poll_llc()) << "we say more than Linux";
    EXPECT_EQ(handshake_->state(), Handshake::State::kEstablished);
  }

  const LinkGroup& group() const { return *group_; }
  unsigned compared() const { return compared_; }

 private:
  bool is_server() const { return us_ == Origin::kServer; }
  bool is_ours(const CapturedMessage& message) const { return origin_of(message) == us_; }

  void take_clc(const CapturedMessage& message) {
    const wire::ClcHeader header = wire::decode_clc_header(message.bytes).value();
    if (header.type == wire::ClcType::kProposal) {
      recorded_proposal_ = *wire::decode_proposal(message.bytes);
      return is_server() ? take_proposal(message) : propose();
    }
    const wire::AcceptConfirm recorded = *wire::decode_accept_confirm(message.bytes);
    (header.type == wire::ClcType::kAccept ? accept_ : confirm_) = recorded;
    if (is_ours(message)) return answer(recorded);
    ASSERT_EQ(handshake_->handle_bytes(message.bytes, now_), message.bytes.size());
    ASSERT_EQ(handshake_->state(), Handshake::State::kInHand);
    const Judgement<Terms> terms = is_server()
                                       ? judge_confirm(handshake_->answer(), accept_, terms_)
                                       : judge_accept(handshake_->answer(), handshake_proposal_);
    ASSERT_TRUE(terms);
    terms_ = *terms;
    if (is_server()) both_have_answered();
  }

  void propose() {
    handshake_proposal_ = make_proposal(offer_, recorded_proposal_.v2->gid, Mac{}, {});
    wire::Proposal ours = handshake_proposal_;
    ours.peer_id = recorded_proposal_.peer_id;  // Linux also sends it if version 1 is offered
    ours.v2->feature_mask = recorded_proposal_.v2->feature_mask;
    EXPECT_TRUE(ours == recorded_proposal_);
    ++compared_;
    handshake_.emplace(Handshake::client(handshake_proposal_, offer_.peer_id, now_, kTimeout));
    handshake_->output_written(handshake_->output().size());
  }

  void take_proposal(const CapturedMessage& message) {
    handshake_.emplace(Handshake::server(offer_.peer_id, now_, kTimeout));
    ASSERT_EQ(handshake_->handle_bytes(message.bytes, now_), message.bytes.size());
    ASSERT_EQ(handshake_->state(), Handshake::State::kInHand);
    const Terms terms = judge_proposal(handshake_->proposal(), offer_, 2).value();
    terms_ = terms;
  }

  void answer(const wire::AcceptConfirm& recorded) {
    offer_.peer_id = recorded.peer_id;
    wire::AcceptConfirm ours =
        make_answer(recorded.type, offer_, terms_, recorded.first_contact, true);
    ours.gid = recorded.gid;
    ours.mac = recorded.mac;
    ours.queue_pair = recorded.queue_pair;
    ours.rmb_rkey = recorded.rmb_rkey;
    ours.rmb_index = recorded.rmb_index;
    ours.alert_token = recorded.alert_token;
    ours.rmb_size_code = recorded.rmb_size_code;
    ours.mtu = recorded.mtu;
    ours.rmb_address = recorded.rmb_address;
    ours.first_psn = recorded.first_psn;
    ours.gids = recorded.gids;
    if (recorded.first_contact_v2)
      ours.first_contact_v2->feature_mask = recorded.first_contact_v2->feature_mask;
    EXPECT_TRUE(ours == recorded);
    ++compared_;
    if (is_server())
      handshake_->send_accept(ours, now_);
    else
      handshake_->send_confirm(ours);
    handshake_->output_written(handshake_->output().size());
    if (!is_server()) both_have_answered();
  }

  void both_have_answered() {
    if (!confirm_.first_contact) return handshake_->establish();
    handshake_->await_link(now_);
    group_.emplace(is_server() ? GroupRole::kServer : GroupRole::kClient, terms_, GroupTimes{},
                   now_, std::uint8_t{2});
    const wire::AcceptConfirm& own = is_server() ? accept_ : confirm_;
    const wire::AcceptConfirm& peer = is_server() ? confirm_ : accept_;
    group_->start_first_contact({own.gid, own.mac, own.queue_pair},
                                {peer.gid, peer.mac, peer.queue_pair}, now_);
    ASSERT_TRUE(group_->local_rmbs().add(0, {own.rmb_rkey, own.rmb_address}));
    group_->peer_rmb_named(0, {peer.rmb_rkey, peer.rmb_address});
  }

  void take_llc(const CapturedMessage& captured) {
    const wire::LlcMessage message = wire::decode_llc(captured.bytes).value();
    const bool ours = is_ours(captured);
    if (about_our_rkeys(message, ours)) return;
    if (ours) return expect_llc(captured, message);
    const std::optional<LinkIndex> link = link_between(captured.to, captured.from);
    ASSERT_TRUE(link);
    group_->handle_received(*link, now_);
    group_->handle_llc(*link, message, now_);
    perform();
  }

  void expect_llc(const CapturedMessage& captured, const wire::LlcMessage& recorded) {
    cause(recorded);
    const std::optional<LlcToSend> sent = group_->output().poll_llc();
    ASSERT_TRUE(sent) << "we say nothing";
    const wire::LlcMessage ours = wire::decode_llc(sent->bytes).value();
    EXPECT_TRUE(comparable(ours) == comparable(recorded));
    EXPECT_EQ(sent->link, link_between(captured.from, captured.to));
    ++compared_;
    perform();
  }

  // Events of the Linux host that are not on the wire.
  void cause(const wire::LlcMessage& recorded) {
    const auto* deleted = body_as<wire::DeleteLink>(recorded);
    const bool lost = deleted != nullptr && deleted->kind == wire::LlcKind::kRequest &&
                      deleted->reason == wire::DeleteLinkReason::kPathLost;
    if (lost && !is_server())
      for (LinkIndex i = 0; i < kLinksMax; ++i)
        if (group_->links()[i] && group_->links()[i]->number() == deleted->link)
          group_->handle_link_down(i, now_, "its port went down");
    if (const auto* wish = body_as<wire::ReqAddLink>(recorded))
      group_->handle_ports_changed(wish->gids.view(), now_);
    perform();
  }

  void perform() {
    while (const auto task = group_->poll_task(now_)) {
      if (task->kind == LinkTask::Kind::kConnect) group_->task_done(*task, now_);
      if (task->kind != LinkTask::Kind::kPrepare) continue;
      const wire::AddLink add = next_own_add();
      const wire::RkeyEntry& rmb = add.rkeys.items[0];
      group_->local_rmbs().set_key(0, task->link, {rmb.new_rkey, rmb.new_address});
      group_->task_done(
          *task, now_,
          LinkOffer{
              {add.gid, add.mac, add.queue_pair}, add.first_psn, static_cast<Mtu>(add.mtu_code)});
    }
    while (const auto event = group_->output().poll_event())
      if (event->kind == GroupEvent::Kind::kLinkConfirmed) handshake_->link_confirmed();
  }

  wire::AddLink next_own_add() const {
    for (std::size_t i = at_; i < messages_.size(); ++i) {
      if (messages_[i].channel != Channel::kRoce || !is_ours(messages_[i])) continue;
      const Result<wire::LlcMessage> message = wire::decode_llc(messages_[i].bytes);
      if (message && body_as<wire::AddLink>(*message)) return *body_as<wire::AddLink>(*message);
    }
    ADD_FAILURE() << "we add a link where Linux did not";
    return {};
  }

  std::optional<LinkIndex> link_between(std::uint32_t own, std::uint32_t peer) const {
    for (LinkIndex i = 0; i < kLinksMax; ++i) {
      const std::optional<Link>& link = group_->links()[i];
      if (link && host_of(link->local().gid) == host_of(own) &&
          host_of(link->peer().gid) == host_of(peer))
        return i;
    }
    return std::nullopt;
  }

  static constexpr Duration kTimeout = std::chrono::seconds(6);

  Origin us_;
  TimePoint now_{std::chrono::hours(1)};
  LocalOffer offer_;
  Terms terms_;
  wire::Proposal recorded_proposal_, handshake_proposal_;
  wire::AcceptConfirm accept_, confirm_;  // as recorded
  std::optional<Handshake> handshake_;
  std::optional<LinkGroup> group_;
  std::vector<CapturedMessage> messages_;
  std::size_t at_ = 0;
  unsigned compared_ = 0;
};

class CaptureReplay : public testing::TestWithParam<Origin> {};

TEST_P(CaptureReplay, WeSayWhatLinuxSaid) {
  Stand stand(GetParam());
  for (const char* name : {"first-contact-two-rnics.pcap", "second-connection-reuse.pcap",
                           "two-connections-abort.pcap", "bulk-200k.pcap", "link-failover.pcap"}) {
    ASSERT_NO_FATAL_FAILURE(stand.play(name));
    EXPECT_EQ(stand.group().links().type(), GroupType::kSymmetric) << name;
  }
  EXPECT_EQ(stand.group().links().active_count(), 2U);
  EXPECT_EQ(stand.compared(), GetParam() == Origin::kClient ? 30U : 23U);
}

INSTANTIATE_TEST_SUITE_P(Roles, CaptureReplay, testing::Values(Origin::kClient, Origin::kServer),
                         [](const auto& role) {
                           return role.param == Origin::kClient ? "Client" : "Server";
                         });

}  // namespace
}  // namespace fairlead::smc
