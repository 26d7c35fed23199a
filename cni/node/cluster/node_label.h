// Fairlead's labels of a node: fairlead.io/ready and fairlead.io/pnet.<ID>.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cni/plugin/node_config.h"
#include "event/https/api_server.h"

namespace fairlead::cni::node {

// The labels of a node as a merge patch. `present` are its current labels, from which obsolete ones
// are removed.
std::string label_patch(bool ready, const std::vector<Pnet>& pnets,
                        const std::vector<std::string>& present);

// Sets them, and removes every other label of Fairlead. Errors are sentences. Blocks for two calls
// at most.
Result<void, std::string> set_node_labels(const event::ApiServer& server, const std::string& node,
                                          bool ready, const std::vector<Pnet>& pnets);

}  // namespace fairlead::cni::node
