// CLC messages as the strings of a FakeStream.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <span>
#include <string>
#include <type_traits>

#include "fake_stream.h"
#include "wire/clc.h"

namespace fairlead::relay {

template <class Message>
std::string encoded(const Message& message) {
  constexpr std::size_t kBytes = std::is_same_v<Message, wire::Proposal>  ? wire::kProposalBytesMax
                                 : std::is_same_v<Message, wire::Decline> ? wire::kDeclineBytesMax
                                                                          : wire::kConfirmBytesMax;
  std::array<std::byte, kBytes> bytes;
  const std::size_t count = wire::encode(message, std::span(bytes));
  return {reinterpret_cast<const char*>(bytes.data()), count};
}

// Takes the first message out of what was written to the stream. A failure where it is another one.
template <class Message>
Message take_written(FakeStream& stream) {
  const auto bytes = std::as_bytes(std::span(stream.outgoing.data(), stream.outgoing.size()));
  const Result<wire::ClcHeader> header = wire::decode_clc_header(bytes);
  const bool whole = header && header->length_bytes <= bytes.size();
  EXPECT_TRUE(whole) << "no CLC message was written";
  if (!whole) return {};
  const auto message = bytes.first(header->length_bytes);
  const auto decoded = [&] {
    if constexpr (std::is_same_v<Message, wire::Proposal>)
      return wire::decode_proposal(message);
    else if constexpr (std::is_same_v<Message, wire::Decline>)
      return wire::decode_decline(message);
    else
      return wire::decode_accept_confirm(message);
  }();
  EXPECT_TRUE(decoded) << "another message was written";
  stream.outgoing.erase(0, header->length_bytes);
  return decoded ? *decoded : Message{};
}

}  // namespace fairlead::relay
