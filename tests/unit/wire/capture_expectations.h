// What the captures in tests/captures hold, as values: one Expected a message, in the order of the
// packets. The numbers were read off the packets by hand and, for CLC and CDC, with another
// dissector; nothing here was printed by the codec under test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "wire/cdc.h"
#include "wire/clc.h"
#include "wire/llc.h"

namespace fairlead::wire::test {

enum class Origin : std::uint8_t { kClient, kServer };

using Message = std::variant<Proposal, AcceptConfirm, Decline, LlcMessage, CdcMessage>;

struct Expected {
  std::size_t frame = 0;
  Origin from = Origin::kClient;
  Message message;
};

// The two hosts, each with two RNICs.
inline constexpr std::uint8_t kClientHost = 2, kClientSecond = 12;
inline constexpr std::uint8_t kServerHost = 1, kServerSecond = 11;

// ::ffff:10.9.0.`host`
Gid gid_of(std::uint8_t host);
// 52:54:00:00:RR:HH, RR the RNIC, HH the host
Mac mac_of(std::uint8_t host);
// The RMB that both connections of a side use, one after the other, with its keys on links 1 and 2.
inline constexpr RemoteAddress kServerRmb{0xff11a1ffc4700000};
inline constexpr RemoteAddress kClientRmb{0xff4843cc08980000};
inline constexpr RemoteKey kServerRkey{0x35c}, kServerRkey2{0x3b3};
inline constexpr RemoteKey kClientRkey{0x39a}, kClientRkey2{0x3cb};

Eid lab_eid();

// The Proposal is the same in all captures.
Expected proposal(std::size_t frame);
// Accept and Confirm of a reused link group differ in the alert token alone.
Expected accept_reuse(std::size_t frame, std::uint32_t token);
Expected confirm_reuse(std::size_t frame, std::uint32_t token);
// The four messages of a CONFIRM_RKEY exchange: server's request and answer, client's likewise.
Expected server_rkey(std::size_t frame, LlcKind kind);
Expected client_rkey(std::size_t frame, LlcKind kind);
Expected delete_rkey(std::size_t frame, Origin from, RemoteKey rkey);
// Linux answers with the count, but without the keys.
Expected rkey_deleted(std::size_t frame, Origin from);
Expected llc(std::size_t frame, Origin from, LlcBody body);
Expected cdc(std::size_t frame, Origin from, CdcMessage message);

// Every message of the capture decodes to the expected value, comes from the expected host in the
// expected frame, and is encoded to the bytes that Linux sent. Nothing is missing, nothing is left.
void expect_messages(const std::string& name, const std::vector<Expected>& expected);

}  // namespace fairlead::wire::test
