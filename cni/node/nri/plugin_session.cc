#include "cni/node/nri/plugin_session.h"

#include <utility>

#include "nri.pb.h"

namespace fairlead::cni::node::nri {
namespace {

namespace messages = fairlead::nri;

constexpr const char* kPluginService = "nri.pkg.api.v1alpha1.Plugin";
constexpr const char* kRuntimeService = "nri.pkg.api.v1alpha1.Runtime";
constexpr std::int32_t kCreateContainerEvent = 1 << 3;  // event 4
constexpr std::uint32_t kRegisterStream = 1;
constexpr int kStatusGood = 0;
constexpr int kStatusUnimplemented = 12;

}  // namespace

PluginSession::PluginSession(ContainerHandler& handler) : handler_(&handler) {
  messages::RegisterPluginRequest registration;
  registration.set_plugin_name(std::string(kPluginName));
  registration.set_plugin_idx(std::string(kPluginIndex));
  registration.set_nri_version(std::string(kNriVersion));
  messages::Request request;
  request.set_service(kRuntimeService);
  request.set_method("RegisterPlugin");
  request.set_payload(registration.SerializeAsString());
  append_message(
      {kRuntimeConnection, kRegisterStream, MessageType::kRequest, request.SerializeAsString()},
      output_);
}

PluginSession::~PluginSession() = default;

Result<void> PluginSession::handle_bytes(std::span<const std::byte> bytes) {
  std::vector<RpcMessage> complete;
  const Result<void> fed = reader_.feed(bytes, complete);
  for (const RpcMessage& message : complete) SMC_TRY(handle_message(message));
  return fed;
}

Result<void> PluginSession::handle_message(const RpcMessage& message) {
  if (message.connection == kPluginConnection && message.type == MessageType::kRequest) {
    handle_request(message);
    return {};
  }
  if (message.connection != kRuntimeConnection || message.type != MessageType::kResponse ||
      message.stream != kRegisterStream || state_ != State::kRegistering)
    return Error{Errc::kMalformed, "message that answers no request"};
  messages::Response response;
  if (!response.ParseFromString(message.payload))
    return Error{Errc::kMalformed, "response to the registration"};
  if (response.status().code() != kStatusGood)
    return Error{Errc::kPermission, "registration refused by the runtime"};
  state_ = State::kRegistered;
  return {};
}

// If the plugin answers with an error, the runtime does not create the container. So an unreadable
// request gets an answer that changes nothing.
void PluginSession::handle_request(const RpcMessage& message) {
  messages::Request request;
  const bool readable = request.ParseFromString(message.payload);
  const bool of_plugin = readable && request.service() == kPluginService;
  if (of_plugin && request.method() == "Configure")
    return respond(message, configure(request.payload()), kStatusGood, "");
  if (of_plugin && request.method() == "Synchronize")
    return respond(message, synchronize(request.payload()), kStatusGood, "");
  if (of_plugin && request.method() == "CreateContainer")
    return respond(message, create_container(request.payload()), kStatusGood, "");
  if (!readable) return respond(message, "", kStatusGood, "");
  respond(message, "", kStatusUnimplemented, "not implemented by fairlead");
}

std::string PluginSession::configure(const std::string& payload) {
  messages::ConfigureRequest request;
  if (request.ParseFromString(payload))
    runtime_ = request.runtime_name() + " " + request.runtime_version();
  messages::ConfigureResponse response;
  response.set_events(kCreateContainerEvent);
  return response.SerializeAsString();
}

std::string PluginSession::synchronize(const std::string& payload) {
  messages::SynchronizeRequest request;
  messages::SynchronizeResponse response;
  if (!request.ParseFromString(payload)) return response.SerializeAsString();
  for (const auto& pod : request.pods())
    if (synchronized_pods_.size() < kSynchronizedPodsMax)
      synchronized_pods_[pod.id()] = std::make_unique<messages::PodSandbox>(pod);
  for (const auto& container : request.containers())
    if (const auto pod = synchronized_pods_.find(container.pod_sandbox_id());
        pod != synchronized_pods_.end())
      handler_->existing_container(*pod->second, container);
  if (!request.more()) {
    synchronized_pods_.clear();
    handler_->synchronized();
  }
  response.set_more(request.more());
  return response.SerializeAsString();
}

std::string PluginSession::create_container(const std::string& payload) {
  messages::CreateContainerRequest request;
  messages::CreateContainerResponse response;
  if (!request.ParseFromString(payload)) return "";
  messages::ContainerAdjustment adjustment;
  handler_->create_container(request.pod(), request.container(), adjustment);
  if (adjustment.ByteSizeLong() != 0) *response.mutable_adjust() = std::move(adjustment);
  return response.SerializeAsString();
}

void PluginSession::respond(const RpcMessage& request, const std::string& payload, int status,
                            std::string_view why) {
  messages::Response response;
  if (status != kStatusGood) {
    response.mutable_status()->set_code(status);
    response.mutable_status()->set_message(std::string(why));
  }
  response.set_payload(payload);
  append_message(
      {kPluginConnection, request.stream, MessageType::kResponse, response.SerializeAsString()},
      output_);
}

}  // namespace fairlead::cni::node::nri
