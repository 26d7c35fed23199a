#include "unit/wire/pcap_reader.h"

#include <fstream>
#include <iterator>

#include "wire/reader.h"

namespace fairlead::wire::test {
namespace {

constexpr std::size_t kFileHeaderBytes = 24;
constexpr std::size_t kRecordHeaderBytes = 16;
constexpr std::uint32_t kMagicMicroseconds = 0xa1b2c3d4;
constexpr std::uint32_t kLinkTypeCookedV2 = 276;
constexpr std::size_t kCookedV2Bytes = 20;
constexpr std::uint16_t kEtherTypeIpv4 = 0x0800;
constexpr std::uint8_t kProtocolTcp = 6;
constexpr std::uint8_t kProtocolUdp = 17;
constexpr std::uint8_t kTcpSyn = 0x02;
constexpr std::uint16_t kRoceV2Port = 4791;
constexpr std::size_t kUdpHeaderBytes = 8;
constexpr std::size_t kBthBytes = 12;
constexpr std::size_t kIcrcBytes = 4;
constexpr std::uint8_t kRcSendFirst = 0x00;
constexpr std::uint8_t kRcSendLastWithImmediate = 0x03;
constexpr std::uint8_t kRcSendOnly = 0x04;
constexpr std::uint8_t kRcSendOnlyWithImmediate = 0x05;
constexpr std::uint8_t kRcWriteFirst = 0x06;
constexpr std::uint8_t kRcWriteOnly = 0x0a;
constexpr std::uint8_t kRcAcknowledge = 0x11;
constexpr std::size_t kClcHeadBytes = 8;

std::uint32_t little32(std::span<const std::byte> bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i)
    value |= std::to_integer<std::uint32_t>(bytes[at + i]) << (8 * i);
  return value;
}

}  // namespace

void PcapReader::fail(const char* what) {
  if (capture_.error.empty())
    capture_.error = std::string(what) + " in frame " + std::to_string(capture_.frames);
}

Capture PcapReader::read() {
  if (file_.size() < kFileHeaderBytes || little32(file_, 0) != kMagicMicroseconds ||
      little32(file_, 20) != kLinkTypeCookedV2) {
    fail("not a pcap file with Linux cooked v2 headers");
    return capture_;
  }
  std::span<const std::byte> rest = file_.subspan(kFileHeaderBytes);
  while (!rest.empty() && capture_.error.empty()) {
    ++capture_.frames;
    if (rest.size() < kRecordHeaderBytes) {
      fail("record header cut short");
      break;
    }
    const std::size_t captured = little32(rest, 8);
    if (captured != little32(rest, 12) || captured > rest.size() - kRecordHeaderBytes) {
      fail("packet cut short");
      break;
    }
    read_frame(rest.subspan(kRecordHeaderBytes, captured));
    rest = rest.subspan(kRecordHeaderBytes + captured);
  }
  for (const auto& [key, stream] : streams_)
    if (!stream.pending.empty()) fail("CLC message cut short");
  return std::move(capture_);
}

void PcapReader::read_frame(std::span<const std::byte> frame) {
  Reader cooked(frame);
  const bool ipv4 = cooked.u16() == kEtherTypeIpv4;
  cooked.skip(kCookedV2Bytes - 2);
  if (!cooked.ok() || !ipv4) return;
  const std::span<const std::byte> packet = frame.subspan(kCookedV2Bytes);
  Reader in(packet);
  const std::size_t header_bytes = (in.u8() & 0x0fU) * std::size_t{4};
  in.skip(1);
  const std::size_t total_bytes = in.u16();
  in.skip(5);
  const std::uint8_t protocol = in.u8();
  in.skip(2);
  Ip ip;
  ip.from = in.u32();
  ip.to = in.u32();
  if (!in.ok() || total_bytes > packet.size() || header_bytes > total_bytes)
    return fail("malformed IPv4 header");
  ip.payload = packet.subspan(header_bytes, total_bytes - header_bytes);
  if (protocol == kProtocolTcp) read_tcp(ip);
  if (protocol == kProtocolUdp) read_udp(ip);
}

