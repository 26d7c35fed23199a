// Two connections without a device: the test decides when messages are delivered. Bytes really move
// through rings, so a wrong window shows as wrong data.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "smc/connection/connection.h"

namespace fairlead::smc {

struct Endpoint {
  Endpoint(std::uint32_t token, std::uint32_t rmb_bytes, std::uint32_t send_ring_bytes)
      : connection(AlertToken{token}, rmb_bytes), rmb(rmb_bytes), staging(send_ring_bytes) {}

  Connection connection;
  std::vector<char> rmb;
  std::vector<char> staging;
  std::deque<wire::CdcMessage> on_the_way;                          // towards the other side
  std::deque<std::pair<std::uint64_t, std::uint64_t>> completions;  // sequence, written_until
  struct Write {
    std::uint32_t remote_offset;
    std::vector<char> bytes;
  };
  std::deque<std::vector<Write>> writes;  // that go before each message
};

inline wire::CdcMessage next_message(const Endpoint& to, std::uint16_t sequence) {
  return {.sequence = sequence, .token = to.connection.local_token()};
}

class ConnectionPair {
 public:
  explicit ConnectionPair(std::uint32_t a_rmb = 16384, std::uint32_t b_rmb = 16384,
                          std::uint32_t staging = 0)
      : a(0x101, a_rmb, staging), b(0x202, b_rmb, staging) {
    a.connection.set_peer(AlertToken{0x202}, {RemoteKey{1}, RemoteAddress{0}, b_rmb}, staging);
    b.connection.set_peer(AlertToken{0x101}, {RemoteKey{2}, RemoteAddress{0}, a_rmb}, staging);
  }

  Endpoint a, b;
  TimePoint now{std::chrono::hours(1)};

  // The application writes; returns the number of accepted bytes.
  std::size_t write(Endpoint& from, const std::string& bytes) {
    const RingWindow window = from.connection.tx_window();
    const auto n = std::min<std::size_t>(bytes.size(), window.bytes());
    std::vector<char>& ring = from.staging.empty() ? other(from).rmb : from.staging;
    put(ring, window, bytes.substr(0, n));
    from.connection.produced(static_cast<std::uint32_t>(n));
    return n;
  }

  // The application writes one byte of urgent data; false without room.
  bool write_urgent(Endpoint& from, char byte) {
    const RingWindow window = from.connection.tx_window();
    if (window.bytes() == 0) return false;
    put(from.staging.empty() ? other(from).rmb : from.staging, window, std::string(1, byte));
    from.connection.produced(1, Connection::Data::kLastUrgent);
    return true;
  }

  // The application reads all there is, up to an urgent byte.
  std::string read(Endpoint& to) {
    const RingWindow window = to.connection.rx().window();
    std::string bytes(to.rmb.data() + window.first.offset, window.first.length);
    bytes.append(to.rmb.data() + window.second.offset, window.second.length);
    to.connection.consumed(static_cast<std::uint32_t>(bytes.size()), now);
    return bytes;
  }

  // What is due next, which nobody receives.
  static Transmit next_transmit(Endpoint& from) {
    const std::optional<Transmit> transmit = from.connection.poll_transmit();
    EXPECT_TRUE(transmit);
    return transmit.value_or(Transmit{});
  }

  // Sends everything that is due and receives nothing.
  unsigned transmit(Endpoint& from) {
    unsigned count = 0;
    while (auto transmit = from.connection.poll_transmit()) {
      std::vector<Endpoint::Write>& writes = from.writes.emplace_back();
      for (unsigned i = 0; i < transmit->write_count; ++i) {
        const SendRingWrite& write = transmit->writes[i];
        const char* begin = from.staging.data() + write.ring_offset;
        writes.push_back({write.remote_offset, {begin, begin + write.length}});
      }
      from.on_the_way.push_back(transmit->cdc);
      from.completions.emplace_back(transmit->sequence, transmit->written_until);
      ++count;
    }
    return count;
  }

  // The next message arrives.
  Result<void> deliver(Endpoint& from) {
    const wire::CdcMessage message = from.on_the_way.front();
    from.on_the_way.pop_front();
    for (const Endpoint::Write& write : from.writes.front())
      std::memcpy(other(from).rmb.data() + write.remote_offset, write.bytes.data(),
                  write.bytes.size());
    from.writes.pop_front();
    const auto [sequence, written_until] = from.completions.front();
    from.completions.pop_front();
    if (!message.producer_flags.failover_validation)
      from.connection.handle_transmit_done(sequence, written_until);
    return other(from).connection.handle_cdc(message, now);
  }

  // The link fails. Messages in transit are lost, except the first `from_a` and `from_b`, which
  // arrive without a completion at the sender. Both continue over another link.
  void switch_link(std::size_t from_a = 0, std::size_t from_b = 0) {
    for (Endpoint* from : {&a, &b}) {
      const std::size_t arriving = from == &a ? from_a : from_b;
      for (std::size_t i = 0; i < arriving && !from->on_the_way.empty(); ++i) {
        from->completions.front() = {0, 0};
        EXPECT_TRUE(deliver(*from));
      }
      from->on_the_way.clear();
      from->completions.clear();
      from->writes.clear();
    }
    for (Endpoint* end : {&a, &b}) {
      RmbElement element = end->connection.tx().element();
      element.rkey.value += 100;
      end->connection.handle_link_switched(element);
    }
  }

  // Runs until neither side has anything to send.
  void settle() {
    while (transmit(a) + transmit(b) != 0 || !a.on_the_way.empty() || !b.on_the_way.empty()) {
      while (!a.on_the_way.empty()) EXPECT_TRUE(deliver(a));
      while (!b.on_the_way.empty()) EXPECT_TRUE(deliver(b));
    }
  }

  void write_and_transmit(Endpoint& from, const std::string& bytes) {
    write(from, bytes);
    transmit(from);
  }
  void write_and_settle(Endpoint& from, const std::string& bytes) {
    write(from, bytes);
    settle();
  }
  bool both_finished() const { return a.connection.finished() && b.connection.finished(); }

  Endpoint& other(Endpoint& one) { return &one == &a ? b : a; }

 private:
  static void put(std::vector<char>& ring, const RingWindow& window, const std::string& bytes) {
    const std::size_t first = std::min<std::size_t>(bytes.size(), window.first.length);
    std::memcpy(ring.data() + window.first.offset, bytes.data(), first);
    std::memcpy(ring.data() + window.second.offset, bytes.data() + first, bytes.size() - first);
  }
};

class ConnectionPairTest : public testing::Test {
 protected:
  ConnectionPair pair;
};

}  // namespace fairlead::smc
