// Goal: after a handshake that loses a segment, both sides still know the same. Method: the peer is
// this test, at the other end of a TUN device in a separate network namespace. It sends a SYN by
// hand, stays silent, and reads the kernel's retransmission. That takes the kernel's first timeout,
// 1 s.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <string_view>
#include <thread>
#include <vector>

#include "base/address.h"
#include "base/linux/handle.h"
#include "bpf/option_program.h"
#include "bpf/tcp_option.h"

namespace fairlead::bpf {
namespace {

constexpr std::uint16_t kPort = 4540;
constexpr std::uint32_t kOurAddress = 0x0a090001;   // 10.9.0.1, the kernel's
constexpr std::uint32_t kPeerAddress = 0x0a090002;  // 10.9.0.2, the test's
constexpr int kSegmentTimeoutMs = 120'000;

using Packet = std::vector<std::uint8_t>;

std::uint16_t checksum(std::uint32_t sum, std::span<const std::uint8_t> bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i) sum += bytes[i] * (i % 2 == 0 ? 256U : 1U);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return htons(static_cast<std::uint16_t>(~sum));
}

// A SYN with the option from the peer to kPort.
Packet hand_made_syn() {
  const std::array<std::uint8_t, 8> options = {0xfe, 6, 0xe2, 0xd4, 0xc3, 0xd9, 1, 1};
  iphdr ip{};
  ip.version = 4;
  ip.ihl = 5;
  ip.ttl = 64;
  ip.protocol = IPPROTO_TCP;
  ip.tot_len = htons(sizeof(iphdr) + sizeof(tcphdr) + options.size());
  ip.saddr = htonl(kPeerAddress);
  ip.daddr = htonl(kOurAddress);
  tcphdr tcp{};
  tcp.source = htons(40000);
  tcp.dest = htons(kPort);
  tcp.seq = htonl(7609);
  tcp.doff = 7;
  tcp.syn = 1;
  tcp.window = htons(65535);
  Packet packet(sizeof ip + sizeof tcp + options.size());
  std::span<std::uint8_t> bytes(packet);
  std::memcpy(bytes.data() + sizeof ip + sizeof tcp, options.data(), options.size());
  std::memcpy(bytes.data() + sizeof ip, &tcp, sizeof tcp);
  std::uint32_t pseudo = (kPeerAddress >> 16) + (kPeerAddress & 0xffff) + (kOurAddress >> 16) +
                         (kOurAddress & 0xffff) + IPPROTO_TCP +
                         static_cast<std::uint32_t>(sizeof tcp + options.size());
  tcp.check = checksum(pseudo, bytes.subspan(sizeof ip));
  std::memcpy(bytes.data() + sizeof ip, &tcp, sizeof tcp);
  std::memcpy(bytes.data(), &ip, sizeof ip);
  ip.check = checksum(0, bytes.first(sizeof ip));
  std::memcpy(bytes.data(), &ip, sizeof ip);
  return packet;
}

bool is_tcp_with(const Packet& packet, std::uint8_t flags) {
  return packet.size() >= 40 && packet[0] == 0x45 && packet[9] == IPPROTO_TCP &&
         (packet[33] & 0x3f) == flags;
}

constexpr std::uint8_t kSyn = 0x02, kSynAck = 0x12;

// The next IPv4 TCP segment with exactly these flags that the kernel sends to the peer.
Packet next_segment(int tun, std::uint8_t flags) {
  for (;;) {
    pollfd waiting{tun, POLLIN, 0};
    if (poll(&waiting, 1, kSegmentTimeoutMs) != 1) return {};
    Packet packet(2048);
    ssize_t size = read(tun, packet.data(), packet.size());
    if (size <= 0) return {};
    packet.resize(static_cast<std::size_t>(size));
    if (is_tcp_with(packet, flags)) return packet;
  }
}

bool holds_option(const Packet& packet) {
  std::string_view bytes(reinterpret_cast<const char*>(packet.data()), packet.size());
  return bytes.find(std::string_view("\xfe\x06\xe2\xd4\xc3\xd9", 6)) != std::string_view::npos;
}

// The device, up, with kOurAddress/24; empty if that is not possible here.
FileDescriptor open_tun() {
  FileDescriptor tun(open("/dev/net/tun", O_RDWR | O_CLOEXEC));
  FileDescriptor control(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::strcpy(request.ifr_name, "peer");
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  if (!tun || ioctl(tun.get(), TUNSETIFF, &request) != 0) return {};
  for (auto [call, address] :
       {std::pair(SIOCSIFADDR, kOurAddress), std::pair(SIOCSIFNETMASK, 0xffffff00U)}) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_addr.s_addr = htonl(address);
    std::memcpy(&request.ifr_addr, &in, sizeof in);
    if (ioctl(control.get(), static_cast<unsigned long>(call), &request) != 0) return {};
  }
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  if (ioctl(control.get(), SIOCSIFFLAGS, &request) != 0) return {};
  return tun;
}

// Gives the body a program and a TUN device, or skips the test with the reason.
void with_peer(const std::function<void(const OptionProgram&, int tun)>& body) {
  auto program = OptionProgram::attach();
  if (!program) GTEST_SKIP() << to_string(program.error()) << "; " << refusal();
  std::thread([&] {
    if (unshare(CLONE_NEWNET) != 0) GTEST_SKIP() << "network namespaces: " << strerror(errno);
    FileDescriptor tun = open_tun();
    if (!tun) GTEST_SKIP() << "TUN device: " << strerror(errno);
    body(*program, tun.get());
  }).join();
}

TEST(OptionRetransmission, SynCarriesTheOptionAgain) {
  with_peer([](const OptionProgram& program, int tun) {
    FileDescriptor client(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    ASSERT_TRUE(program.request(client.get()));
    in_addr peer{htonl(kPeerAddress)};
    SocketAddress target(peer, kPort);
    ASSERT_EQ(connect(client.get(), target.data(), target.size()), -1);
    ASSERT_EQ(errno, EINPROGRESS);
    for (int sent = 0; sent < 2; ++sent) {
      Packet syn = next_segment(tun, kSyn);
      ASSERT_FALSE(syn.empty());
      EXPECT_TRUE(holds_option(syn)) << sent;
    }
  });
}

void expect_syn_acks(const OptionProgram& program, int tun, bool request) {
  FileDescriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  SocketAddress any = SocketAddress().with_port(kPort);
  ASSERT_EQ(bind(listener.get(), any.data(), any.size()), 0);
  ASSERT_TRUE(save_syn(listener.get()));
  if (request) {
    ASSERT_TRUE(program.request(listener.get()));
  }
  ASSERT_EQ(listen(listener.get(), 4), 0);
  Packet syn = hand_made_syn();
  ASSERT_EQ(write(tun, syn.data(), syn.size()), static_cast<ssize_t>(syn.size()));
  for (int sent = 0; sent < 2; ++sent) {
    Packet syn_ack = next_segment(tun, kSynAck);
    ASSERT_FALSE(syn_ack.empty());
    EXPECT_EQ(holds_option(syn_ack), request) << sent;
  }
}

TEST(OptionRetransmission, SynAckCarriesTheOptionAgain) {
  with_peer([](const OptionProgram& program, int tun) { expect_syn_acks(program, tun, true); });
}

TEST(OptionRetransmission, PlainListenerNeverAnswersTheOption) {
  with_peer([](const OptionProgram& program, int tun) { expect_syn_acks(program, tun, false); });
}

}  // namespace
}  // namespace fairlead::bpf
