// Takes the SMC-R messages out of a packet capture: CLC from the TCP streams, LLC and CDC from the
// SENDs of RoCEv2. Knows exactly what the files in tests/captures need: pcap in microseconds,
// little endian, Linux cooked v2, IPv4 without fragments, messages that fit into one RoCE packet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace fairlead::wire::test {

enum class Channel : std::uint8_t { kTcp, kRoce };

// The two hosts, each with two RNICs: the last byte of their addresses.
inline constexpr std::uint8_t kClientHost = 2, kClientSecond = 12;
inline constexpr std::uint8_t kServerHost = 1, kServerSecond = 11;

enum class Origin : std::uint8_t { kClient, kServer };

struct CapturedMessage {
  // Of the packet that completes the message, from 1, as tcpdump counts.
  std::size_t frame = 0;
  Channel channel = Channel::kTcp;
  std::uint32_t from = 0;  // IPv4 address
  std::uint32_t to = 0;
  std::vector<std::byte> bytes;
};

struct Capture {
  std::string error;  // empty when the whole file was understood
  std::size_t frames = 0;
  std::size_t roce_writes = 0;  // packets of RDMA WRITEs
  std::size_t roce_acknowledgements = 0;
  std::vector<CapturedMessage> messages;
};

class PcapReader {
 public:
  explicit PcapReader(std::span<const std::byte> file) : file_(file) {}
  Capture read();

 private:
  struct Stream {
    bool synchronised = false;
    std::uint32_t next_sequence = 0;
    std::vector<std::byte> pending;
  };
  struct Ip {
    std::uint32_t from = 0;
    std::uint32_t to = 0;
    std::span<const std::byte> payload;
  };

  void read_frame(std::span<const std::byte> frame);
  void read_tcp(const Ip& ip);
  void read_udp(const Ip& ip);
  void take_clc(Stream& stream, const Ip& ip);
  void fail(const char* what);

  std::span<const std::byte> file_;
  Capture capture_;
  std::map<std::pair<std::uint64_t, std::uint32_t>, Stream> streams_;  // by addresses, by ports
};

Origin origin_of(const CapturedMessage& message);

// Reads tests/captures/<name>.
Capture read_capture(const std::string& name);

}  // namespace fairlead::wire::test
