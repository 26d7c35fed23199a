#include "event/http/http_server.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/assert.h"
#include "event/http/http_connections.h"
#include "event/http/http_listener.h"
#include "event/http/http_status.h"
#include "event/http/libevent_time.h"
#include "event/library_log.h"

namespace fairlead::event {
namespace {

// Every method that evhttp can read, so that the answer to a wrong one is the handler's and not
// HTML.
constexpr std::uint16_t kAllMethods = EVHTTP_REQ_GET | EVHTTP_REQ_POST | EVHTTP_REQ_HEAD |
                                      EVHTTP_REQ_PUT | EVHTTP_REQ_DELETE | EVHTTP_REQ_OPTIONS |
                                      EVHTTP_REQ_TRACE | EVHTTP_REQ_CONNECT | EVHTTP_REQ_PATCH;

const char* method_name(evhttp_cmd_type method) {
  switch (method) {
    case EVHTTP_REQ_GET:
      return "GET";
    case EVHTTP_REQ_POST:
      return "POST";
    case EVHTTP_REQ_HEAD:
      return "HEAD";
    case EVHTTP_REQ_PUT:
      return "PUT";
    case EVHTTP_REQ_DELETE:
      return "DELETE";
    case EVHTTP_REQ_OPTIONS:
      return "OPTIONS";
    case EVHTTP_REQ_TRACE:
      return "TRACE";
    case EVHTTP_REQ_CONNECT:
      return "CONNECT";
    case EVHTTP_REQ_PATCH:
      return "PATCH";
  }
  return "";
}

void read_query(const char* text, HttpRequest& request) {
  if (text == nullptr || *text == '\0') return;
  evkeyvalq pairs{};
  if (evhttp_parse_query_str(text, &pairs) != 0) {
    request.query_malformed = true;
    return;
  }
  for (const evkeyval* pair = pairs.tqh_first; pair != nullptr; pair = pair->next.tqe_next)
    request.query.emplace_back(pair->key, pair->value);
  evhttp_clear_headers(&pairs);
}

::bufferevent* stream_of(::evhttp_request* raw) {
  ::evhttp_connection* connection = evhttp_request_get_connection(raw);
  return connection == nullptr ? nullptr : evhttp_connection_get_bufferevent(connection);
}

HttpRequest read_request(::evhttp_request* raw) {
  HttpRequest request;
  request.method = method_name(evhttp_request_get_command(raw));
  const evhttp_uri* uri = evhttp_request_get_evhttp_uri(raw);
  const char* path = evhttp_uri_get_path(uri);
  request.path = path == nullptr || *path == '\0' ? "/" : path;
  read_query(evhttp_uri_get_query(uri), request);
  evbuffer* body = evhttp_request_get_input_buffer(raw);
  request.body.resize(evbuffer_get_length(body));
  evbuffer_remove(body, request.body.data(), request.body.size());
  return request;
}

}  // namespace

struct HttpTimer::State {
  std::function<void()> callback;
  HttpEventHandle event;
};

HttpTimer::HttpTimer() noexcept = default;
HttpTimer::HttpTimer(HttpTimer&&) noexcept = default;
HttpTimer& HttpTimer::operator=(HttpTimer&&) noexcept = default;
HttpTimer::~HttpTimer() = default;

void HttpTimer::on_due(int, short, void* state) noexcept {
  // The callback may destroy its timer, and with it the function object.
  const auto callback = std::move(static_cast<State*>(state)->callback);
  callback();
}

HttpExchange::HttpExchange(HttpServer& server, HttpConnections& connections, ::evhttp_request* raw,
                           HttpRequest request)
    : server_(&server), connections_(&connections), raw_(raw), request_(std::move(request)) {
  ++server_->exchanges_;
}

HttpExchange::HttpExchange(HttpExchange&& other) noexcept
    : server_(other.server_),
      connections_(other.connections_),
      raw_(std::exchange(other.raw_, nullptr)),
      request_(std::move(other.request_)) {}

HttpExchange& HttpExchange::operator=(HttpExchange&& other) noexcept {
  if (this != &other) {
    answer_if_pending();
    server_ = other.server_;
    connections_ = other.connections_;
    raw_ = std::exchange(other.raw_, nullptr);
    request_ = std::move(other.request_);
  }
  return *this;
}

HttpExchange::~HttpExchange() { answer_if_pending(); }

void HttpExchange::answer_if_pending() noexcept {
  if (raw_ != nullptr)
    respond({.status = http_status::kInternalServerError, .body = "the request was dropped\n"});
}

void HttpExchange::respond(const HttpResponse& response) {
  SMC_ASSERT(raw_ != nullptr);
  ::evhttp_request* raw = std::exchange(raw_, nullptr);
  --server_->exchanges_;
  evkeyvalq* headers = evhttp_request_get_output_headers(raw);
  evhttp_add_header(headers, "Content-Type", response.content_type.c_str());
  evhttp_add_header(headers, "Connection", "close");
  for (const auto& [name, value] : response.headers)
    evhttp_add_header(headers, name.c_str(), value.c_str());
  evbuffer_add(evhttp_request_get_output_buffer(raw), response.body.data(), response.body.size());
  // None when the client has gone while the request waited.
  if (::bufferevent* stream = stream_of(raw)) connections_->answering(stream, response.body.size());
  evhttp_request_set_on_complete_cb(
      raw,
      [](::evhttp_request*, void* connections) {
        static_cast<HttpConnections*>(connections)->sweep_soon();
      },
      connections_);
  evhttp_send_reply(raw, response.status, nullptr, nullptr);
}

void HttpExchange::note_refusal(HttpRefusal reason, std::string_view what) {
  server_->refusals_->add(reason, request_.source, what);
}

HttpServer::HttpServer(const HttpLimits& limits, Handler handler, HttpRefusals* refusals)
    : limits_(limits),
      handler_(std::move(handler)),
      refusals_(refusals != nullptr ? refusals : &own_refusals_) {}

Result<std::unique_ptr<HttpServer>> HttpServer::create(const HttpLimits& limits, Handler handler,
                                                       HttpStreamMaker make_stream,
                                                       HttpRefusals* refusals) {
  std::unique_ptr<HttpServer> server(new HttpServer(limits, std::move(handler), refusals));
  SMC_TRY(server->open(make_stream));
  return server;
}

Result<void> HttpServer::open(const HttpStreamMaker& make_stream) {
  constexpr Error kNoMemory{Errc::kExhausted, "libevent", 0};
  log_library_messages();
  wake_ = SMC_TRY(EventDescriptor::create());
  base_.reset(event_base_new());
  if (!base_) return kNoMemory;
  wake_event_.reset(
      event_new(base_.get(), wake_.get(), EV_READ | EV_PERSIST, &HttpServer::on_wake, this));
  if (!wake_event_ || event_add(wake_event_.get(), nullptr) != 0) return kNoMemory;
  SMC_TRY(open_front(tcp_, make_stream));
  return open_front(unix_, make_stream);
}

Result<void> HttpServer::open_front(Front& front, const HttpStreamMaker& make_stream) {
  front.server = this;
  front.connections =
      SMC_TRY(HttpConnections::create(base_.get(), limits_, make_stream, *refusals_));
  front.http.reset(evhttp_new(base_.get()));
  if (!front.http) return Error{Errc::kExhausted, "evhttp_new", 0};
  ::evhttp* http = front.http.get();
  evhttp_set_bevcb(
      http,
      [](::event_base*, void* connections) {
        return static_cast<HttpConnections*>(connections)->open();
      },
      front.connections.get());
  evhttp_set_gencb(http, &HttpServer::on_request, &front);
  evhttp_set_allowed_methods(http, kAllMethods);
  evhttp_set_max_headers_size(http, static_cast<ev_ssize_t>(limits_.header_bytes_max));
  evhttp_set_max_body_size(http, static_cast<ev_ssize_t>(limits_.body_bytes_max));
  const timeval idle = to_timeval(limits_.idle_max);
  evhttp_set_timeout_tv(http, &idle);
  return {};
}

HttpServer::~HttpServer() {
  stop();
  SMC_ASSERT(exchanges_ == 0, exchanges_);
  for (Front* front : {&tcp_, &unix_}) {
    if (front->connections) front->connections->forget_listeners();
    front->http.reset();
  }
  for (const std::string& path : socket_files_) ::unlink(path.c_str());
}

Result<HttpEndpoint> HttpServer::listen(const HttpEndpoint& endpoint) {
  FileDescriptor fd = SMC_TRY(open_http_listener(endpoint));
  HttpEndpoint bound = SMC_TRY(bound_http_endpoint(endpoint, fd.get()));
  if (endpoint.is_unix_path()) socket_files_.push_back(endpoint.path());
  Front& front = endpoint.is_tcp() ? tcp_ : unix_;
  evhttp_bound_socket* socket = evhttp_accept_socket_with_handle(front.http.get(), fd.get());
  if (socket == nullptr) return Error{Errc::kExhausted, "evhttp_accept_socket", 0};
  (void)fd.release();  // evhttp's listener closes it
  front.connections->add_listener(evhttp_bound_socket_get_listener(socket));
  return bound;
}

Result<void> HttpServer::start(const char* thread_name) {
  SMC_ASSERT(!thread_.joinable());
  try {
    thread_ = std::thread([this, thread_name] {
      pthread_setname_np(pthread_self(), thread_name);
      run();
    });
  } catch (const std::system_error& error) {
    return Error{Errc::kExhausted, "thread", error.code().value()};
  }
  return {};
}

void HttpServer::run() {
  // Among them SIGPIPE: libevent writes without MSG_NOSIGNAL, and a client that has gone must not
  // end the process.
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
  event_base_dispatch(base_.get());
}

void HttpServer::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  wake_.signal();
  if (thread_.joinable()) thread_.join();
}

