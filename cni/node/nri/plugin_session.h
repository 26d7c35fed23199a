// Protocol of an NRI plugin on one connection to the runtime, without I/O. Registers, subscribes to
// the creation of containers only, and answers with the decision of a ContainerHandler.
//
// A plugin can keep pods from starting, so the rules are strict: no response ever carries an error
// status for a call that the plugin knows; a request that cannot be decoded is answered with "no
// adjustment".
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cni/node/nri/framing.h"

namespace fairlead::nri {
class Container;
class ContainerAdjustment;
class CreateContainerRequest;
class PodSandbox;
}  // namespace fairlead::nri

namespace fairlead::cni::node::nri {

inline constexpr std::string_view kPluginName = "fairlead";
// A high index runs late and sees the adjustments of other plugins, which are not changed.
inline constexpr std::string_view kPluginIndex = "90";
inline constexpr std::string_view kNriVersion = "0.8.0";
// Pods of one synchronisation. A kubelet runs some hundred.
inline constexpr std::size_t kSynchronizedPodsMax = 4096;

// Decides about containers. Called on the thread that feeds the session; must not block.
class ContainerHandler {
 public:
  virtual ~ContainerHandler() = default;
  // A connection begins; `runtime` is its process, 0 when that cannot be seen from here.
  virtual void connected(pid_t runtime) { (void)runtime; }
  // Adds to `adjustment`, or leaves it empty.
  virtual void create_container(const fairlead::nri::PodSandbox& pod,
                                const fairlead::nri::Container& container,
                                fairlead::nri::ContainerAdjustment& adjustment) = 0;
  // A container that existed when the plugin connected, with its pod.
  virtual void existing_container(const fairlead::nri::PodSandbox& pod,
                                  const fairlead::nri::Container& container) = 0;
  // existing_container() was called for all of them.
  virtual void synchronized() {}
};

class PluginSession {
 public:
  enum class State : std::uint8_t {
    kRegistering,  // the runtime has not answered yet
    kRegistered,   // configured and synchronised as the runtime likes
  };

  // `handler` outlives *this. output() has the registration at once.
  explicit PluginSession(ContainerHandler& handler);
  ~PluginSession();

  // Errors: those of MessageReader::feed(), and kPermission when the runtime refuses the
  // registration. Close the connection then.
  Result<void> handle_bytes(std::span<const std::byte> bytes);

  State state() const { return state_; }
  const std::string& runtime() const {
    return runtime_;
  }  // "containerd v2.3.7"; empty until configured
  // Bytes for the runtime; the caller removes what it has sent.
  std::string& output() { return output_; }

 private:
  Result<void> handle_message(const RpcMessage& message);
  void handle_request(const RpcMessage& message);
  std::string configure(const std::string& payload);
  std::string synchronize(const std::string& payload);
  std::string create_container(const std::string& payload);
  void respond(const RpcMessage& request, const std::string& payload, int status,
               std::string_view why);

  ContainerHandler* handler_;
  State state_ = State::kRegistering;
  MessageReader reader_;
  // A long synchronisation comes in parts, and a container may come in a later part than its pod.
  std::map<std::string, std::unique_ptr<fairlead::nri::PodSandbox>> synchronized_pods_;
  std::string runtime_;
  std::string output_;
};

}  // namespace fairlead::cni::node::nri
