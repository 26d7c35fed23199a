#include "event/https/http_exchange.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <utility>

#include "base/linux/handle.h"
#include "event/http/libevent_time.h"

namespace fairlead::event {
namespace {

using StreamHandle = Handle<::bufferevent, bufferevent_free>;
using ConnectionHandle = Handle<::evhttp_connection, evhttp_connection_free>;

struct Exchange {
  ::event_base* base;
  std::size_t bytes_max;
  bool too_long = false;  // for libevent, which drops what it holds of the body
  HttpsReply arrived{};   // so far
  std::optional<HttpsReply> reply{};
};

void take_part(::evhttp_request* request, Exchange& exchange) {
  HttpsReply& arrived = exchange.arrived;
  ::evbuffer* part = evhttp_request_get_input_buffer(request);
  const std::size_t before = arrived.body.size();
  const std::size_t size = std::min(evbuffer_get_length(part), exchange.bytes_max - before);
  arrived.body.resize(before + size);
  evbuffer_remove(part, arrived.body.data() + before, size);
  if (evbuffer_get_length(part) > 0) arrived.cut = true;
}

// Status and announced length are known before libevent looks at the body.
int on_headers(::evhttp_request* request, void* argument) {
  HttpsReply& arrived = static_cast<Exchange*>(argument)->arrived;
  arrived.status = evhttp_request_get_response_code(request);
  const char* length =
      evhttp_find_header(evhttp_request_get_input_headers(request), "Content-Length");
  if (length != nullptr) arrived.length = length;
  return 0;
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
  if (arrived.body.size() >= kHttpsBeginningBytes && exceeds(arrived.length, exchange.bytes_max))
    arrived.cut = true;
  if (!arrived.cut) return;
  exchange.reply = std::move(arrived);
  event_base_loopbreak(exchange.base);
}

void on_error(evhttp_request_error error, void* argument) {
  if (error == EVREQ_HTTP_DATA_TOO_LONG) static_cast<Exchange*>(argument)->too_long = true;
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
  evhttp_request_set_header_cb(raw, on_headers);
  evhttp_request_set_chunked_cb(raw, on_part);
  evhttp_request_set_error_cb(raw, on_error);
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

Result<std::optional<HttpsReply>> http_exchange(::event_base* base, ::bufferevent* stream,
                                                const HttpsTarget& target,
                                                const HttpsRequest& request, Duration timeout) {
  constexpr Error kNoMemory{Errc::kExhausted, "libevent", 0};
  StreamHandle owned(stream);
  const auto method = method_of(request.method);
  if (!method) return Error{Errc::kMalformed, "method", 0};
  // Outlives the connection, which may still know the request.
  Exchange exchange{base, request.reply_bytes_max};
  const ConnectionHandle connection(evhttp_connection_base_bufferevent_new(
      base, nullptr, stream, target.host.c_str(), target.port));
  if (!connection) return kNoMemory;
  (void)owned.release();  // the connection frees it
  // A chunk is only told when it is there as a whole.
  const std::size_t most = request.accept_beginning
                               ? std::max(request.reply_bytes_max, kHttpsBufferedBytesMax)
                               : request.reply_bytes_max;
  evhttp_connection_set_max_body_size(connection.get(), static_cast<ev_ssize_t>(most));
  ::evhttp_request* raw = make_request(target, request, exchange);
  if (raw == nullptr) return kNoMemory;
  // From here on the connection owns the request, also when this fails.
  if (evhttp_make_request(connection.get(), raw, *method, request.path.c_str()) != 0)
    return Error{Errc::kPeerGone, "no connection to the API server", 0};
  const timeval limit = to_timeval(timeout);
  event_base_loopexit(base, &limit);
  event_base_dispatch(base);
  if (!exchange.reply && exchange.too_long) {
    exchange.arrived.cut = true;
    exchange.reply = std::move(exchange.arrived);
  }
  if (exchange.reply && exchange.reply->cut && !request.accept_beginning)
    return Error{Errc::kExhausted, "the answer of the API server is too long", 0};
  return std::move(exchange.reply);
}

}  // namespace fairlead::event
