// Judges by the runtime's description whether a container is the sidecar as the injection makes it:
// that program with those arguments, and nothing from elsewhere that could change what it does. A
// container that only has the sidecar's name gets no device. Pure.
//
// A field that the runtime does not pass is not judged. Hooks are not judged (docs/cni.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fairlead::cni::node::nri {

struct ContainerMount {
  std::string destination, type;
  std::vector<std::string> options;
};

struct ContainerNamespace {
  std::string type;  // "pid"
  std::string path;  // empty: the container's own
};

struct ProgramFacts {
  std::vector<std::string> args;  // including the program
  std::vector<std::string> env;   // NAME=VALUE
  std::vector<ContainerMount> mounts;
  std::vector<ContainerNamespace> namespaces;  // a missing type is the node's
  std::vector<std::uint32_t> groups;           // of the process: primary and supplementary
};

struct ProgramFinding {
  bool shared_processes = false;  // the process namespace is not the container's own
  std::string_view field;         // "args", "env", "mounts", "namespaces" or "user"
  std::string value;              // the unexpected value; for `env` the name
};

// Empty if the container is the sidecar of the injection. `env_names`: further allowed names.
std::optional<ProgramFinding> judge_program(const ProgramFacts& program,
                                            const std::vector<std::string>& env_names);

// True for a name that `env_names` may have. No variable may direct the dynamic loader, the C
// library or libibverbs.
bool may_allow_variable(std::string_view name);

}  // namespace fairlead::cni::node::nri
