// OpenSSL's objects, owned.
#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <string>

#include "base/linux/handle.h"

namespace fairlead::event {

using BioHandle = Handle<BIO, BIO_free_all>;
using KeyHandle = Handle<EVP_PKEY, EVP_PKEY_free>;
using X509Handle = Handle<X509, X509_free>;
using SslHandle = Handle<SSL, SSL_free>;
using SslContextHandle = Handle<SSL_CTX, SSL_CTX_free>;

// Reads `text`, which must live as long as the result.
inline BioHandle bio_over(const std::string& text) {
  return BioHandle(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

}  // namespace fairlead::event
