// A small HTTP/1.1 server for people, probes and scrapers: RAII over libevent's evhttp. It has an
// event base of its own and is run by one thread of its caller's; nothing here belongs on a data
// path.
//
// Every response closes its connection, so that a connection is one request: its time limit is then
// the limit of the whole exchange, and a client that sends a byte a second cannot stay.
//
// The server always accepts. TCP and UNIX sockets have a table of connections each, so that clients
// of one kind cannot displace those of the other. In a full table a newcomer displaces the oldest
// connection without a complete request, of the source that has the most (http_connections.h).
// What is refused is counted and logged by HttpRefusals.
//
// What evhttp finds malformed it answers itself, in HTML: 400, 413 (body or headers too long), 501
// (unknown method), 417. Everything else goes to the handler.
//
// Timers: the durations of HttpLimits, a sweep every kSweepInterval while connections exist,
// kAcceptPause after accept(2) failed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "base/linux/event_descriptor.h"
#include "base/linux/handle.h"
#include "base/result.h"
#include "base/time.h"
#include "event/http/http_endpoint.h"
#include "event/http/http_message.h"
#include "event/http/http_refusals.h"

// libevent's types stay out of the headers.
struct bufferevent;
struct event;
struct event_base;
struct evhttp;
struct evhttp_request;
extern "C" {
void event_base_free(struct event_base*);
void event_free(struct event*);
void evhttp_free(struct evhttp*);
}

namespace fairlead::event {

using HttpBaseHandle = Handle<::event_base, event_base_free>;
using HttpEventHandle = Handle<::event, event_free>;
using HttpHandle = Handle<::evhttp, evhttp_free>;

class HttpConnections;
class HttpServer;

struct HttpLimits {
  std::size_t connections_max = 256;  // over TCP, and as many over UNIX sockets
  std::size_t header_bytes_max = 8 * 1024;
  std::size_t body_bytes_max = 4 * 1024;
  // Requests that come in and answers that are not read yet, over TCP, and as many over UNIX
  // sockets. A single answer may exceed it.
  std::size_t held_bytes_max = 8 * 1024 * 1024;
  // From accept to the last byte of the request, the TLS handshake included.
  Duration request_max = std::chrono::seconds(5);
  Duration idle_max = std::chrono::seconds(5);         // without a byte in either direction
  Duration connection_max = std::chrono::seconds(20);  // from accept to the last byte of the answer
  // Of one source, enforced only while many connections wait for their request. 0: no limit.
  unsigned connections_per_second = 0;
};

// Makes the stream of a connection that was accepted, without its socket yet: null for lack of
// memory. Whoever speaks TLS brings one (event/https); without, it is plain TCP.
using HttpStreamMaker = std::function<::bufferevent*(::event_base*)>;

// A request that waits for its response. May be kept and answered later, on the server's thread and
// before the server dies. One that is dropped unanswered answers 500. A client that has gone in the
// meantime is no error.
class HttpExchange {
 public:
  HttpExchange(HttpExchange&& other) noexcept;
  HttpExchange& operator=(HttpExchange&& other) noexcept;
  ~HttpExchange();

  const HttpRequest& request() const { return request_; }
  // REQUIRES: not answered yet.
  void respond(const HttpResponse& response);
  // Counts and logs that this request is refused. REQUIRES: not answered yet.
  void note_refusal(HttpRefusal reason, std::string_view what);

 private:
  friend class HttpServer;
  HttpExchange(HttpServer& server, HttpConnections& connections, ::evhttp_request* raw,
               HttpRequest request);
  void answer_if_pending() noexcept;

  HttpServer* server_ = nullptr;
  HttpConnections* connections_ = nullptr;
  ::evhttp_request* raw_ = nullptr;
  HttpRequest request_;
};

// A call that is due later; destroying the object cancels it. Server's thread only.
class HttpTimer {
 public:
  HttpTimer() noexcept;
  HttpTimer(HttpTimer&&) noexcept;
  HttpTimer& operator=(HttpTimer&&) noexcept;
  ~HttpTimer();

 private:
  friend class HttpServer;
  struct State;
  static void on_due(int fd, short what, void* state) noexcept;
  std::unique_ptr<State> state_;
};

class HttpServer {
 public:
  using Handler = std::function<void(HttpExchange)>;

  // The handler runs on the server's thread. `refusals` outlives the server; null: the
  // server has its own.
  static Result<std::unique_ptr<HttpServer>> create(const HttpLimits& limits, Handler handler,
                                                    HttpStreamMaker make_stream = {},
                                                    HttpRefusals* refusals = nullptr);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // REQUIRES: start() was not called yet. Returns the endpoint with the port that the kernel chose,
  // if it was 0. A socket file that nobody listens on any more is replaced; files are made with
  // mode 0600.
  Result<HttpEndpoint> listen(const HttpEndpoint& endpoint);

  // Serves on a thread of this name (15 characters at most) until stop(). All signals are blocked
  // there: they are for the main thread. Errors: kExhausted without a thread.
  Result<void> start(const char* thread_name);

  // Waits for the end of the thread, if it was started. Open connections are closed when the server
  // is destroyed. After it, post() refuses. Owner's thread.
  void stop();

  // Any thread: runs `task` on the server's thread, in order. False, and nothing done, when
  // kTasksMax already wait or the server was stopped.
  bool post(std::function<void()> task);

  // Server's thread, or before start().
  HttpTimer call_after(Duration delay, std::function<void()> callback);

  // Any thread.
  const HttpRefusals& refusals() const { return *refusals_; }

  static constexpr std::size_t kTasksMax = 1024;
  static constexpr Duration kSweepInterval = std::chrono::milliseconds(100);
  static constexpr Duration kAcceptPause = std::chrono::milliseconds(100);

 private:
  friend class HttpExchange;
  // One kind of listening sockets with the connections that came by them.
  struct Front {
    HttpServer* server = nullptr;
    std::unique_ptr<HttpConnections> connections;  // must outlive http, which calls into it
    HttpHandle http;
  };

  HttpServer(const HttpLimits& limits, Handler handler, HttpRefusals* refusals);
  Result<void> open(const HttpStreamMaker& make_stream);
  Result<void> open_front(Front& front, const HttpStreamMaker& make_stream);
  void run();
  void run_tasks();
  void handle(Front& front, ::evhttp_request* raw);
  static void on_wake(int fd, short what, void* server) noexcept;
  static void on_request(::evhttp_request* raw, void* front) noexcept;

  HttpLimits limits_;
  Handler handler_;
  EventDescriptor wake_;
  HttpBaseHandle base_;
  HttpEventHandle wake_event_;
  HttpRefusals own_refusals_;
  HttpRefusals* refusals_;
  Front tcp_;
  Front unix_;
  std::vector<std::string> socket_files_;  // removed at the end
  std::size_t exchanges_ = 0;              // alive and unanswered

  std::mutex mutex_;  // guards the two below
  std::vector<std::function<void()>> tasks_;
  bool stopped_ = false;

  std::thread thread_;
};

}  // namespace fairlead::event
