// The regular look at the ways out of this node's pods: which destinations lie behind encryption
// below TCP (cni/path_encryption.h). Keeps that in the notes of the pods, and says in the log what
// has changed.
#pragma once

#include <string>
#include <utility>

#include "base/paced_lines.h"
#include "cni/path_facts.h"
#include "cni/state.h"

namespace fairlead::cni::node {

// For one thread.
class EncryptionNotes {
 public:
  explicit EncryptionNotes(std::string run_dir) : run_dir_(std::move(run_dir)) {}

  // Visits the network namespace of each pod on the calling thread, which is in that of the node.
  // Where the kernel does not answer, the notes stay as they are, with a line in the log.
  void look();

 private:
  void look_at(const AttachmentState& state, const PathFacts& node);
  void tell_failure(const std::string& where, const Error& error);

  const std::string run_dir_;
  PacedLines lines_;
};

}  // namespace fairlead::cni::node
