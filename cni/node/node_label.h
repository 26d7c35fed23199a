// The labels that a node has from us: fairlead.io/ready and fairlead.io/pnet.<ID>.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "cni/node_config.h"
#include "event/https/api_server.h"

namespace fairlead::cni::node {

// The labels of a node as a merge patch; `present` are those that it has, for what has to go.
std::string label_patch(bool ready, const std::vector<Pnet>& pnets,
                        const std::vector<std::string>& present);

// Gives them to the node, and takes off every other label of Fairlead. Errors are sentences. Blocks
// for two calls at most.
tl::expected<void, std::string> set_node_labels(const event::ApiServer& server,
                                                const std::string& node, bool ready,
                                                const std::vector<Pnet>& pnets);

}  // namespace fairlead::cni::node
