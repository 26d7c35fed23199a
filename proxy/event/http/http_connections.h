// The connections of one HttpServer: how many there are, and since when. evhttp keeps its list to
// itself and knows no limit, so each connection's bufferevent is made here with one reference of
// our own. When evhttp lets go of it, its callbacks are gone, which the sweep sees; dropping our
// reference then closes the socket. Private to http_server.cc. Server's thread only.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "base/time.h"
#include "event/http/http_server.h"

struct bufferevent;
struct evconnlistener;
struct event_base;

namespace fairlead::event {

class HttpConnections {
 public:
  static Result<std::unique_ptr<HttpConnections>> create(::event_base* base,
                                                         const HttpLimits& limits,
                                                         HttpStreamMaker make_stream);
  // REQUIRES: evhttp was freed before, so that no connection is in use.
  ~HttpConnections();

  // Not owned: evhttp frees it, before this object dies.
  void add_listener(::evconnlistener* listener);
  // To be called when evhttp goes, because its listeners go with it.
  void forget_listeners() { listeners_.clear(); }

  // evhttp's hook: makes the bufferevent for the connection that was just accepted. On lack of
  // memory null, and evhttp makes one that is not counted.
  ::bufferevent* open();

  // Looks for connections that evhttp gave up in the present turn of the loop, at the turn's end.
  void sweep_soon();

 private:
  struct Connection {
    ::bufferevent* stream;  // one reference is ours
    TimePoint deadline;
  };

  HttpConnections(const HttpLimits& limits, HttpStreamMaker make_stream)
      : limits_(limits), make_stream_(std::move(make_stream)) {}
  void sweep();
  void sweep_later();
  bool is_full() const { return connections_.size() >= limits_.connections_max; }
  void set_accepting(bool accepting);
  static void on_sweep(int fd, short what, void* self) noexcept;

  HttpLimits limits_;
  HttpStreamMaker make_stream_;
  ::event_base* base_ = nullptr;
  HttpEventHandle sweep_event_;
  std::vector<Connection> connections_;
  std::vector<::evconnlistener*> listeners_;
};

}  // namespace fairlead::event
