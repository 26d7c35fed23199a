// Pods of this node by the API server: a list of their metadata, page by page, and the whole object
// of those that are asked for. One pod that is too long is an unread pod, and hides no other one.
//
// For one thread. Each call to the API server blocks as ApiServer::send() does.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "cni/node/pods/node_pods.h"
#include "event/https/api_server.h"

namespace fairlead::cni::node {

struct PodListing {
  std::vector<NodePod> pods;
  std::string trouble;    // why it is not all: a sentence; empty for a whole list
  bool is_whole = false;  // `pods` are all pods of the node
};

class PodLister {
 public:
  // Pods in a page. A page that is too long is asked for again with half as many, and the next ones
  // grow to this number again.
  static constexpr unsigned kPodsPerPage = 32;
  static constexpr std::size_t kPodsMax = 4096;
  static constexpr unsigned kPagesMax = 4096;
  // All answers to one list() together. The next call continues there, so that pods which use this
  // up do not hide those behind them.
  static constexpr std::size_t kListBytesMax = 256 << 20;
  // Lists that begin again because the server no longer knows the place of the next page.
  static constexpr unsigned kRestartsMax = 2;

  // `server` outlives this.
  explicit PodLister(const event::ApiServer& server) : server_(server) {}

  // Metadata of the pods of `node`; addresses and sidecar are unknown. Pods that were read before
  // the trouble are in the listing.
  PodListing list(const std::string& node);

  // The whole pods in place of those. Pods that have gone are left out, and a pod that has not
  // changed since the last call is not asked for again.
  PodListing complete(const std::vector<NodePod>& pods);

 private:
  struct Progress {
    PodListing listing;
    std::size_t bytes = 0;
    unsigned pages = 0, restarts = 0;
    unsigned limit = kPodsPerPage;
    bool from_start = true;
    std::string next;
  };
  enum class Step { kMore, kEnd };

  Step read_page(const std::string& node, Progress& progress) const;
  Step take(Result<PodPage, std::string> page, Progress& progress) const;
  Step stop(Progress& progress, std::string trouble) const;
  Step restart(Progress& progress) const;
  // Nothing in the listing if the pod has gone, or cannot be read now. False if there is no sense
  // in further calls.
  bool fetch(const NodePod& pod, PodListing& listing) const;

  const event::ApiServer& server_;
  std::string resume_;                    // where the next list begins; empty: at the start
  std::map<std::string, NodePod> whole_;  // by uid, of the last call of complete()
};

}  // namespace fairlead::cni::node
