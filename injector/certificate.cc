#include "injector/certificate.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <cstdint>
#include <ctime>

#include "base/linux/handle.h"
#include "event/https/openssl_handles.h"

namespace fairlead::injector {
namespace {

using event::bio_over;
using event::BioHandle;
using event::KeyHandle;
using event::X509Handle;
using ExtensionHandle = Handle<X509_EXTENSION, X509_EXTENSION_free>;

constexpr Error kRefused{Errc::kSystem, "OpenSSL refuses to make a certificate", 0};
constexpr std::size_t kSerialBytes = 16;
constexpr long kVersion3 = 2;  // counted from 0

std::string text_in(BIO* bio) {
  char* data = nullptr;
  const long length = BIO_get_mem_data(bio, &data);
  return length > 0 ? std::string(data, static_cast<std::size_t>(length)) : std::string();
}

X509Handle certificate_from(const std::string& pem) {
  const BioHandle bio = bio_over(pem);
  X509Handle certificate(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  ERR_clear_error();
  return certificate;
}

KeyHandle key_from(const std::string& pem) {
  const BioHandle bio = bio_over(pem);
  KeyHandle key(PEM_read_bio_PrivateKey(bio.get(), nullptr, nullptr, nullptr));
  ERR_clear_error();
  return key;
}

std::string pem_of(X509* certificate) {
  const BioHandle bio(BIO_new(BIO_s_mem()));
  return PEM_write_bio_X509(bio.get(), certificate) == 1 ? text_in(bio.get()) : std::string();
}

std::string pem_of(EVP_PKEY* key) {
  const BioHandle bio(BIO_new(BIO_s_mem()));
  return PEM_write_bio_PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) == 1
             ? text_in(bio.get())
             : std::string();
}

bool add_extension(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const ExtensionHandle extension(X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()));
  return extension && X509_add_ext(certificate, extension.get(), -1) == 1;
}

bool set_random_serial(X509* certificate) {
  unsigned char bytes[kSerialBytes];
  if (RAND_bytes(bytes, sizeof bytes) != 1) return false;
  bytes[0] &= 0x7f;  // positive
  bytes[0] |= 0x40;  // and of full length
  const Handle<BIGNUM, BN_free> number(BN_bin2bn(bytes, sizeof bytes, nullptr));
  return number && BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) != nullptr;
}

bool set_times(X509* certificate, WallTime now, std::chrono::seconds lifetime) {
  const std::time_t from = std::chrono::system_clock::to_time_t(now - kBackdating);
  const std::time_t until = std::chrono::system_clock::to_time_t(now + lifetime);
  return X509_time_adj_ex(X509_getm_notBefore(certificate), 0, 0,
                          const_cast<std::time_t*>(&from)) != nullptr &&
         X509_time_adj_ex(X509_getm_notAfter(certificate), 0, 0,
                          const_cast<std::time_t*>(&until)) != nullptr;
}

// Unsigned, with subject, key, serial number and times.
X509Handle blank_certificate(EVP_PKEY* key, const std::string& subject, WallTime now,
                             std::chrono::seconds lifetime) {
  constexpr std::size_t kCommonNameCharsMax = 64;  // RFC 5280, ub-common-name
  X509Handle made(X509_new());
  if (!made || key == nullptr) return nullptr;
  const std::string name = subject.substr(0, kCommonNameCharsMax);
  const bool is_done =
      X509_set_version(made.get(), kVersion3) == 1 && set_random_serial(made.get()) &&
      set_times(made.get(), now, lifetime) && X509_set_pubkey(made.get(), key) == 1 &&
      X509_NAME_add_entry_by_txt(X509_get_subject_name(made.get()), "CN", MBSTRING_UTF8,
                                 reinterpret_cast<const unsigned char*>(name.data()),
                                 static_cast<int>(name.size()), -1, 0) == 1;
  return is_done ? std::move(made) : nullptr;
}

Result<WallTime> to_wall_time(const ASN1_TIME* time) {
  std::tm broken_down{};
  if (ASN1_TIME_to_tm(time, &broken_down) != 1)
    return Error{Errc::kMalformed, "date of a certificate", 0};
  return std::chrono::system_clock::from_time_t(::timegm(&broken_down));
}

}  // namespace

