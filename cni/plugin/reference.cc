#include "cni/plugin/reference.h"

#include <array>

#include "base/kubernetes_names.h"
#include "base/node_annotations.h"
#include "cni/plugin/node_config.h"
#include "cni/plugin/plugin_error.h"

namespace fairlead::cni {
namespace {

constexpr std::array kCodes = {
    CodeInfo{
        Code::kVersion,
        "The plugin does not support the cniVersion of the configuration, or it lacks the verb."},
    CodeInfo{Code::kEnvironment, "A CNI_ variable is missing or not allowed."},
    CodeInfo{Code::kInput, "Standard input could not be read."},
    CodeInfo{Code::kDecode, "Standard input is not JSON, or not an object."},
    CodeInfo{Code::kConfig,
             "A key of the configuration, or an annotation, has a value that is "
             "not allowed. Fails ADD of a pod that has a sidecar, and of no other."},
    CodeInfo{Code::kNotAvailable, "STATUS with failClosed: no pod with a sidecar could start."},
    CodeInfo{Code::kNetns,
             "The pod's network namespace cannot be entered, or is another one. "
             "Fails ADD with failClosed only."},
    CodeInfo{Code::kRedirect,
             "The redirect cannot be installed, or is not as ADD left it. Fails "
             "ADD with failClosed only."},
    CodeInfo{Code::kPnet, "The PNET is not one of this node's, or the kernel's entry is missing."},
    CodeInfo{Code::kHandOver, "The alias of lo belongs to somebody else, or has changed."},
    CodeInfo{Code::kState, "The state below runDir cannot be written, or is missing."},
    CodeInfo{Code::kOption, "The option program is not attached to the pod's cgroup."},
    CodeInfo{Code::kClientAddress,
             "The client-address programs are not attached to the pod's cgroup."},
};

}  // namespace

std::span<const CodeInfo> code_table() { return kCodes; }

std::string reference_page() {
  std::string page =
      "# Reference of fairlead-cni\n\n"
      "<!-- Made by `fairlead-cni docs`. Change the table in the code, then run it again. -->\n\n"
      "What these mean together is in [cni.md](cni.md).\n\n"
      "## Keys of the configuration\n\n"
      "| key | default | allowed | meaning |\n|---|---|---|---|\n";
  for (const KeyInfo& key : node_config_table())
    page += "| `" + std::string(key.name) + "` | `" + std::string(key.otherwise) + "` | " +
            std::string(key.allowed) + " | " + std::string(key.meaning) + " |\n";
  page += "\n## Annotations of a pod\n\n| annotation | allowed | meaning |\n|---|---|---|\n";
  for (const kubernetes::NodeAnnotationInfo& info : kubernetes::kNodeAnnotations)
    page += "| `" + std::string(kubernetes::kAnnotationPrefix) + std::string(info.name) + "` | " +
            std::string(info.allowed) + " | " + std::string(info.meaning) + " |\n";
  page += "\n## Errors\n\n| code | meaning |\n|---|---|\n";
  for (const CodeInfo& code : code_table())
    page += "| " + std::to_string(static_cast<unsigned>(code.code)) + " | " +
            std::string(code.meaning) + " |\n";
  return page;
}

}  // namespace fairlead::cni
