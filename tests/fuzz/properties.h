// Properties that must hold for every input of a decoder, hostile or not. Shared by the fuzz
// targets and the unit test that truncates and mutates valid messages.
//
// Each function decodes `message`. If it is refused, the error names a field. If it is accepted,
// the value can be encoded, and the encoded message decodes to an equal value. Otherwise the
// process aborts. Returns true if the message was accepted.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string>

#include "base/assert.h"
#include "fuzz/reached.h"
#include "wire/cdc.h"
#include "wire/clc.h"
#include "wire/frame.h"
#include "wire/llc.h"

namespace fairlead::wire::fuzz {

using Input = std::span<const std::byte>;

inline bool refused(const Error& error) {
  SMC_ASSERT(error.what[0] != '\0');
  SMC_ASSERT(error.code == Errc::kTruncated || error.code == Errc::kMalformed ||
                 error.code == Errc::kUnsupported,
             error.code);
  fairlead::fuzz::reached(std::string("refused: ") + error.what);
  return false;
}

inline bool accepted(const char* what, unsigned number) {
  fairlead::fuzz::reached("accepted: " + std::string(what) + ' ' + std::to_string(number));
  return true;
}

inline bool check_frame(Input message) {
  if (message.size() < kFrameHeaderBytes) return false;
  const auto bytes = message.first<kFrameHeaderBytes>();
  const Result<FrameHeader> header = decode_frame_header(bytes);
  if (!header) return refused(header.error());
  SMC_ASSERT(header->body_bytes <= kFrameBytesMax, header->body_bytes);
  const auto again = encode_frame_header(*header);
  SMC_ASSERT(std::equal(bytes.begin(), bytes.end(), again.begin()));
  return accepted("type", static_cast<unsigned>(header->type));
}

inline bool check_clc_header(Input message) {
  const Result<ClcHeader> header = decode_clc_header(message);
  if (!header) return refused(header.error());
  SMC_ASSERT(may_be_clc(message.first<4>()));
  SMC_ASSERT(header->length_bytes >= kClcHeaderBytes + 4, header->length_bytes);
  SMC_ASSERT(header->length_bytes <= kClcBytesMax, header->length_bytes);
  SMC_ASSERT(header->version == 1 || header->version == 2, header->version);
  const Result<ClcHeader> alone = decode_clc_header(message.first<kClcHeaderBytes>());
  SMC_ASSERT(alone.has_value() && *alone == *header);
  return accepted("type", static_cast<unsigned>(header->type));
}

// The message has its own length again, and means the same.
template <std::size_t kBytesMax, class Value, class Decode>
void check_round_trip(Input message, const Value& value, Decode decode) {
  std::array<std::byte, kBytesMax> bytes{};
  const std::size_t length = encode(value, bytes);
  SMC_ASSERT(length == message.size(), length, message.size());
  const Result<Value> again = decode(Input(bytes).first(length));
  SMC_ASSERT(again.has_value() && *again == value);
}

// The header of an accepted message must agree with the decoder.
inline void check_framing(Input message, ClcType type) {
  const Result<ClcHeader> header = decode_clc_header(message);
  SMC_ASSERT(header.has_value());
  SMC_ASSERT(header->length_bytes == message.size(), header->length_bytes, message.size());
  SMC_ASSERT(header->type == type, header->type);
}

inline bool check_proposal(Input message) {
  const Result<Proposal> decoded = decode_proposal(message);
  if (!decoded) return refused(decoded.error());
  check_framing(message, ClcType::kProposal);
  std::array<std::byte, kProposalBytesMax> bytes{};
  const std::size_t length = encode(*decoded, bytes);
  const Result<Proposal> again = decode_proposal(Input(bytes).first(length));
  SMC_ASSERT(again.has_value());
  SMC_ASSERT(*again == without_smcd(*decoded));
  SMC_ASSERT(decoded->had_smcd || *again == *decoded);
  return accepted("SMC-D", decoded->had_smcd ? 1 : 0);
}

inline bool check_accept_confirm(Input message) {
  const Result<AcceptConfirm> decoded = decode_accept_confirm(message);
  if (!decoded) return refused(decoded.error());
  check_framing(message, decoded->type);
  check_round_trip<kConfirmBytesMax>(message, *decoded, decode_accept_confirm);
  return accepted("type", static_cast<unsigned>(decoded->type));
}

inline bool check_decline(Input message) {
  const Result<Decline> decoded = decode_decline(message);
  if (!decoded) return refused(decoded.error());
  check_framing(message, ClcType::kDecline);
  check_round_trip<kDeclineBytesMax>(message, *decoded, decode_decline);
  return accepted("message", 1);
}

inline bool check_llc(Input message) {
  const Result<LlcMessage> decoded = decode_llc(message);
  if (!decoded) return refused(decoded.error());
  std::array<std::byte, kLlcBytesMax> bytes{};
  const std::size_t length = encode(*decoded, bytes);
  SMC_ASSERT(length >= kLlcBytes && length <= message.size(), length, message.size());
  const Result<LlcMessage> again = decode_llc(Input(bytes).first(length));
  SMC_ASSERT(again.has_value() && *again == *decoded);
  return accepted("kind", static_cast<unsigned>(message[0]));
}

inline bool check_cdc(Input message) {
  const Result<CdcMessage> decoded = decode_cdc(message);
  if (!decoded) return refused(decoded.error());
  SMC_ASSERT(is_cdc(message));
  std::array<std::byte, kCdcBytes> bytes{};
  encode(*decoded, bytes);
  const Result<CdcMessage> again = decode_cdc(bytes);
  SMC_ASSERT(again.has_value() && *again == *decoded);
  return accepted("message", 1);
}

}  // namespace fairlead::wire::fuzz
