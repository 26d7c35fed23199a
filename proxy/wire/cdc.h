// CDC: the control message of one connection, an RC SEND of 44 bytes.
// Read first: docs/wire.md, section CDC; RFC 7609 appendix A.4.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/ids.h"
#include "base/result.h"
#include "wire/reader.h"
#include "wire/writer.h"

namespace fairlead::wire {

inline constexpr std::size_t kCdcBytes = 44;
inline constexpr std::size_t kCdcBytesMin = 26;  // what a receiver must accept
inline constexpr std::byte kCdcType{0xfe};

// A place in a ring: how often it wrapped, and the offset in bytes. The offset is not checked here,
// because only the connection knows the size of the element.
struct CdcCursor {
  std::uint16_t wrap = 0;
  std::uint32_t offset = 0;
  friend constexpr bool operator==(const CdcCursor&, const CdcCursor&) = default;
};

struct ProducerFlags {
  bool write_blocked = false;              // 0x80
  bool urgent_pending = false;             // 0x40
  bool urgent_present = false;             // 0x20
  bool consumer_update_requested = false;  // 0x10
  bool failover_validation = false;        // 0x08

  static constexpr ProducerFlags from_byte(unsigned byte) {
    return {(byte & 0x80U) != 0, (byte & 0x40U) != 0, (byte & 0x20U) != 0, (byte & 0x10U) != 0,
            (byte & 0x08U) != 0};
  }
  constexpr std::uint8_t to_byte() const {
    return static_cast<std::uint8_t>((write_blocked ? 0x80U : 0U) | (urgent_pending ? 0x40U : 0U) |
                                     (urgent_present ? 0x20U : 0U) |
                                     (consumer_update_requested ? 0x10U : 0U) |
                                     (failover_validation ? 0x08U : 0U));
  }
  friend constexpr bool operator==(const ProducerFlags&, const ProducerFlags&) = default;
};

// Sticky: once set, set in all later messages of the connection.
struct ConnectionStateFlags {
  bool done_writing = false;  // 0x80
  bool closed = false;        // 0x40
  bool aborted = false;       // 0x20

  static constexpr ConnectionStateFlags from_byte(unsigned byte) {
    return {(byte & 0x80U) != 0, (byte & 0x40U) != 0, (byte & 0x20U) != 0};
  }
  constexpr std::uint8_t to_byte() const {
    return static_cast<std::uint8_t>((done_writing ? 0x80U : 0U) | (closed ? 0x40U : 0U) |
                                     (aborted ? 0x20U : 0U));
  }
  friend constexpr bool operator==(const ConnectionStateFlags&,
                                   const ConnectionStateFlags&) = default;
};

//  off size
//    0    1  0xfe
//    1    1  44
//    2    2  sequence
//    4    4  token
//   10    2  producer wrap
//   12    4  producer offset
//   18    2  consumer wrap
//   20    4  consumer offset
//   24    1  producer flags
//   25    1  connection state flags
// The rest is reserved. RFC 7609 A.4.
struct CdcMessage {
  std::uint16_t sequence = 0;  // from 1, wraps at 65536
  AlertToken token;            // the receiver's
  CdcCursor producer;          // sender's write position in the receiver's element
  CdcCursor consumer;          // sender's read position in its own element
  ProducerFlags producer_flags;
  ConnectionStateFlags state;
  friend constexpr bool operator==(const CdcMessage&, const CdcMessage&) = default;
};

// True when the first byte says CDC (else it is LLC).
constexpr bool is_cdc(std::span<const std::byte> message) {
  return !message.empty() && message[0] == kCdcType;
}

// kTruncated below kCdcBytesMin, kMalformed when type or length byte are wrong. Any cursor may come
// out; see CdcCursor.
//
// Inline, because this is the one codec of the data path.
constexpr Result<CdcMessage> decode_cdc(std::span<const std::byte> message) {
  if (message.size() < kCdcBytesMin) return Error{Errc::kTruncated, "CDC message"};
  const std::span<const std::byte, kCdcBytesMin> in = message.first<kCdcBytesMin>();
  if (in[0] != kCdcType) return Error{Errc::kMalformed, "CDC type"};
  if (in[1] != std::byte{kCdcBytes}) return Error{Errc::kMalformed, "CDC length"};
  CdcMessage out;
  out.sequence = load_be16(in.subspan<2, 2>());
  out.token = AlertToken(load_be32(in.subspan<4, 4>()));
  out.producer = {load_be16(in.subspan<10, 2>()), load_be32(in.subspan<12, 4>())};
  out.consumer = {load_be16(in.subspan<18, 2>()), load_be32(in.subspan<20, 4>())};
  out.producer_flags = ProducerFlags::from_byte(load_u8(in.subspan<24, 1>()));
  out.state = ConnectionStateFlags::from_byte(load_u8(in.subspan<25, 1>()));
  return out;
}

constexpr void encode(const CdcMessage& message, std::span<std::byte, kCdcBytes> out) {
  for (std::byte& byte : out) byte = std::byte{0};
  out[0] = kCdcType;
  out[1] = std::byte{kCdcBytes};
  store_be16(out.subspan<2, 2>(), message.sequence);
  store_be32(out.subspan<4, 4>(), message.token.value);
  store_be16(out.subspan<10, 2>(), message.producer.wrap);
  store_be32(out.subspan<12, 4>(), message.producer.offset);
  store_be16(out.subspan<18, 2>(), message.consumer.wrap);
  store_be32(out.subspan<20, 4>(), message.consumer.offset);
  out[24] = std::byte{message.producer_flags.to_byte()};
  out[25] = std::byte{message.state.to_byte()};
}

}  // namespace fairlead::wire
