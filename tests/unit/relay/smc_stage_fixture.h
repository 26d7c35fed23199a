// A stage that carries a connection over SMC-R, with the peer's memory and messages at hand.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "handshake_fixture.h"
#include "relay/connection/smc_stage.h"
#include "wire/cdc.h"

namespace fairlead::relay {

class SmcStageTest : public HandshakeTest {
 protected:
  SmcStageTest() : HandshakeTest(smc::GroupRole::kClient) {
    rnic.device->able.remote_memory_addressable = true;
  }

  // A place in a group with the peer, whose memory can be written.
  UseSmc join() {
    open_both(Direction::kOutbound);
    Group& made = make_group();
    element = &grant_memory();
    confirm(made);
    other.membership.leave(network.now(), false);
    UseSmc from;
    const RingSizes sizes{devices.buffer_sizes(*rnic.device), std::nullopt};
    EXPECT_TRUE(from.membership.join(made, 0, sizes, false, host, network.now()));
    from.membership.set_named_link(0);
    EXPECT_TRUE(from.membership.set_peer(answer_of_peer(wire::ClcType::kAccept, false)));
    message.token = from.membership.relay().connection().local_token();
    session->report.carried(Transport::kSmcr);
    return from;
  }
  void start() { begin<SmcStage>(join()); }

  SmcRelay& relay() { return *host.stage.smc(); }
  // What the peer sends: bytes in our element, and then the message about them.
  void receive(const std::string& bytes) {
    std::memcpy(relay().buffers().local().data() + message.producer.offset, bytes.data(),
                bytes.size());
    message.producer.offset += static_cast<std::uint32_t>(bytes.size());
    receive_state();
  }
  void receive_state() {
    deliver_state();
    settle();
  }
  // The session's turn does not come.
  void deliver_state() {
    ++message.sequence;
    std::array<std::byte, wire::kCdcBytes> encoded_message;
    wire::encode(message, encoded_message);
    group().handle_message(0, encoded_message, network.now());
  }
  // The peer says that it has taken all, and closes.
  void receive_close() {
    message.consumer = sent().producer;
    message.state.done_writing = message.state.closed = true;
    receive_state();
  }
  // Our last message about the connection.
  wire::CdcMessage sent() {
    wire::CdcMessage last;
    for (const FakeQueuePair::Posted& posted : queue_pair().posted)
      if (wire::is_cdc(posted.message)) last = wire::decode_cdc(posted.message).value();
    return last;
  }
  std::string element_text(std::size_t count) const {
    return {reinterpret_cast<const char*>(element->data()), count};
  }
  // Both applications have ended, and the peer has not confirmed that.
  void end_both() {
    end_application();
    message.state.done_writing = true;
    receive_state();
    EXPECT_TRUE(app->shut_down);
    EXPECT_TRUE(stays());
  }
  void reset_application() {
    app->feed_reset();
    turn();
    app = net = nullptr;
  }
  // The link has been asked whether it lives, and answers.
  void answer_link_test() {
    const std::optional<wire::TestLink> request = sent_llc<wire::TestLink>();
    ASSERT_TRUE(request) << "the link was not tested";
    wire::TestLink answer = *request;
    answer.kind = wire::LlcKind::kResponse;
    send_llc(answer);
  }
  void expect_streams_reset() {
    expect_application_reset();
    EXPECT_EQ(session->net, nullptr);
  }
  // The CLC connection follows it with the peer's answer.
  void expect_application_reset() {
    EXPECT_EQ(session->app, nullptr);
    EXPECT_TRUE(app_reset);
    EXPECT_TRUE(net_reset);
    EXPECT_EQ(stats.connections_reset.get(), 1U);
  }
  TrafficStats& traffic() { return stats.traffic[Direction::kOutbound][Transport::kSmcr]; }

  std::vector<std::byte>* element = nullptr;  // of the peer
  wire::CdcMessage message;                   // of the peer, the last
};

}  // namespace fairlead::relay
