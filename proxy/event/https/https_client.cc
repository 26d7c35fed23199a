#include "event/https/https_client.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <event2/event.h>
#include <event2/http.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "event/http/http_server.h"
#include "event/http/libevent_time.h"
#include "event/https/openssl_handles.h"
#include "event/library_log.h"

namespace fairlead::event {
namespace {

// An encrypted key is of no use to a program that nobody talks to.
int no_password(char* /*buffer*/, int /*size*/, int /*writing*/, void* /*unused*/) { return -1; }

using ConnectionHandle = Handle<::evhttp_connection, evhttp_connection_free>;

struct Exchange {
  ::event_base* base;
  std::size_t bytes_max;
  HttpsReply arrived{};  // so far
  std::optional<HttpsReply> reply{};
};

void take_part(::evhttp_request* request, Exchange& exchange) {
  HttpsReply& arrived = exchange.arrived;
  arrived.status = evhttp_request_get_response_code(request);
  ::evbuffer* part = evhttp_request_get_input_buffer(request);
  const std::size_t before = arrived.body.size();
  const std::size_t size = std::min(evbuffer_get_length(part), exchange.bytes_max - before);
  arrived.body.resize(before + size);
  evbuffer_remove(part, arrived.body.data() + before, size);
  if (evbuffer_get_length(part) > 0) arrived.cut = true;
}

// The length that the server has announced; nothing for an answer in chunks.
std::optional<std::string> announced(::evhttp_request* request) {
  const char* length =
      evhttp_find_header(evhttp_request_get_input_headers(request), "Content-Length");
  if (length == nullptr) return std::nullopt;
  return std::string(length);
}

bool exceeds(const std::string& length, std::size_t most) {
  std::size_t number = 0;
  const char* end = length.data() + length.size();
  const auto [rest, error] = std::from_chars(length.data(), end, number);
  return error == std::errc::result_out_of_range || (error == std::errc() && number > most);
}

// The library drains what is left of the part.
void on_part(::evhttp_request* request, void* argument) {
  auto& exchange = *static_cast<Exchange*>(argument);
  if (exchange.reply) return;
  take_part(request, exchange);
  HttpsReply& arrived = exchange.arrived;
  const std::optional<std::string> length = announced(request);
  if (length && arrived.body.size() >= kHttpsBeginningBytes && exceeds(*length, exchange.bytes_max))
    arrived.cut = true;
  if (!arrived.cut) return;
  if (length) arrived.length = *length;
  exchange.reply = std::move(arrived);
  event_base_loopbreak(exchange.base);
}

void on_done(::evhttp_request* request, void* argument) {
  auto& exchange = *static_cast<Exchange*>(argument);
  event_base_loopbreak(exchange.base);
  if (exchange.reply) return;
  // Null, or without a status, when the connection failed.
  if (request == nullptr || evhttp_request_get_response_code(request) == 0) return;
  take_part(request, exchange);
  exchange.reply = std::move(exchange.arrived);
}

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

std::optional<evhttp_cmd_type> method_of(std::string_view name) {
  if (name == "GET") return EVHTTP_REQ_GET;
  if (name == "POST") return EVHTTP_REQ_POST;
  if (name == "PUT") return EVHTTP_REQ_PUT;
  if (name == "PATCH") return EVHTTP_REQ_PATCH;
  return std::nullopt;
}

std::string host_header(const HttpsTarget& target) {
  const std::string& name = target.server_name.empty() ? target.host : target.server_name;
  const bool is_v6 = name.find(':') != std::string::npos;
  return (is_v6 ? "[" + name + "]" : name) + ":" + std::to_string(target.port);
}

::evhttp_request* make_request(const HttpsTarget& target, const HttpsRequest& request,
                               Exchange& exchange) {
  ::evhttp_request* raw = evhttp_request_new(on_done, &exchange);
  if (raw == nullptr) return nullptr;
  evhttp_request_set_chunked_cb(raw, on_part);
  evkeyvalq* headers = evhttp_request_get_output_headers(raw);
  evhttp_add_header(headers, "Host", host_header(target).c_str());
  // Nothing about closing: we close when the reply is complete. Where the server closes, libevent
  // may report the end before the reply that came with it, and the call fails.
  evhttp_add_header(headers, "Accept", request.accept.c_str());
  if (!request.bearer.empty())
    evhttp_add_header(headers, "Authorization", ("Bearer " + request.bearer).c_str());
  if (!request.content_type.empty())
    evhttp_add_header(headers, "Content-Type", request.content_type.c_str());
  // libevent adds it for POST and PUT, but not for PATCH.
  if (!request.body.empty())
    evhttp_add_header(headers, "Content-Length", std::to_string(request.body.size()).c_str());
  evbuffer_add(evhttp_request_get_output_buffer(raw), request.body.data(), request.body.size());
  return raw;
}

}  // namespace

Result<HttpsReply> https_call(const HttpsTarget& target, const HttpsRequest& request,
                              Duration timeout) {
  constexpr Error kNoMemory{Errc::kExhausted, "libevent", 0};
  const auto method = method_of(request.method);
  if (!method) return Error{Errc::kMalformed, "method", 0};
  SslContextHandle context = SMC_TRY(client_context(target));
  SslHandle ssl(SSL_new(context.get()));
  if (!ssl || !expect_name(ssl.get(), target))
    return Error{Errc::kMalformed, "host is no numeric address", 0};
  log_library_messages();
  const HttpBaseHandle base(event_base_new());
  if (!base) return kNoMemory;
  // Outlives the connection, which may still know the request.
  Exchange exchange{base.get(), request.reply_bytes_max};
  ::bufferevent* stream = bufferevent_openssl_socket_new(
      base.get(), -1, ssl.get(), BUFFEREVENT_SSL_CONNECTING, BEV_OPT_CLOSE_ON_FREE);
  if (stream == nullptr) return kNoMemory;
  SSL_up_ref(ssl.get());  // the stream frees its own
  bufferevent_openssl_set_allow_dirty_shutdown(stream, 1);
  const ConnectionHandle connection(evhttp_connection_base_bufferevent_new(
      base.get(), nullptr, stream, target.host.c_str(), target.port));
  if (!connection) return kNoMemory;
  ::evhttp_request* raw = make_request(target, request, exchange);
  if (raw == nullptr) return kNoMemory;
  // From here on the connection owns the request, also when this fails.
  if (evhttp_make_request(connection.get(), raw, *method, request.path.c_str()) != 0)
    return Error{Errc::kPeerGone, "no connection to the API server", 0};
  const timeval limit = to_timeval(timeout);
  event_base_loopexit(base.get(), &limit);
  const TimePoint deadline = std::chrono::steady_clock::now() + timeout;
  event_base_dispatch(base.get());
  ERR_clear_error();
  if (exchange.reply && exchange.reply->cut && !request.accept_beginning)
    return Error{Errc::kExhausted, "the answer of the API server is too long", 0};
  if (exchange.reply) return std::move(*exchange.reply);
  if (std::chrono::steady_clock::now() >= deadline)
    return Error{Errc::kTimedOut, "answer of the API server", 0};
  const long verified = SSL_get_verify_result(ssl.get());
  if (target.verify && verified != X509_V_OK)
    return Error{Errc::kPermission, X509_verify_cert_error_string(verified), 0};
  return Error{Errc::kPeerGone, "the API server does not answer", 0};
}

}  // namespace fairlead::event
