// Names and numbers that the parts of Fairlead in a Kubernetes cluster agree on: injector, CNI
// plugin, node side, chart. The chart cannot include this file; a test holds its copies against it.
#pragma once

#include <cstdint>
#include <string_view>

namespace fairlead::kubernetes {

// Every annotation and label of Fairlead is "fairlead.io/" and a name.
inline constexpr std::string_view kAnnotationPrefix = "fairlead.io/";
inline constexpr std::string_view kInjectKey =
    "fairlead.io/inject";  // on pods; label of namespaces
inline constexpr std::string_view kStatusKey = "fairlead.io/status";  // written by the injection

inline constexpr std::string_view kSidecarName = "fairlead-proxy";
// The sidecar's claim for an RDMA device, in the pod's spec.resourceClaims.
inline constexpr std::string_view kRnicClaimName = "fairlead-rnic";
// Kubernetes allows a port 15 characters.
inline constexpr std::string_view kAdminPortName = "fairlead-admin";

// The sidecar's seccomp profile: a file in a folder below the kubelet's folder of profiles.
inline constexpr std::string_view kSeccompFile = "fairlead-proxy.json";
inline constexpr std::string_view kSeccompProfile = "fairlead/fairlead-proxy.json";

// The redirect leaves out what this user sends.
inline constexpr std::uint32_t kSidecarUid = 2201;

inline constexpr std::uint16_t kOutboundPort = 4540;
inline constexpr std::uint16_t kInboundPort = 4543;
inline constexpr std::uint16_t kAdminPort = 4590;
inline constexpr std::uint16_t kWebhookPort = 9443;

// True for a name of an object, which is safe in the path of a URL and of a file: 1 to 253 of a-z,
// 0-9, "-" and ".", a letter or digit at both ends and on both sides of each ".". Source: RFC 1123.
bool is_object_name(std::string_view text);
// The same for a namespace: at most 63, without ".".
bool is_namespace_name(std::string_view text);

}  // namespace fairlead::kubernetes
