// The parts of a link group for tests of one flow: a link is active, and messages are decoded.
#pragma once

#include <gtest/gtest.h>

#include "smc/group/link_group_parts.h"
#include "wire/llc.h"

namespace fairlead::smc {

inline Terms terms_of(std::uint8_t version) {
  return {.version = version, .max_connections = 255, .max_links = 3};
}

inline LinkIdentity at_port(std::uint8_t port) {
  LinkIdentity identity;
  identity.gid.bytes[15] = port;
  identity.queue_pair = QpNumber{100U + port};
  return identity;
}

inline RmbKey rmb_key(std::uint32_t rkey) {
  return {RemoteKey{rkey}, RemoteAddress{rkey * 4096ULL}};
}

struct PartsForTest : LinkGroupParts {
  explicit PartsForTest(GroupRole group_role, std::uint8_t version = 2)
      : LinkGroupParts(group_role, terms_of(version), 3, TimePoint{}) {}

  LinkIndex add_link(std::uint8_t port) {
    const LinkIndex at = links.free_index().value();
    links[at].emplace(links.next_number(), at_port(port), TimePoint{});
    links[at]->set_peer(at_port(port));
    links[at]->set_state(LinkState::kActive);
    return at;
  }
  // The next message, which is a Body; on which link.
  template <class Body>
  Body sent(LinkIndex on) {
    const auto message = out.poll_llc();
    if (!message) {
      ADD_FAILURE() << "nothing was sent";
      return {};
    }
    EXPECT_EQ(message->link, on);
    const auto decoded = wire::decode_llc(message->bytes);
    const Body* body = decoded ? std::get_if<Body>(&decoded->body) : nullptr;
    if (body == nullptr) {
      ADD_FAILURE() << "another message was sent";
      return {};
    }
    return *body;
  }
  bool silent() { return !out.poll_llc(); }
};

}  // namespace fairlead::smc
