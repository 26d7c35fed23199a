#include "cni/node/reports/encryption_notes.h"

#include <chrono>

#include "base/encrypted_paths.h"
#include "base/hand_over.h"
#include "base/log.h"
#include "cni/redirect/link_alias.h"
#include "cni/redirect/netns.h"
#include "cni/rnics/path_encryption.h"
#include "cni/state/garbage.h"

namespace fairlead::cni::node {
namespace {

constexpr const char* kLogger = "node";
constexpr std::size_t kPathsCharsMax = 200;  // in a line of the log

TimePoint now() { return std::chrono::steady_clock::now(); }

struct Noted {
  EncryptedPaths paths;
  bool changed = false;
};

Result<Noted> note_paths(const AttachmentState& state, const PathFacts& node) {
  const Netns netns = SMC_TRY(Netns::open(state.netns));
  if (netns.identity() != state.identity)
    return Error{Errc::kNotFound, "network namespace of the pod"};
  const NetnsVisit visit = SMC_TRY(NetnsVisit::enter(netns));
  const PathFacts pod = SMC_TRY(read_path_facts(look_at_pod(node)));
  Noted noted{encrypted_paths(pod, node)};
  noted.changed = SMC_TRY(
      change_note([&noted](const std::string& note) { return with_encrypted(note, noted.paths); }));
  return noted;
}

}  // namespace

void EncryptionNotes::look() {
  const std::vector<std::string> containers = known_containers(run_dir_);
  if (containers.empty()) return;
  const Result<PathFacts> node = read_path_facts(look_at_node());
  if (!node) return tell_failure("node", node.error());
  for (const std::string& container : containers)
    if (const auto state = peek_state(run_dir_, container);
        state && state->finished && lives(*state))
      look_at(*state, *node);
}

void EncryptionNotes::look_at(const AttachmentState& state, const PathFacts& node) {
  const std::string pod = name_of(state);
  // A container of the pod with CAP_NET_ADMIN can make what is read arbitrarily large.
  const auto asked = calls_.ask(state.attachment.container_id, kCallMax,
                                [state, node] { return note_paths(state, node); });
  if (!asked) return tell_failure(pod, Error{Errc::kTimedOut, "reading the pod's paths"});
  const Result<Noted>& noted = *asked;
  // A pod that has ended meanwhile, or has no note, is no failure.
  if (!noted && noted.error().code != Errc::kNotFound) tell_failure(pod, noted.error());
  if (!noted || !noted->changed) return;
  lines_.write(LogLevel::kInfo, kLogger, "encrypted_paths", now(), [&](LogEvent& line) {
    line.field("pod", pod).field("paths", to_text(noted->paths, kPathsCharsMax));
  });
}

void EncryptionNotes::tell_failure(const std::string& where, const Error& error) {
  lines_.write(LogLevel::kWarn, kLogger, "encrypted_paths_unknown", now(),
               [&](LogEvent& line) { line.field("pod", where).field("what", to_string(error)); });
}

}  // namespace fairlead::cni::node
