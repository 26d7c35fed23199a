#include "event/http/http_connections.h"

#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <sys/socket.h>

#include <algorithm>

#include "event/http/libevent_time.h"

namespace fairlead::event {
namespace {

bool released_by_evhttp(::bufferevent* stream) {
  bufferevent_data_cb on_read = nullptr;
  bufferevent_data_cb on_write = nullptr;
  bufferevent_event_cb on_event = nullptr;
  bufferevent_getcb(stream, &on_read, &on_write, &on_event, nullptr);
  // evhttp drops the read callback while it writes; the event callback stays to the end.
  return on_event == nullptr;
}

// accept(2) failed, usually for want of descriptors. The listening socket stays readable, so going
// on at once would spin; waiting lets connections end.
void on_accept_error(::evconnlistener* listener, void*) {
  evconnlistener_disable(listener);
  const timeval pause = to_timeval(HttpServer::kAcceptPause);
  event_base_once(
      evconnlistener_get_base(listener), -1, EV_TIMEOUT,
      [](evutil_socket_t, short, void* paused) {
        evconnlistener_enable(static_cast<::evconnlistener*>(paused));
      },
      listener, &pause);
}

}  // namespace

Result<std::unique_ptr<HttpConnections>> HttpConnections::create(::event_base* base,
                                                                 const HttpLimits& limits,
                                                                 HttpStreamMaker make_stream) {
  std::unique_ptr<HttpConnections> made(new HttpConnections(limits, std::move(make_stream)));
  made->base_ = base;
  made->sweep_event_.reset(event_new(base, -1, 0, &HttpConnections::on_sweep, made.get()));
  if (!made->sweep_event_) return Error{Errc::kExhausted, "event_new", 0};
  return made;
}

HttpConnections::~HttpConnections() {
  for (const Connection& connection : connections_) bufferevent_decref(connection.stream);
}

void HttpConnections::add_listener(::evconnlistener* listener) {
  evconnlistener_set_error_cb(listener, on_accept_error);
  listeners_.push_back(listener);
}

::bufferevent* HttpConnections::open() {
  ::bufferevent* stream =
      make_stream_ ? make_stream_(base_) : bufferevent_socket_new(base_, -1, BEV_OPT_CLOSE_ON_FREE);
  if (stream == nullptr) return nullptr;
  bufferevent_incref(stream);
  connections_.push_back({stream, std::chrono::steady_clock::now() + limits_.connection_max});
  if (is_full()) set_accepting(false);
  if (is_full() || event_pending(sweep_event_.get(), EV_TIMEOUT, nullptr) == 0) sweep_later();
  return stream;
}

void HttpConnections::sweep_later() {
  const timeval interval =
      to_timeval(is_full() ? HttpServer::kSweepIntervalFull : HttpServer::kSweepInterval);
  event_add(sweep_event_.get(), &interval);
}

void HttpConnections::sweep_soon() {
  const timeval now{};
  event_add(sweep_event_.get(), &now);
}

void HttpConnections::sweep() {
  const TimePoint now = std::chrono::steady_clock::now();
  std::erase_if(connections_, [now](Connection& connection) {
    if (released_by_evhttp(connection.stream)) {
      bufferevent_decref(connection.stream);
      return true;
    }
    // evhttp must free what is its own: an ended socket makes it do so, whatever it waits for.
    if (now >= connection.deadline) ::shutdown(bufferevent_getfd(connection.stream), SHUT_RDWR);
    return false;
  });
  if (!is_full()) set_accepting(true);
  if (!connections_.empty()) sweep_later();
}

void HttpConnections::set_accepting(bool accepting) {
  for (::evconnlistener* listener : listeners_) {
    if (accepting)
      evconnlistener_enable(listener);
    else
      evconnlistener_disable(listener);
  }
}

void HttpConnections::on_sweep(int, short, void* self) noexcept {
  static_cast<HttpConnections*>(self)->sweep();
}

}  // namespace fairlead::event
