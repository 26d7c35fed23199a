// AdmissionReview, admission.k8s.io/v1: the request of an API server as values, and the answer.
// Pure. Source: Kubernetes, "Dynamic Admission Control", section "Webhook request and response".
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "injector/bounded_json.h"
#include "injector/decision.h"

namespace fairlead::injector {

// API servers refuse objects above 3 MiB themselves; an update carries two.
inline constexpr std::size_t kReviewBytesMax = 3 << 20;
// The API server cuts a warning at 256 characters, and all of them together at 4096.
inline constexpr std::size_t kWarningCharsMax = 256;
inline constexpr std::size_t kWarningsMax = 16;

// Limits of Kubernetes for names, and for the parts of a reference to an object.
inline constexpr std::size_t kNameCharsMax = 253;
inline constexpr std::size_t kKindCharsMax = 63;
inline constexpr std::size_t kApiVersionCharsMax = kNameCharsMax + 1 + kKindCharsMax;
inline constexpr std::size_t kUidCharsMax = 128;

struct Review {
  std::string uid;         // 1 to kUidCharsMax characters
  std::string name_space;  // empty, or kubernetes::is_object_name()
  bool dry_run = false;
  Json pod;
};

// The owner of the pod, or the pod itself if it has none. Events are attached to it, because the
// pod does not exist yet. The fields are printable ASCII without blanks, within the limits above.
struct Subject {
  std::string api_version;
  std::string kind;
  std::string name;
  std::string uid;  // empty for a pod that is about to be made
};

// Error: a sentence that names the field, its value and what is allowed.
Result<Review, std::string> decode_review(std::string_view body);

// Always allows, because a pod without sidecar can use TCP. Contains the patch and warnings of the
// decision.
std::string encode_answer(const Review& review, const Decision& decision);

// All fields are empty if one of them violates the limits of Subject.
Subject subject_of(const Review& review);

}  // namespace fairlead::injector
