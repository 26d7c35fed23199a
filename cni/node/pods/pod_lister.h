// Lists the pods of this node from the API server: metadata page by page, and whole objects on
// request. A pod that is too long is reported as unread, and does not hide others.
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
  std::string trouble;    // why the list is incomplete: a sentence; empty for a whole list
  bool is_whole = false;  // `pods` are all pods of the node
};

class PodLister {
 public:
  // Pods per page. A page that is too long is requested again with half as many. The following
  // pages grow to this number again.
  static constexpr unsigned kPodsPerPage = 32;
  static constexpr std::size_t kPodsMax = 4096;
  static constexpr unsigned kPagesMax = 4096;
  // Maximum length of all answers to one list(). The next call continues there, so that large pods
  // do not hide those after them.
  static constexpr std::size_t kListBytesMax = 256 << 20;
  // How often a list starts again because the server no longer knows the next page's token.
  static constexpr unsigned kRestartsMax = 2;

  // `server` outlives this.
  explicit PodLister(const event::ApiServer& server) : server_(server) {}

  // Metadata of the pods of `node`; addresses and sidecar are unknown. After an error the listing
  // has the pods that were read before.
  PodListing list(const std::string& node);

  // Replaces these pods by whole objects. Pods that have gone are left out. A pod that has not
  // changed since the last call is not requested again.
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
  // Adds nothing to the listing if the pod has gone, or cannot be read now. False if further calls
  // are pointless.
  bool fetch(const NodePod& pod, PodListing& listing) const;

  const event::ApiServer& server_;
  std::string resume_;  // token at which the next list begins; empty: at the start
  std::map<std::string, NodePod> whole_;  // by uid, from the last complete()
};

}  // namespace fairlead::cni::node
