// Lets connections of applications go past the proxy where SMC-R is not possible: decides at the
// start whether the redirect of the pod can do that, and connects what the workers learn with it.
#pragma once

#include <optional>
#include <string>

#include "admin/sources.h"
#include "bpf/destination_hints.h"
#include "config/config.h"
#include "relay/worker/destinations.h"

namespace fairlead {

class DirectPaths {
 public:
  // Forgets what an earlier process of the pod has learned.
  explicit DirectPaths(const config::Config& config);
  DirectPaths(const DirectPaths&) = delete;
  DirectPaths& operator=(const DirectPaths&) = delete;

  // For all workers, which end before. Null: every connection comes through the proxy.
  relay::Destinations* destinations() { return destinations_ ? &*destinations_ : nullptr; }
  // Nothing where no connection is redirected here.
  std::optional<admin::Fact> fact() const;
  // Any thread.
  admin::DirectReport report() const;

 private:
  std::string unavailable_;  // why, as a sentence; empty: available
  bool redirected_ = false;  // some listener takes redirected connections
  std::optional<bpf::DestinationHints> programs_;
  std::optional<relay::Destinations> destinations_;
};

}  // namespace fairlead
