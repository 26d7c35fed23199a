// State of an attachment, from which DEL, CHECK and GC know what ADD did: a JSON file
// <runDir>/attachments/<container>/<interface>.json. It is on a tmpfs, because it is not valid
// after a reboot. It is written before the first change to a pod, so DEL finds everything even if
// the plugin is killed.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/linux/handle.h"
#include "base/result.h"
#include "bpf/redirect_programs.h"
#include "cni/plugin/plugin_error.h"
#include "cni/plugin/request.h"
#include "cni/redirect/netns.h"

namespace fairlead::cni {

inline constexpr std::size_t kProblemsMax = 8;
// Runtimes end a call after a minute or more.
inline constexpr std::chrono::seconds kLockWaitMax{30};

// A step that failed without preventing the start of the pod.
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
  std::string alias;                             // written by the plugin; else empty
  std::vector<std::string> redirect;             // reading of Redirect; empty when not installed
  std::string redirect_cgroup;                   // of Redirect; empty: by the packet filter
  std::string redirect_reason;                   // of Redirect
  std::string kernel_pnet;                       // entry for the interface, or empty
  std::string pnet_source;                       // "annotation", "configuration", "rnic" or "none"
  std::string option_cgroup;                     // where the option program is attached, or empty
  std::string client_address_cgroup;     // where the client-address programs are attached, or empty
  std::uint32_t client_address_map = 0;  // its id, 0 when there is none
  bool finished = false;                 // ADD has come to its end
  std::vector<Problem> problems;
  std::string damage;  // why the file is not believed; not in the file
};

// Where the redirect programs of this attachment are; without a cgroup, it has the packet filter.
bpf::RedirectPlace redirect_place(const AttachmentState& state);
// The name of their pin.
std::string pin_name(const Attachment& attachment);

// For people: namespace/name of the pod, or the container's id where these are not known.
std::string name_of(const AttachmentState& state);

std::string to_json_text(const AttachmentState& state);
// The error describes the mistake in the text.
Outcome<AttachmentState> parse_state(std::string_view text);

// Holds the lock of one container during its lifetime. It serialises the calls for one container,
// also those for different interfaces.
class ContainerState {
 public:
  // Creates the folder if `create`. Returns nothing if it does not exist and `create` is false.
  // Waits for other calls for kLockWaitMax. Errors: kState, also when the folder or that of all
  // attachments is a link, or belongs to another user.
  static Outcome<std::optional<ContainerState>> open(const std::string& run_dir,
                                                     const std::string& container_id, bool create);
  ContainerState(ContainerState&&) noexcept = default;
  ContainerState& operator=(ContainerState&&) = delete;
  // Removes the folder if it is empty.
  ~ContainerState();

  // Nothing without a file. A file that is damaged, no ordinary one, or of another attachment gives
  // a state that contains only `attachment` and `damage`.
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

// Reads a state of the container without its lock, which is safe because files are replaced by
// rename. Nothing if no state names a network namespace.
std::optional<AttachmentState> peek_state(const std::string& run_dir,
                                          const std::string& container_id);

// Folder of a container's states, and of all containers.
std::string attachments_dir(const std::string& run_dir);

// All containers that have a folder.
std::vector<std::string> known_containers(const std::string& run_dir);

}  // namespace fairlead::cni
