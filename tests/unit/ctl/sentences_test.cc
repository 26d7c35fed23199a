// Goal: what people read has its values. Method: a proxy in which nothing is zero or empty, and
// each table and sentence of fairleadctl as a whole.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <future>
#include <regex>
#include <string>
#include <thread>

#include "ctl/echo.h"
#include "ctl/json_value.h"
#include "golden.h"
#include "parking/proxy_keeper.h"
#include "unit/ctl/with_proxy.h"

namespace fairlead::ctl {
namespace {

using testing::HasSubstr;

std::string path_of(const std::string& name) {
  return FAIRLEAD_SOURCE_DIR "/tests/unit/ctl/golden/" + name;
}

// Each counter has a value of its own, so that no two can be mistaken for each other.
void fill(WorkerStats& stats) {
  std::uint64_t next = 0;
  std::uint64_t bytes = 0;
  for (auto& direction : stats.traffic) {
    for (TrafficStats& transport : direction) {
      transport.connections_total.set(1000 + ++next);
      transport.connections_active.set(++next);
      transport.tx_bytes.set(bytes += 1 << 20);
      transport.rx_bytes.set(bytes += 1 << 20);
    }
  }
  for (Counter WorkerStats::*counter :
       {&WorkerStats::pinned_bytes, &WorkerStats::pinned_limit_bytes, &WorkerStats::rmb_used_bytes,
        &WorkerStats::rmb_free_bytes})
    (stats.*counter).set(bytes += 1 << 20);
  for (Counter WorkerStats::*counter : {&WorkerStats::connections_moved,
                                        &WorkerStats::connections_reset,
                                        &WorkerStats::accept_errors,
                                        &WorkerStats::link_groups_single,
                                        &WorkerStats::link_groups_symmetric,
                                        &WorkerStats::link_groups_asymmetric_local,
                                        &WorkerStats::link_groups_asymmetric_peer,
                                        &WorkerStats::link_groups_none,
                                        &WorkerStats::links_active,
                                        &WorkerStats::link_added,
                                        &WorkerStats::link_deleted,
                                        &WorkerStats::link_failed,
                                        &WorkerStats::link_moved,
                                        &WorkerStats::link_test_ok,
                                        &WorkerStats::link_test_timeout,
                                        &WorkerStats::buffer_full_local,
                                        &WorkerStats::buffer_full_peer,
                                        &WorkerStats::buffer_downgrade,
                                        &WorkerStats::cdc_sent,
                                        &WorkerStats::cdc_received,
                                        &WorkerStats::cdc_rejected,
                                        &WorkerStats::llc_sent,
                                        &WorkerStats::llc_received,
                                        &WorkerStats::llc_rejected,
                                        &WorkerStats::loop_turns,
                                        &WorkerStats::spin_hits,
                                        &WorkerStats::spin_misses,
                                        &WorkerStats::receive_limit_events})
    (stats.*counter).set(++next);
  for (Counter& refused : stats.refused) refused.set(++next);
  stats.handshake_fallback.observe(0.002);
}

WorkerSnapshot filled(WorkerSnapshot rows) {
  for (ConnectionRow& row : rows.connections) {
    row.group = "g-1";
    row.link = 2;
    row.client_address = "shown";
    row.reason = "no_rdma_device";
    row.reason_code = 0x03030002;
    row.local_token = 0x11;
    row.peer_token = 0x22;
    row.rmb_bytes = 512 << 10;
    row.peer_rmb_bytes = 64 << 10;
  }
  for (LinkGroupRow& row : rows.link_groups) row.idle_seconds = 305;
  for (DeviceRow& row : rows.devices) {
    row.gid_source = "node";
    row.reason = "no_rdma_device";
    row.detail = "the cable is out";
  }
  for (DecisionRow& row : rows.decisions) row.peer_code = 0x03030008;
  return rows;
}

class Sentences : public Fairleadctl {
 protected:
  Sentences() {
    for (auto& worker : proxy_.stats) fill(*worker);
    proxy_.change = filled;
  }
};

TEST_F(Sentences, EveryColumnAndCounterHasItsValue) {
  for (const auto& [name, command] :
       std::initializer_list<std::pair<const char*, std::vector<const char*>>>{
           {"connections", {"connections"}},
           {"connections_details", {"connections", "--details"}},
           {"linkgroups", {"linkgroups"}},
           {"links", {"links"}},
           {"devices", {"devices"}},
           {"destinations", {"destinations"}},
           {"fallbacks", {"fallbacks"}},
           {"stats", {"stats"}},
           {"why", {"why", "--all"}}}) {
    const Outcome outcome = ask(command);
    EXPECT_EQ(outcome.err, "") << name;
    EXPECT_TRUE(golden::matches(outcome.out, path_of(std::string("filled_") + name + ".txt")));
    // An empty cell, a count of nothing, and a sentence with a gap.
    EXPECT_FALSE(std::regex_search(outcome.out, std::regex("(^|  )-($|  |\n)|  none\n|  \\?")))
        << outcome.out;
    EXPECT_FALSE(std::regex_search(outcome.out, std::regex("[^ ] 0 |[:,] ?,|\\( ?\\)")))
        << outcome.out;
  }
}

TEST_F(Sentences, ConnectionsAndDecisionsOfEachModeAreTold) {
  proxy_.change = [](WorkerSnapshot rows) {
    for (DecisionRow& row : rows.decisions) row.transport = Transport::kShort;
    for (ConnectionRow& row : rows.connections)
      if (row.transport == Transport::kSmcr) row.transport = Transport::kShort;
    return rows;
  };
  EXPECT_EQ(ask({"why", "10.1.2.7:9090"}).out,
            "outbound 10.1.2.7:9090: TCP, ended before it had earned SMC-R\n"
            "  when      2026-11-20T21:25:00.000Z, connection c-9, took 1.8ms\n"
            "  steps     1. the peer's SYN/ACK carried the SMC option\n"
            "            2. no device reaches the peer\n");
  EXPECT_THAT(ask({"connections"}).out, HasSubstr("c-1  active  out  short  10.1.1.2:40312"));
}

TEST_F(Sentences, DoctorTellsWhatTheProxySays) {
  EXPECT_THAT(ask({"doctor"}).out,
              testing::AllOf(HasSubstr("ok    proxy           version 1.2.3, devices shm\n"),
                             HasSubstr("ok    workers         2 answering\n"),
                             HasSubstr("ok    devices         active shm0/1\n")));
}

TEST_F(Sentences, Complaints) {
  EXPECT_EQ(ask({"connections", "--limit", "1"}).err,
            "fairleadctl: showing 1 of 84 connections; see --limit and --state\n");
  EXPECT_EQ(ask({"why", "--expect", "smcr"}).err, "fairleadctl: transport tcp, expected smcr\n");
  EXPECT_EQ(ask({"why", "192.0.2.1"}).err,
            "fairleadctl: the proxy remembers no decision about 192.0.2.1\n");
  EXPECT_EQ(ask({"port", "shm0", "0", "up"}).exit_code, 2);
  proxy_.silent_worker = 1;
  start(std::chrono::milliseconds(20));
  const Outcome partly = ask({"devices"});
  EXPECT_EQ(partly.exit_code, 1);
  EXPECT_EQ(partly.err, "fairleadctl: worker 1 did not answer; its rows are missing\n");
  server_.reset();
  EXPECT_EQ(ask({"links"}).err,
            "fairleadctl: no proxy answers: " + address_ + ": connect: Connection refused\n");
}

TEST(ReadText, OfAnyTypeIsNeverSilentlyEmpty) {
  const Json row = parse_json(
      R"({"s":"x","n":7,"neg":-7,"r":0.5,"b":true,"null":null,"list":[1],"object":{"a":1}})");
  for (const auto& [name, shown] : {std::pair("s", "x"),
                                    {"n", "7"},
                                    {"neg", "-7"},
                                    {"r", "0.5"},
                                    {"b", "true"},
                                    {"null", ""},
                                    {"missing", ""},
                                    {"list", "?"},
                                    {"object", "?"}})
    EXPECT_EQ(text(row, name), shown) << name;
}

// A proxy with one parcel, and the one that comes after it.
class HandOverSentence : public testing::Test {
 protected:
  // What the command says of `descriptors` sockets.
  Outcome hand_over(std::size_t descriptors, std::vector<const char*> more = {}) {
    auto old_one = std::move(*parking::ProxyKeeper::listen(name_));
    std::unique_ptr<parking::ProxyKeeper> next;  // lives until the command has ended
    std::promise<void> asked;
    EXPECT_TRUE(old_one->start([&asked] { asked.set_value(); }));
    std::thread proxies([&] {
      asked.get_future().wait();
      old_one->stop();
      EXPECT_TRUE(old_one->park(parcel(descriptors), soon()));
      old_one.reset();
      next = std::move(*parking::ProxyKeeper::listen(name_));
      auto taken = next->receive(soon());
      EXPECT_TRUE(taken && *taken);
      next->answer(parking::KeeperRecord::Refusal::kNone, descriptors);
    });
    more.insert(more.begin(), {"hand-over", "--keeper-socket", name_.c_str()});
    Outcome outcome = run_with(std::move(more));
    proxies.join();
    return outcome;
  }

