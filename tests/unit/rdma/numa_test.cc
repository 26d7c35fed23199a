// Order of RNICs by NUMA node.
#include "rdma/verbs/numa.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace fairlead::rdma::verbs {
namespace {

namespace fs = std::filesystem;

using Names = std::vector<std::string>;

TEST(Numa, ListsOfNumbersAreRanges) {
  EXPECT_EQ(parse_number_list("0-2,8"), (std::set<int>{0, 1, 2, 8}));
  EXPECT_EQ(parse_number_list("5"), std::set<int>{5});
  for (const char* text : {"", "x", "2-1", "-1", "0-", "1-4096", "0-2x", "99999999999"})
    EXPECT_TRUE(parse_number_list(text).empty()) << text;
}

TEST(Numa, NearRnicsComeFirst) {
  const std::vector<RnicPlace> rnics = {{"mlx5_0", 0}, {"mlx5_1", 1}, {"mlx5_2", 1}, {"rxe0", {}}};
  EXPECT_EQ(near_first(rnics, {1}), (Names{"mlx5_1", "mlx5_2", "rxe0", "mlx5_0"}));
  EXPECT_EQ(near_first(rnics, {0}), (Names{"mlx5_0", "rxe0", "mlx5_1", "mlx5_2"}));
  // For a process that may run on all nodes, or with unknown nodes, RNICs have the order of their
  // names.
  EXPECT_EQ(near_first(rnics, {0, 1}), (Names{"mlx5_0", "mlx5_1", "mlx5_2", "rxe0"}));
  EXPECT_EQ(near_first(rnics, {}), (Names{"mlx5_0", "mlx5_1", "mlx5_2", "rxe0"}));
}

TEST(Numa, NodesAreThoseOfSysfs) {
  std::string name = fs::temp_directory_path() / "fairlead-numa-XXXXXX";
  const fs::path sysfs = ::mkdtemp(name.data());
  const auto write = [&sysfs](const char* file, const char* text) {
    fs::create_directories((sysfs / file).parent_path());
    std::ofstream(sysfs / file) << text;
  };
  write("class/infiniband/mlx5_0/device/numa_node", "1\n");
  write("class/infiniband/mlx5_1/device/numa_node", "-1\n");
  write("class/infiniband/mlx5_2/device/numa_node", "");
  write("devices/system/node/node0/cpulist", "0-3\n");
  write("devices/system/node/node1/cpulist", "4-7\n");
  write("devices/system/node/online", "0-1\n");
  EXPECT_EQ(numa_node_of("mlx5_0", sysfs), 1);
  EXPECT_FALSE(numa_node_of("mlx5_1", sysfs));
  EXPECT_FALSE(numa_node_of("mlx5_2", sysfs));
  EXPECT_FALSE(numa_node_of("rxe0", sysfs));
  EXPECT_EQ(numa_nodes_of({5, 6}, sysfs), std::set<int>{1});
  EXPECT_EQ(numa_nodes_of({3, 4}, sysfs), (std::set<int>{0, 1}));
  EXPECT_TRUE(numa_nodes_of({9}, sysfs).empty());
  EXPECT_TRUE(numa_nodes_of({0}, sysfs / "none").empty());
  fs::remove_all(sysfs);
}

TEST(Numa, ProcessMayRunSomewhere) { EXPECT_FALSE(allowed_processors().empty()); }

}  // namespace
}  // namespace fairlead::rdma::verbs
