// The two layers of framing below the Node Resource Interface (docs/cni.md), without I/O. NRI's
// multiplexer carries two byte streams over one socket. ttrpc cuts each byte stream into requests
// and responses. All numbers are big endian.
//
//   multiplexer  u32 connection, u32 length; then `length` bytes of that connection's stream
//   ttrpc        u32 length, u32 stream, u8 type, u8 flags; then `length` bytes of protobuf
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace fairlead::cni::node::nri {

// Connections of the multiplexer.
inline constexpr std::uint32_t kPluginConnection = 1;   // the runtime calls the plugin
inline constexpr std::uint32_t kRuntimeConnection = 2;  // the plugin calls the runtime

inline constexpr std::size_t kMuxHeaderBytes = 8;
inline constexpr std::size_t kMessageHeaderBytes = 10;
// A runtime closes the connection on a longer frame.
inline constexpr std::size_t kFrameBytesMax = 4096;
// The limit that ttrpc has for the protobuf of a message.
inline constexpr std::size_t kMessageBytesMax = 4 << 20;
// Received frames may carry a whole message.
inline constexpr std::size_t kReceivedFrameBytesMax = kMessageHeaderBytes + kMessageBytesMax;

enum class MessageType : std::uint8_t { kRequest = 1, kResponse = 2, kData = 3 };

struct RpcMessage {
  std::uint32_t connection = 0;
  std::uint32_t stream = 0;
  MessageType type = MessageType::kRequest;
  std::string payload;  // protobuf
};

// Appends `message` to `out`, in frames of at most kFrameBytesMax.
void append_message(const RpcMessage& message, std::string& out);

// Assembles messages from the bytes of the socket, wherever they are split.
class MessageReader {
 public:
  // Consumes `bytes` and appends the messages that are complete with them. Errors: kMalformed for a
  // reserved connection or an unknown type, kExhausted for a length beyond its limit. Do not use
  // the reader after an error.
  Result<void> feed(std::span<const std::byte> bytes, std::vector<RpcMessage>& messages);

 private:
  Result<void> take_frame(std::uint32_t connection, std::string_view bytes,
                          std::vector<RpcMessage>& messages);

  std::string pending_;  // the frame that is not complete yet
  std::map<std::uint32_t, std::string>
      streams_;  // bytes of each connection that are no complete message yet
};

}  // namespace fairlead::cni::node::nri