  static TimePoint soon() { return std::chrono::steady_clock::now() + std::chrono::seconds(20); }
  static parking::Parcel parcel(std::size_t descriptors) {
    parking::Parcel made;
    made.description = ForeignDescriptor(
        std::move(*parking::seal_description(std::as_bytes(std::span("abc", 3)))));
    made.bytes = 3;
    for (std::size_t i = 0; i < descriptors; ++i)
      made.descriptors.emplace_back(FileDescriptor(::eventfd(0, EFD_CLOEXEC)));
    return made;
  }

  const std::string name_ = "@fairlead-hand-over-test-" + std::to_string(::getpid());
};

TEST_F(HandOverSentence, HasTheNumbersOfNothingToo) {
  const Outcome outcome = hand_over(12);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, testing::MatchesRegex("taken back: 12 sockets, after [0-9]+ ms\n"));
  EXPECT_EQ(outcome.err, "the proxy has parked its connections; waiting for the next one\n");
  EXPECT_THAT(hand_over(0).out, testing::MatchesRegex("taken back: 0 sockets, after [0-9]+ ms\n"));
}

TEST_F(HandOverSentence, HasTheSameNumbersAsItsJson) {
  const Json answer = parse_json(hand_over(3, {"-o", "json"}).out);
  EXPECT_EQ(number(answer, "descriptors"), 3U);
  EXPECT_TRUE(member(answer, "gap_ms").is_number_unsigned());
  EXPECT_EQ(number(answer, "reset"), 0U);
}

TEST_F(HandOverSentence, NamesWhatFailed) {
  EXPECT_EQ(run_with({"hand-over", "--keeper-socket", "@fairlead-nobody-here"}).err,
            "fairleadctl: the proxy has not parked its connections: connect to the proxy's keeper "
            "socket: Connection refused\n");
}

TEST(EchoSentence, HasBytesAndPeer) {
  auto server = EchoServer::listen(0);
  ASSERT_TRUE(server) << to_string(server.error());
  const std::string port = std::to_string(server->port());
  std::thread serving([&] {
    EXPECT_TRUE(server->serve_one(std::chrono::steady_clock::now() + std::chrono::seconds(20)));
  });
  const Outcome outcome =
      run_with({"echo", "127.0.0.1", "--port", port.c_str(), "--bytes", "5000"});
  serving.join();
  EXPECT_EQ(outcome.out, "sent and got back 5000 bytes, peer 127.0.0.1:" + port + "\n");
}

}  // namespace
}  // namespace fairlead::ctl
