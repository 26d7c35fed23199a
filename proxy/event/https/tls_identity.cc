#include "event/https/tls_identity.h"

#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#include "event/https/openssl_handles.h"

namespace fairlead::event {
namespace {

// OpenSSL's queue of errors is per thread and would be taken for the fault of a later call.
Error refused(const char* what) {
  ERR_clear_error();
  return {Errc::kMalformed, what, 0};
}

Result<void> use_chain(SSL_CTX* context, const std::string& chain_pem) {
  const BioHandle bio = bio_over(chain_pem);
  const X509Handle leaf(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  if (!leaf) return refused("no certificate in PEM");
  if (SSL_CTX_use_certificate(context, leaf.get()) != 1)
    return refused("the certificate is unusable");
  while (X509* issuer = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr))
    if (SSL_CTX_add0_chain_cert(context, issuer) != 1) {
      X509_free(issuer);
      return refused("a certificate of the chain is unusable");
    }
  ERR_clear_error();  // the end of the text is reported as an error
  return {};
}

}  // namespace

TlsIdentity::TlsIdentity() = default;
TlsIdentity::~TlsIdentity() = default;

void TlsIdentity::Free::operator()(::ssl_ctx_st* context) const noexcept { SSL_CTX_free(context); }

Result<void> TlsIdentity::load(const std::string& chain_pem, const std::string& key_pem) {
  SslContextHandle context(SSL_CTX_new(TLS_server_method()));
  if (!context) return Error{Errc::kExhausted, "SSL_CTX_new", 0};
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  // Each connection is one request; tickets and a cache would only take memory.
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context.get(), 0);
  SSL_CTX_set_mode(context.get(), SSL_MODE_RELEASE_BUFFERS);
  SMC_TRY(use_chain(context.get(), chain_pem));
  const BioHandle bio = bio_over(key_pem);
  const KeyHandle key(PEM_read_bio_PrivateKey(bio.get(), nullptr, nullptr, nullptr));
  if (!key) return refused("no private key in PEM");
  if (SSL_CTX_use_PrivateKey(context.get(), key.get()) != 1)
    return refused("key and certificate do not belong together");
  context_.reset(context.release());
  return {};
}

HttpStreamMaker TlsIdentity::stream_maker() {
  return [this](::event_base* base) -> ::bufferevent* {
    if (!context_) return nullptr;
    SslHandle ssl(SSL_new(context_.get()));
    if (!ssl) return nullptr;
    ::bufferevent* stream = bufferevent_openssl_socket_new(
        base, -1, ssl.get(), BUFFEREVENT_SSL_ACCEPTING, BEV_OPT_CLOSE_ON_FREE);
    if (stream == nullptr) return nullptr;
    (void)ssl.release();  // the stream frees it
    // A client that ends without saying goodbye has ended all the same.
    bufferevent_openssl_set_allow_dirty_shutdown(stream, 1);
    return stream;
  };
}

}  // namespace fairlead::event
