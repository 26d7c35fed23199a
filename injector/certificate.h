// Self-managed certificates: an authority, and a leaf for the webhook's name in the cluster. ECDSA
// P-256, SHA-256. Needs OpenSSL and its random numbers, nothing else.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/result.h"

namespace fairlead::injector {

using WallTime = std::chrono::system_clock::time_point;

// Tolerates different clocks in a cluster.
inline constexpr std::chrono::hours kBackdating{1};
inline constexpr std::chrono::hours kLeafLifetime{90 * 24};
inline constexpr std::chrono::hours kAuthorityLifetime{10 * 365 * 24};

struct KeyPair {
  std::string certificate_pem;
  std::string key_pem;
};

struct Validity {
  WallTime from;
  WallTime until;
};

Result<KeyPair> make_authority(WallTime now, std::chrono::seconds lifetime = kAuthorityLifetime);
// `names`: DNS names, the first one is the subject too.
Result<KeyPair> make_leaf(const KeyPair& authority, const std::vector<std::string>& names,
                          WallTime now, std::chrono::seconds lifetime = kLeafLifetime);

// Of the first certificate in the text. Errors: kMalformed.
Result<Validity> validity_of(const std::string& certificate_pem);
// True after two thirds of the lifetime, which leaves a month to notice a failed renewal.
bool is_due(const Validity& validity, WallTime now);
// True if the leaf is signed by one of the authorities, is for `name`, and matches the key. Does
// not check the dates.
bool is_usable(const KeyPair& leaf, const std::string& authorities_pem, const std::string& name);
// The first certificate of a text with several, "" if there is none.
std::string first_certificate(const std::string& pem);

}  // namespace fairlead::injector
