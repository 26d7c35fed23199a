// NUMA: which RNICs are near to the processors that this process may use.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

namespace fairlead::rdma::verbs {

// Of the RNIC; nothing where the kernel does not say, as for Soft-RoCE or a single node.
std::optional<int> numa_node_of(const std::string& rnic, const std::string& sysfs = "/sys");
// Of the processors that the process may run on. `processors`: their numbers.
std::set<int> numa_nodes_of(const std::set<int>& processors, const std::string& sysfs = "/sys");
std::set<int> allowed_processors();
// "0-3,8" of sysfs. Empty for anything else.
std::set<int> parse_number_list(const std::string& text);

struct RnicPlace {
  std::string name;
  std::optional<int> numa_node;
};
// The near ones first, else in the order given. One whose place is unknown is as good as a near
// one.
std::vector<std::string> near_first(const std::vector<RnicPlace>& rnics,
                                    const std::set<int>& own_nodes);

}  // namespace fairlead::rdma::verbs
