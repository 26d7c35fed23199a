// Periodic check of the paths of this node's pods for encryption below TCP
// (cni/rnics/path_encryption.h). Writes the destinations into the notes of the pods, and logs
// changes.
#pragma once

#include <string>
#include <utility>

#include "base/paced_lines.h"
#include "cni/node/pods/pod_calls.h"
#include "cni/rnics/path_facts.h"
#include "cni/state/state.h"

namespace fairlead::cni::node {

// For one thread.
class EncryptionNotes {
 public:
  explicit EncryptionNotes(std::string run_dir) : run_dir_(std::move(run_dir)) {}

  // How long a pod may delay the check; after that, its note is not changed.
  static constexpr Duration kCallMax = std::chrono::seconds(1);

  // Enters the network namespace of each pod, on a thread for the pod. If the kernel does not
  // answer, the notes are not changed, and a line is logged.
  void look();

 private:
  void look_at(const AttachmentState& state, const PathFacts& node);
  void tell_failure(const std::string& where, const Error& error);

  const std::string run_dir_;
  PodCalls calls_;
  PacedLines lines_;
};

}  // namespace fairlead::cni::node
