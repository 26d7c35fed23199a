// Goal: counters of RNICs are read from sysfs by a fixed list, and no content of sysfs can do harm.
#include "cni/node/agent/rnic_counters.h"

#include <gtest/gtest.h>

#include <set>

#include "cni/node/agent/agent_metrics.h"
#include "own_folder.h"

namespace fairlead::cni::node {
namespace {

class RnicCounters : public ::testing::Test {
 protected:
  void write(const std::string& port, const std::string& file, const std::string& text) const {
    own_.write("class/infiniband/" + port + "/" + file, text);
  }
  std::vector<RnicCounter> read() const { return read_rnic_counters(sysfs_); }

  const OwnFolder own_;
  const std::filesystem::path sysfs_ = own_.path();
};

TEST_F(RnicCounters, AreThoseOfTheListByPort) {
  write("mlx5_0/ports/1", "hw_counters/packet_seq_err", "12\n");
  write("mlx5_0/ports/1", "hw_counters/np_cnp_sent", "18446744073709551615\n");
  write("mlx5_0/ports/1", "hw_counters/lifespan", "10\n");
  write("mlx5_0/ports/1", "counters/port_rcv_data", "4096\n");
  write("mlx5_0/ports/2", "counters/port_xmit_discards", "3\n");
  write("rxe0/ports/1", "hw_counters/rcvd_seq_err", "7\n");
  const std::vector<RnicCounter> expected = {
      {"mlx5_0", "1", "packet_seq_err", true, 12},
      {"mlx5_0", "1", "np_cnp_sent", true, 18446744073709551615U},
      {"mlx5_0", "1", "port_rcv_data", false, 4096},
      {"mlx5_0", "2", "port_xmit_discards", false, 3},
      {"rxe0", "1", "rcvd_seq_err", true, 7}};
  EXPECT_EQ(read(), expected);
}

TEST_F(RnicCounters, WithoutANumberAreLeftOutAndOfANodeWithoutRdmaAreNone) {
  EXPECT_EQ(read(), std::vector<RnicCounter>());
  write("efa_0", "uevent", "");  // no ports
  EXPECT_EQ(read(), std::vector<RnicCounter>());
  write("mlx5_0/ports/1", "hw_counters/packet_seq_err", "");
  write("mlx5_0/ports/1", "hw_counters/out_of_buffer", "many\n");
  write("mlx5_0/ports/1", "hw_counters/out_of_sequence", "-1\n");
  write("mlx5_0/ports/1", "hw_counters/np_cnp_sent", "18446744073709551616\n");
  write("mlx5_0/ports/1", "hw_counters/rp_cnp_handled", "5 apples\n");
  write("mlx5_0/ports/1", "hw_counters/rp_cnp_ignored", std::string(100, '1'));
  std::filesystem::create_directories(
      sysfs_ / "class/infiniband/mlx5_0/ports/1/hw_counters/duplicate_request");
  EXPECT_EQ(read(), std::vector<RnicCounter>());
}

TEST_F(RnicCounters, AreReadOfALimitedNumberOfPorts) {
  for (std::size_t i = 0; i < kCountedPortsMax + 10; ++i)
    write("vf_" + std::to_string(i) + "/ports/1", "hw_counters/out_of_buffer", "1\n");
  EXPECT_EQ(read().size(), kCountedPortsMax);
}

TEST_F(RnicCounters, HaveEachNameOnce) {
  for (const auto names : {hardware_counter_names(), port_counter_names()})
    EXPECT_EQ(std::set(names.begin(), names.end()).size(), names.size());
}

TEST_F(RnicCounters, BecomeMetrics) {
  write("mlx5_0/ports/1", "hw_counters/packet_seq_err", "12\n");
  write("mlx5_0/ports/1", "counters/port_xmit_wait", "9\n");
  RnicCounterReader reader(sysfs_, std::chrono::milliseconds(1));
  ASSERT_TRUE(reader.start());
  AgentMetrics metrics;
  metrics.show_rnic_counters(&reader);
  const auto shows = [&metrics](const char* line) {
    while (metrics.text().find(line) == std::string::npos) std::this_thread::yield();
  };
  shows(
      R"(fairlead_node_rnic_hw_counters_total{rnic="mlx5_0",port="1",counter="packet_seq_err"} 12)"
      "\n");
  shows(
      R"(fairlead_node_rnic_port_counters_total{rnic="mlx5_0",port="1",counter="port_xmit_wait"} 9)"
      "\n");
  // The next reading follows what changes.
  write("mlx5_0/ports/1", "counters/port_xmit_wait", "10\n");
  shows("port_xmit_wait\"} 10\n");
}

}  // namespace
}  // namespace fairlead::cni::node
