#include "injector/own_certificates.h"
#include "base/linux/files.h"

namespace fairlead::injector {
namespace {

// Several replicas may start at once. One of them succeeds, the others use its certificate.
constexpr int kConflictsMax = 5;

constexpr const char* kBundleKey = "ca.crt";
constexpr const char* kAuthorityKeyKey = "ca.key";
constexpr const char* kLeafKey = "tls.crt";
constexpr const char* kLeafKeyKey = "tls.key";
constexpr std::size_t kPemBytesMax = 1 << 20;

bool is_fresh(const std::string& certificate_pem, WallTime now) {
  const auto validity = validity_of(certificate_pem);
  return validity && !is_due(*validity, now);
}

Called<std::string> text_of(const std::string& path) {
  auto text = read_file(path, kPemBytesMax);
  if (!text) return tl::unexpected(path + ": cannot be read");
  return std::move(*text);
}

}  // namespace

Called<bool> OwnCertificates::renew(std::map<std::string, std::string, std::less<>>& data,
                                    WallTime now) const {
  const std::string host = names_.service + "." + names_.name_space + ".svc";
  bool is_changed = false;
  KeyPair authority{first_certificate(data[kBundleKey]), data[kAuthorityKeyKey]};
  if (!is_fresh(authority.certificate_pem, now) ||
      !make_leaf(authority, {host}, now, kLeafLifetime)) {
    const auto made = make_authority(now);
    if (!made) return tl::unexpected(to_string(made.error()));
    // The previous authority stays in the bundle, for replicas that still serve its leaf.
    data[kBundleKey] = made->certificate_pem + authority.certificate_pem;
    data[kAuthorityKeyKey] = made->key_pem;
    authority = *made;
    is_changed = true;
  }
  const KeyPair leaf{data[kLeafKey], data[kLeafKeyKey]};
  if (is_changed || !is_fresh(leaf.certificate_pem, now) ||
      !is_usable(leaf, data[kBundleKey], host)) {
    const auto made = make_leaf(authority, {host, host + ".cluster.local"}, now);
    if (!made) return tl::unexpected(to_string(made.error()));
    data[kLeafKey] = made->certificate_pem;
    data[kLeafKeyKey] = made->key_pem;
    is_changed = true;
  }
  return is_changed;
}

Called<KeyPair> OwnCertificates::refresh(WallTime now, unsigned& renewed) {
  for (int attempt = 0; attempt < kConflictsMax; ++attempt) {
    auto secret = SMC_TRY(cluster_.read_secret(names_.name_space, names_.secret));
    const auto changed = SMC_TRY(renew(secret.data, now));
    if (changed) {
      const auto replaced = SMC_TRY(cluster_.replace_secret(secret));
      if (!replaced) continue;
      ++renewed;
    }
    SMC_TRY(cluster_.set_ca_bundle(names_.configuration, secret.data[kBundleKey]));
    return KeyPair{secret.data[kLeafKey], secret.data[kLeafKeyKey]};
  }
  return tl::unexpected("the Secret " + names_.secret + " is changed by others all the time");
}

Called<KeyPair> read_certificate_files(const std::string& folder) {
  const auto certificate = SMC_TRY(text_of(folder + "/" + kLeafKey));
  const auto key = SMC_TRY(text_of(folder + "/" + kLeafKeyKey));
  return KeyPair{certificate, key};
}

}  // namespace fairlead::injector
