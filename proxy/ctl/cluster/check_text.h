// Making checks, for the files that judge a cluster.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "ctl/cluster/cluster_client.h"
#include "ctl/reports.h"

namespace fairlead::ctl {

inline Check good(std::string name, std::string finding) {
  return {std::move(name), Check::Status::kOk, std::move(finding), ""};
}
inline Check doubtful(std::string name, std::string finding, std::string fix) {
  return {std::move(name), Check::Status::kWarn, std::move(finding), std::move(fix)};
}
inline Check bad(std::string name, std::string finding, std::string fix) {
  return {std::move(name), Check::Status::kFail, std::move(finding), std::move(fix)};
}

// Of a question that was not answered: rights are missing, or something else.
inline Check unanswered(std::string name, const ApiAnswer& answer) {
  return doubtful(std::move(name), "not checked: " + answer.trouble,
                  answer.denied() ? "ask for the ClusterRole in docs/check.md"
                                  : "try again; the API server did not answer this question");
}

// "a, b and 3 more"
inline std::string some_of(const std::vector<std::string>& names) {
  constexpr std::size_t kShownMax = 5;
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < kShownMax; ++i)
    text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kShownMax)
    text += " and " + std::to_string(names.size() - kShownMax) + " more";
  return text;
}

}  // namespace fairlead::ctl