bool HttpServer::post(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    if (stopped_ || tasks_.size() >= kTasksMax) return false;
    tasks_.push_back(std::move(task));
  }
  wake_.signal();
  return true;
}

HttpTimer HttpServer::call_after(Duration delay, std::function<void()> callback) {
  HttpTimer timer;
  timer.state_ = std::make_unique<HttpTimer::State>();
  timer.state_->callback = std::move(callback);
  timer.state_->event.reset(event_new(base_.get(), -1, 0, &HttpTimer::on_due, timer.state_.get()));
  SMC_ASSERT(timer.state_->event != nullptr);
  const timeval due = to_timeval(delay);
  event_add(timer.state_->event.get(), &due);
  return timer;
}

void HttpServer::run_tasks() {
  std::vector<std::function<void()>> due;
  bool stopped = false;
  {
    const std::lock_guard lock(mutex_);
    due.swap(tasks_);
    stopped = stopped_;
  }
  for (const auto& task : due) task();
  if (stopped) event_base_loopbreak(base_.get());
}

void HttpServer::handle(Front& front, ::evhttp_request* raw) {
  HttpRequest request = read_request(raw);
  HttpSource source = front.connections->delivered(stream_of(raw));
  request.source = std::move(source.name);
  request.peer_uid = source.uid;
  request.over_tcp = &front == &tcp_;
  handler_(HttpExchange(*this, *front.connections, raw, std::move(request)));
}

void HttpServer::on_wake(int, short, void* server) noexcept {
  auto& self = *static_cast<HttpServer*>(server);
  (void)self.wake_.take();
  self.run_tasks();
}

void HttpServer::on_request(::evhttp_request* raw, void* front) noexcept {
  auto& own = *static_cast<Front*>(front);
  own.server->handle(own, raw);
}

}  // namespace fairlead::event
