// A cluster's API server, for a program that asks it some questions one after the other. Blocking.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "ctl/cluster/kubeconfig.h"
#include "event/http/http_status.h"
#include "json/bounded.h"
#include "json/members.h"

namespace fairlead::ctl {

// Objects of one list, over all its pages.
inline constexpr std::size_t kClusterItemsMax = 20'000;
// Pages of one list. A page may have less than was asked for, and even nothing.
inline constexpr unsigned kClusterPagesMax = 1'000;

struct ApiAnswer {
  int status = 0;  // of HTTP
  json::Json body;
  // A sentence; empty for a status of 200 to 299. A status of 403 says what is not allowed.
  std::string trouble;
  bool too_long = false;  // trouble: beyond kHttpsReplyBytesMax or kAnswerLimits
  bool good() const { return trouble.empty(); }
  bool denied() const { return status == http_status::kForbidden; }
  bool absent() const { return status == http_status::kNotFound; }
  // By a rule of the cluster or the namespace (403), or as not valid (422).
  bool refused() const {
    return status == http_status::kForbidden || status == http_status::kUnprocessableContent;
  }
};

// What an API server replied, judged. Pure.
ApiAnswer answer_of(const event::HttpsRequest& request, const event::HttpsReply& reply,
                    const ClusterAccess& access);

class ClusterClient {
 public:
  // Looks the host up and sees whether something listens there. The error says what was tried and
  // why it failed. `timeout` is for this, and for each call.
  static Result<ClusterClient, std::string> connect(ClusterAccess access, Duration timeout);

  ApiAnswer get(const std::string& path) const;
  ApiAnswer post(const std::string& path, const json::Json& body) const;
  // All pages of a list, as one list with `items`. `path` may have a query. A page that is too long
  // is asked for again with half as many objects. Trouble too: a list of more than kClusterPagesMax
  // pages, and one object that is too long.
  ApiAnswer list(const std::string& path) const;

 private:
  ClusterClient(ClusterAccess access, Duration timeout)
      : access_(std::move(access)), timeout_(timeout) {}
  ApiAnswer call(event::HttpsRequest request) const;

  ClusterAccess access_;
  Duration timeout_;
};

}  // namespace fairlead::ctl
