// The decoder of admission reviews, and the decision. Any input leads to an answer or an error
// sentence, and applying a patch gives an injected pod.
#include <cstdint>
#include <string_view>

#include "base/assert.h"
#include "fuzz/reached.h"
#include "injector/review.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace fairlead::injector;
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  const auto review = decode_review(body);
  if (!review) {
    SMC_ASSERT(review.error().find("allowed") != std::string::npos);
    fairlead::fuzz::reached_refusal(review.error().substr(0, review.error().find(':')));
    return 0;
  }
  Settings settings;
  settings.image = "i";
  for (const bool namespace_opted_in : {false, true}) {
    const Decision decision = decide(review->pod, settings, namespace_opted_in);
    fairlead::fuzz::reached(to_string(decision.outcome));
    SMC_ASSERT(!encode_answer(*review, decision).empty());
    SMC_ASSERT(decision.patch.empty() == (decision.outcome != Outcome::kInjected &&
                                          decision.outcome != Outcome::kMovedFirst));
    if (decision.patch.empty()) continue;
    const Json patched = review->pod.patch(decision.patch);
    const Decision again = decide(patched, settings, namespace_opted_in);
    SMC_ASSERT(again.outcome == Outcome::kAlreadyInjected);
  }
  (void)subject_of(*review);
  return 0;
}
