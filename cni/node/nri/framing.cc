#include "cni/node/nri/framing.h"

#include <algorithm>
#include <utility>

namespace fairlead::cni::node::nri {
namespace {

void append_u32(std::uint32_t value, std::string& out) {
  for (int shift = 24; shift >= 0; shift -= 8)
    out.push_back(static_cast<char>((value >> static_cast<unsigned>(shift)) & 0xff));
}

std::uint32_t read_u32(std::string_view bytes) {
  std::uint32_t value = 0;
  for (const char byte : bytes.substr(0, 4)) value = value << 8 | static_cast<std::uint8_t>(byte);
  return value;
}

}  // namespace

void append_message(const RpcMessage& message, std::string& out) {
  std::string bytes;
  bytes.reserve(kMessageHeaderBytes + message.payload.size());
  append_u32(static_cast<std::uint32_t>(message.payload.size()), bytes);
  append_u32(message.stream, bytes);
  bytes.push_back(static_cast<char>(message.type));
  bytes.push_back(0);
  bytes += message.payload;
  for (std::string_view rest = bytes; !rest.empty();) {
    const std::string_view part = rest.substr(0, kFrameBytesMax);
    append_u32(message.connection, out);
    append_u32(static_cast<std::uint32_t>(part.size()), out);
    out += part;
    rest.remove_prefix(part.size());
  }
}

Result<void> MessageReader::feed(std::span<const std::byte> bytes,
                                 std::vector<RpcMessage>& messages) {
  pending_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::string_view rest = pending_;
  while (rest.size() >= kMuxHeaderBytes) {
    const std::uint32_t connection = read_u32(rest);
    const std::size_t length = read_u32(rest.substr(4));
    if (length > kReceivedFrameBytesMax) return Error{Errc::kExhausted, "length of a frame"};
    if (connection != kPluginConnection && connection != kRuntimeConnection)
      return Error{Errc::kMalformed, "connection of a frame"};
    if (rest.size() < kMuxHeaderBytes + length) break;
    SMC_TRY(take_frame(connection, rest.substr(kMuxHeaderBytes, length), messages));
    rest.remove_prefix(kMuxHeaderBytes + length);
  }
  pending_.erase(0, pending_.size() - rest.size());
  return {};
}

Result<void> MessageReader::take_frame(std::uint32_t connection, std::string_view bytes,
                                       std::vector<RpcMessage>& messages) {
  std::string& stream = streams_[connection];
  stream += bytes;
  std::string_view rest = stream;
  while (rest.size() >= kMessageHeaderBytes) {
    const std::size_t length = read_u32(rest);
    if (length > kMessageBytesMax) return Error{Errc::kExhausted, "length of a ttrpc message"};
    const auto type = static_cast<MessageType>(rest[8]);
    if (type != MessageType::kRequest && type != MessageType::kResponse &&
        type != MessageType::kData)
      return Error{Errc::kMalformed, "type of a ttrpc message"};
    if (rest.size() < kMessageHeaderBytes + length) break;
    messages.push_back({connection, read_u32(rest.substr(4)), type,
                        std::string(rest.substr(kMessageHeaderBytes, length))});
    rest.remove_prefix(kMessageHeaderBytes + length);
  }
  stream.erase(0, stream.size() - rest.size());
  return {};
}

}  // namespace fairlead::cni::node::nri
