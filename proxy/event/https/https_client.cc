#include "event/https/https_client.h"

#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <event2/event.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <optional>

#include "event/http/http_server.h"
#include "event/https/http_exchange.h"
#include "event/https/openssl_handles.h"
#include "event/library_log.h"

namespace fairlead::event {
namespace {

// An encrypted key is of no use to a program that nobody talks to.
int no_password(char* /*buffer*/, int /*size*/, int /*writing*/, void* /*unused*/) { return -1; }

Result<void> trust(SSL_CTX* context, const HttpsTarget& target) {
  SSL_CTX_set_verify(context, target.verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, nullptr);
  if (!target.verify) return {};
  if (target.system_authorities) {
    SSL_CTX_set_default_verify_paths(context);
    ERR_clear_error();
    return {};
  }
  const BioHandle bio = bio_over(target.ca_pem);
  std::size_t count = 0;
  while (X509* raw = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)) {
    const X509Handle certificate(raw);
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context), certificate.get());
    ++count;
  }
  ERR_clear_error();
  if (count == 0) return Error{Errc::kMalformed, "no certificate authority in PEM", 0};
  return {};
}

Result<void> show_certificate(SSL_CTX* context, const HttpsTarget& target) {
  if (target.certificate_pem.empty()) return {};
  const BioHandle chain = bio_over(target.certificate_pem);
  const X509Handle leaf(PEM_read_bio_X509(chain.get(), nullptr, nullptr, nullptr));
  const BioHandle key_text = bio_over(target.key_pem);
  const KeyHandle key(PEM_read_bio_PrivateKey(key_text.get(), nullptr, no_password, nullptr));
  const bool good = leaf && key && SSL_CTX_use_certificate(context, leaf.get()) == 1 &&
                    SSL_CTX_use_PrivateKey(context, key.get()) == 1;
  while (X509* raw = good ? PEM_read_bio_X509(chain.get(), nullptr, nullptr, nullptr) : nullptr) {
    const X509Handle next(raw);
    SSL_CTX_add1_chain_cert(context, next.get());
  }
  ERR_clear_error();
  if (!good) return Error{Errc::kMalformed, "certificate and key of the client do not fit", 0};
  return {};
}

Result<SslContextHandle> client_context(const HttpsTarget& target) {
  SslContextHandle context(SSL_CTX_new(TLS_client_method()));
  if (!context) return Error{Errc::kExhausted, "SSL_CTX_new", 0};
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SMC_TRY(trust(context.get(), target));
  SMC_TRY(show_certificate(context.get(), target));
  return context;
}

// The server's certificate has to be for this name or address.
bool expect_name(SSL* ssl, const HttpsTarget& target) {
  X509_VERIFY_PARAM* parameters = SSL_get0_param(ssl);
  const std::string& name = target.server_name.empty() ? target.host : target.server_name;
  if (X509_VERIFY_PARAM_set1_ip_asc(parameters, name.c_str()) == 1) return true;
  if (target.server_name.empty()) return false;
  return X509_VERIFY_PARAM_set1_host(parameters, name.c_str(), name.size()) == 1 &&
         SSL_set_tlsext_host_name(ssl, name.c_str()) == 1;
}

}  // namespace

Result<HttpsReply> https_call(const HttpsTarget& target, const HttpsRequest& request,
                              Duration timeout) {
  constexpr Error kNoMemory{Errc::kExhausted, "libevent", 0};
  SslContextHandle context = SMC_TRY(client_context(target));
  SslHandle ssl(SSL_new(context.get()));
  if (!ssl || !expect_name(ssl.get(), target))
    return Error{Errc::kMalformed, "host is no numeric address", 0};
  log_library_messages();
  const HttpBaseHandle base(event_base_new());
  if (!base) return kNoMemory;
  ::bufferevent* stream = bufferevent_openssl_socket_new(
      base.get(), -1, ssl.get(), BUFFEREVENT_SSL_CONNECTING, BEV_OPT_CLOSE_ON_FREE);
  if (stream == nullptr) return kNoMemory;
  SSL_up_ref(ssl.get());  // the stream frees its own
  bufferevent_openssl_set_allow_dirty_shutdown(stream, 1);
  const TimePoint deadline = std::chrono::steady_clock::now() + timeout;
  std::optional<HttpsReply> reply =
      SMC_TRY(http_exchange(base.get(), stream, target, request, timeout));
  ERR_clear_error();
  if (reply) return std::move(*reply);
  if (std::chrono::steady_clock::now() >= deadline)
    return Error{Errc::kTimedOut, "answer of the API server", 0};
  const long verified = SSL_get_verify_result(ssl.get());
  if (target.verify && verified != X509_V_OK)
    return Error{Errc::kPermission, X509_verify_cert_error_string(verified), 0};
  return Error{Errc::kPeerGone, "the API server does not answer", 0};
}

}  // namespace fairlead::event