void PcapReader::read_tcp(const Ip& ip) {
  Reader in(ip.payload);
  const std::uint32_t ports = in.u32();
  std::uint32_t sequence = in.u32();
  in.skip(4);
  const std::size_t header_bytes = (in.u8() >> 4U) * std::size_t{4};
  const std::uint8_t flags = in.u8();
  if (!in.ok() || header_bytes > ip.payload.size()) return fail("malformed TCP header");
  std::span<const std::byte> data = ip.payload.subspan(header_bytes);
  Stream& stream = streams_[{std::uint64_t{ip.from} << 32 | ip.to, ports}];
  if ((flags & kTcpSyn) != 0) {
    stream.synchronised = true;
    stream.next_sequence = ++sequence;
  }
  if (data.empty()) return;
  if (!stream.synchronised) return fail("TCP data without a SYN");
  const std::uint32_t already_seen = stream.next_sequence - sequence;
  if (already_seen > data.size()) return fail("TCP data missing");
  data = data.subspan(already_seen);
  stream.next_sequence += static_cast<std::uint32_t>(data.size());
  stream.pending.insert(stream.pending.end(), data.begin(), data.end());
  take_clc(stream, ip);
}

void PcapReader::take_clc(Stream& stream, const Ip& ip) {
  while (stream.pending.size() >= kClcHeadBytes) {
    const std::size_t length = std::to_integer<std::size_t>(stream.pending[5]) << 8 |
                               std::to_integer<std::size_t>(stream.pending[6]);
    if (length < kClcHeadBytes) return fail("CLC length");
    if (stream.pending.size() < length) return;
    const auto end = stream.pending.begin() + static_cast<std::ptrdiff_t>(length);
    capture_.messages.push_back({capture_.frames, Channel::kTcp, ip.from, ip.to,
                                 std::vector<std::byte>(stream.pending.begin(), end)});
    stream.pending.erase(stream.pending.begin(), end);
  }
}

void PcapReader::read_udp(const Ip& ip) {
  Reader in(ip.payload);
  in.skip(2);
  const bool roce = in.u16() == kRoceV2Port;
  in.skip(kUdpHeaderBytes - 4);
  const std::uint8_t opcode = in.u8();
  const std::size_t pad_bytes = (in.u8() >> 4U) & 0x03U;
  if (!in.ok() || !roce) return;
  const std::size_t around_bytes = kUdpHeaderBytes + kBthBytes + kIcrcBytes + pad_bytes;
  if (ip.payload.size() < around_bytes) return fail("malformed RoCE packet");
  if (opcode == kRcSendOnly) {
    const auto message =
        ip.payload.subspan(kUdpHeaderBytes + kBthBytes, ip.payload.size() - around_bytes);
    capture_.messages.push_back({capture_.frames, Channel::kRoce, ip.from, ip.to,
                                 std::vector<std::byte>(message.begin(), message.end())});
  } else if (opcode >= kRcWriteFirst && opcode <= kRcWriteOnly) {
    ++capture_.roce_writes;
  } else if (opcode == kRcAcknowledge) {
    ++capture_.roce_acknowledgements;
  } else if (opcode <= kRcSendLastWithImmediate || opcode == kRcSendOnlyWithImmediate) {
    static_assert(kRcSendFirst == 0);
    fail("SEND of several packets or with immediate data");
  } else {
    fail("unknown RoCE opcode");
  }
}

Origin origin_of(const CapturedMessage& message) {
  const auto host = static_cast<std::uint8_t>(message.from & 0xffU);
  return host == kClientHost || host == kClientSecond ? Origin::kClient : Origin::kServer;
}

Capture read_capture(const std::string& name) {
  std::ifstream file(std::string(FAIRLEAD_SOURCE_DIR) + "/tests/captures/" + name,
                     std::ios::binary);
  Capture missing;
  missing.error = "cannot open " + name;
  if (!file) return missing;
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return PcapReader(std::as_bytes(std::span(text))).read();
}

}  // namespace fairlead::wire::test
