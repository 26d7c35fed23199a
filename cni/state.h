// What the plugin remembers of an attachment, so that DEL, CHECK and GC know what ADD did: a JSON
// file <runDir>/attachments/<container>/<interface>.json. On a tmpfs, because nothing of it
// outlives a boot. It is written before anything is done to a pod, so that a plugin that is killed
// leaves nothing that DEL would not find.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/handle.h"
#include "base/result.h"
#include "cni/netns.h"
#include "cni/plugin_error.h"
#include "cni/request.h"

namespace fairlead::cni {

inline constexpr std::size_t kProblemsMax = 8;

// Something that could not be done, and that did not stop the pod.
struct Problem {
  Code code = Code::kState;
  std::string what;
};

struct AttachmentState {
  Attachment attachment;
  std::string network;
  std::string netns;
  NetnsIdentity identity;
  std::string pod_namespace, pod_name, pod_uid;  // from CNI_ARGS, may be empty
  std::string alias;                             // ours, empty when not written
  std::vector<std::string> redirect;             // TableReading; empty when not installed
  std::string kernel_pnet;                       // entry for the interface, or empty
  std::string pnet_source;                       // "annotation", "configuration", "rnic" or "none"
  std::string option_cgroup;                     // where the option program is attached, or empty
  std::string client_address_cgroup;     // where the client-address programs are attached, or empty
  std::uint32_t client_address_map = 0;  // its id, 0 when there is none
  bool finished = false;                 // ADD has come to its end
  std::vector<Problem> problems;
};

std::string to_json_text(const AttachmentState& state);
// The error says what is wrong with the text.
Outcome<AttachmentState> parse_state(std::string_view text);

// Holds the lock of one container while it lives: the calls of one container run one after the
// other, also those for different interfaces.
class ContainerState {
 public:
  // Makes the folder when `create`. Nothing when there is none and it was not to be made. Errors:
  // kState.
  static Outcome<std::optional<ContainerState>> open(const std::string& run_dir,
                                                     const std::string& container_id, bool create);
  ContainerState(ContainerState&&) noexcept = default;
  ContainerState& operator=(ContainerState&&) = delete;
  // Removes the folder if it is empty.
  ~ContainerState();

  // Nothing when there is none; a damaged file counts as a state that knows nothing but its name.
  std::optional<AttachmentState> load(const std::string& ifname) const;
  Outcome<void> store(const AttachmentState& state) const;
  void remove(const std::string& ifname) const;
  // Interfaces that have a state.
  std::vector<std::string> interfaces() const;

 private:
  ContainerState(std::string path, FileDescriptor lock)
      : path_(std::move(path)), lock_(std::move(lock)) {}
  std::string path_;
  FileDescriptor lock_;
};

// What is known of the container without its lock: a state appears whole, by rename. Nothing when
// there is none that names a network namespace.
std::optional<AttachmentState> peek_state(const std::string& run_dir,
                                          const std::string& container_id);

// Folder of a container's states, and of all containers.
std::string attachments_dir(const std::string& run_dir);

// Every container that has a folder.
std::vector<std::string> known_containers(const std::string& run_dir);

}  // namespace fairlead::cni