Result<KeyPair> make_authority(WallTime now, std::chrono::seconds lifetime) {
  const KeyHandle key(EVP_EC_gen("P-256"));
  // Successive authorities must have different names, because clients select them by name.
  const std::string subject =
      "fairlead-injector-ca-" + std::to_string(std::chrono::system_clock::to_time_t(now));
  const X509Handle made = blank_certificate(key.get(), subject, now, lifetime);
  if (!made || X509_set_issuer_name(made.get(), X509_get_subject_name(made.get())) != 1 ||
      !add_extension(made.get(), made.get(), NID_basic_constraints, "critical,CA:TRUE,pathlen:0") ||
      !add_extension(made.get(), made.get(), NID_key_usage, "critical,keyCertSign,cRLSign") ||
      !add_extension(made.get(), made.get(), NID_subject_key_identifier, "hash") ||
      X509_sign(made.get(), key.get(), EVP_sha256()) == 0)
    return kRefused;
  return KeyPair{pem_of(made.get()), pem_of(key.get())};
}

Result<KeyPair> make_leaf(const KeyPair& authority, const std::vector<std::string>& names,
                          WallTime now, std::chrono::seconds lifetime) {
  const X509Handle issuer = certificate_from(authority.certificate_pem);
  const KeyHandle issuer_key = key_from(authority.key_pem);
  if (!issuer || !issuer_key || names.empty())
    return Error{Errc::kMalformed, "certificate authority", 0};
  std::string alternatives;
  for (const std::string& name : names)
    alternatives += (alternatives.empty() ? "DNS:" : ",DNS:") + name;
  const KeyHandle key(EVP_EC_gen("P-256"));
  const X509Handle made = blank_certificate(key.get(), names.front(), now, lifetime);
  if (!made || X509_set_issuer_name(made.get(), X509_get_subject_name(issuer.get())) != 1 ||
      !add_extension(made.get(), issuer.get(), NID_basic_constraints, "critical,CA:FALSE") ||
      !add_extension(made.get(), issuer.get(), NID_key_usage, "critical,digitalSignature") ||
      !add_extension(made.get(), issuer.get(), NID_ext_key_usage, "serverAuth") ||
      !add_extension(made.get(), issuer.get(), NID_subject_alt_name, alternatives) ||
      !add_extension(made.get(), issuer.get(), NID_authority_key_identifier, "keyid") ||
      X509_sign(made.get(), issuer_key.get(), EVP_sha256()) == 0)
    return kRefused;
  return KeyPair{pem_of(made.get()), pem_of(key.get())};
}

Result<Validity> validity_of(const std::string& certificate_pem) {
  const X509Handle certificate = certificate_from(certificate_pem);
  if (!certificate) return Error{Errc::kMalformed, "no certificate in PEM", 0};
  return Validity{SMC_TRY(to_wall_time(X509_get0_notBefore(certificate.get()))),
                  SMC_TRY(to_wall_time(X509_get0_notAfter(certificate.get())))};
}

bool is_due(const Validity& validity, WallTime now) {
  return now >= validity.from + (validity.until - validity.from) / 3 * 2;
}

bool is_usable(const KeyPair& leaf, const std::string& authorities_pem, const std::string& name) {
  const X509Handle certificate = certificate_from(leaf.certificate_pem);
  const KeyHandle key = key_from(leaf.key_pem);
  if (!certificate || !key) return false;
  bool is_good = X509_check_private_key(certificate.get(), key.get()) == 1 &&
                 X509_check_host(certificate.get(), name.data(), name.size(), 0, nullptr) == 1;
  bool is_signed = false;
  const BioHandle bio = bio_over(authorities_pem);
  while (X509* raw = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)) {
    const X509Handle authority(raw);
    is_signed = is_signed || X509_verify(certificate.get(), X509_get0_pubkey(authority.get())) == 1;
  }
  ERR_clear_error();
  return is_good && is_signed;
}

std::string first_certificate(const std::string& pem) {
  const X509Handle certificate = certificate_from(pem);
  return certificate ? pem_of(certificate.get()) : std::string();
}

}  // namespace fairlead::injector
