#include "injector/review.h"

#include <algorithm>
#include <utility>

#include "base/kubernetes_names.h"
#include "base/result.h"
#include "event/https/base64.h"

namespace fairlead::injector {
namespace {

constexpr const char* kApiVersion = "admission.k8s.io/v1";
constexpr const char* kKind = "AdmissionReview";

std::string unexpected_text(std::string_view field, const Json& value, std::string_view allowed) {
  constexpr std::size_t kShownMax = 64;
  std::string shown = value.is_structured()
                          ? value.type_name()
                          : value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (shown.size() > kShownMax) shown = shown.substr(0, kShownMax) + "...";
  return std::string(field) + ": " + shown + " is not allowed; allowed: " + std::string(allowed);
}

// False if it is a text that is too long or has characters that no name has. Otherwise `text` is
// the value, or empty where there is none.
bool read_reference(const Json& value, std::size_t chars_max, std::string& text) {
  if (!value.is_string()) return value.is_null();
  const auto& whole = value.get_ref<const std::string&>();
  if (whole.size() > chars_max) return false;
  if (!std::all_of(whole.begin(), whole.end(), [](char c) { return c > ' ' && c <= '~'; }))
    return false;
  text = whole;
  return true;
}

}  // namespace

Result<Review, std::string> decode_review(std::string_view body) {
  if (body.size() > kReviewBytesMax)
    return tl::unexpected("the body has " + std::to_string(body.size()) +
                          " bytes; allowed: " + std::to_string(kReviewBytesMax));
  auto parsed = parse_bounded_json(body);
  if (!parsed)
    return tl::unexpected("the body is " + parsed.error() + "; allowed: AdmissionReview");
  if (!parsed->is_object())
    return tl::unexpected(unexpected_text("the body", *parsed, "an AdmissionReview"));
  const auto wants = [&parsed](std::string_view field, const char* value) {
    return text_of(member(*parsed, field)) == value
               ? std::string()
               : unexpected_text(field, member(*parsed, field), value);
  };
  for (const auto& error : {wants("apiVersion", kApiVersion), wants("kind", kKind)})
    if (!error.empty()) return tl::unexpected(error);
  const Json& request = member(*parsed, "request");
  if (!request.is_object()) return tl::unexpected(unexpected_text("request", request, "an object"));
  Review review;
  review.uid = text_of(member(request, "uid"));
  if (review.uid.empty() || review.uid.size() > kUidCharsMax)
    return tl::unexpected(
        unexpected_text("request.uid", member(request, "uid"), "a string of 1 to 128 characters"));
  const Json& kind = member(request, "kind", "kind");
  if (text_of(kind) != "Pod" || text_of(member(request, "operation")) != "CREATE")
    return tl::unexpected(unexpected_text("request.kind.kind", kind, "Pod, with operation CREATE"));
  review.name_space = text_of(member(request, "namespace"));
  if (!review.name_space.empty() && !kubernetes::is_object_name(review.name_space))
    return tl::unexpected(unexpected_text("request.namespace", member(request, "namespace"),
                                          "a name of at most 253 characters"));
  review.dry_run = member(request, "dryRun") == Json(true);
  review.pod = std::move((*parsed)["request"]["object"]);
  return review;
}

std::string encode_answer(const Review& review, const Decision& decision) {
  Json response = {{"uid", review.uid}, {"allowed", true}};
  if (!decision.patch.empty()) {
    response["patchType"] = "JSONPatch";
    response["patch"] = event::base64(decision.patch.dump());
  }
  Json warnings = Json::array();
  for (const std::string& warning : decision.warnings)
    if (warnings.size() < kWarningsMax) warnings.push_back(warning.substr(0, kWarningCharsMax));
  if (!warnings.empty()) response["warnings"] = std::move(warnings);
  return Json{{"apiVersion", kApiVersion}, {"kind", kKind}, {"response", std::move(response)}}.dump(
      -1, ' ', false, Json::error_handler_t::replace);
}

Subject subject_of(const Review& review) {
  const Json& metadata = member(review.pod, "metadata");
  Subject subject;
  for (const Json& owner : items_of(member(metadata, "ownerReferences"))) {
    if (member(owner, "controller") != Json(true)) continue;
    const bool is_read =
        read_reference(member(owner, "apiVersion"), kApiVersionCharsMax, subject.api_version) &&
        read_reference(member(owner, "kind"), kKindCharsMax, subject.kind) &&
        read_reference(member(owner, "name"), kNameCharsMax, subject.name) &&
        read_reference(member(owner, "uid"), kUidCharsMax, subject.uid);
    return is_read ? subject : Subject();
  }
  if (!read_reference(member(metadata, "name"), kNameCharsMax, subject.name)) return {};
  subject.api_version = "v1";
  subject.kind = "Pod";
  return subject;
}

}  // namespace fairlead::injector
