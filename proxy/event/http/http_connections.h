// The connections of one evhttp: how many there are, whose, since when, and what they hold. evhttp
// keeps its list to itself and knows no limit, so each connection's bufferevent is made here with
// one extra reference. When evhttp lets go of it, its callbacks are gone, which the sweep sees;
// dropping the reference then closes the socket.
//
// The server always accepts. At connections_max a new connection ends an old one: the oldest that
// has not delivered its request, of the source with the most such connections. A prober that sends
// its request at once therefore gets its answer however many others are slow. Within one turn of
// the loop kEndingMax connections may exist beyond the limit, because evhttp frees them a turn
// later. The same happens when accept(2) finds no descriptor.
//
// A connection is ended by shutdown(2): evhttp must free what is its own, and it does so when the
// socket ends, whatever it waits for. Private to http_server.cc. Server's thread only.
#pragma once

#include <cstddef>
#include <list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/time.h"
#include "event/http/http_refusals.h"
#include "event/http/http_server.h"
#include "event/http/http_source.h"

struct bufferevent;
struct evbuffer;
struct evbuffer_cb_info;
struct evconnlistener;
struct event_base;

namespace fairlead::event {

class HttpConnections {
 public:
  static constexpr std::size_t kEndingMax = 64;
  static constexpr std::size_t kBucketsMax = 1024;  // sources whose rate is known

  // `refusals` outlives this object.
  static Result<std::unique_ptr<HttpConnections>> create(::event_base* base,
                                                         const HttpLimits& limits,
                                                         HttpStreamMaker make_stream,
                                                         HttpRefusals& refusals);
  // REQUIRES: evhttp was freed before, so that no connection is in use.
  ~HttpConnections();

  // Not owned: evhttp frees it, before this object dies.
  void add_listener(::evconnlistener* listener);
  // To be called when evhttp goes, because its listeners go with it.
  void forget_listeners();

  // evhttp's hook: makes the bufferevent for the connection that was just accepted. On lack of
  // memory null, and evhttp makes one that is not counted.
  ::bufferevent* open();

  // The request of this connection is complete. Returns whose it is.
  HttpSource delivered(::bufferevent* stream);
  // An answer of so many bytes is about to be sent. Other connections may be ended to make room.
  void answering(::bufferevent* stream, std::size_t bytes);

  // Looks for connections that evhttp gave up in the present turn of the loop, at the turn's end.
  void sweep_soon();

 private:
  struct Connection {
    HttpConnections* table;
    ::bufferevent* stream;  // holds one reference
    TimePoint accepted;
    HttpSource source;
    std::size_t held = 0;      // bytes of the request so far, then of the answer
    std::size_t received = 0;  // bytes since the request was complete
    bool is_identified = false;
    bool is_delivered = false;
    bool is_ended = false;
  };
  struct Bucket {
    double tokens;
    TimePoint filled;
  };

  HttpConnections(const HttpLimits& limits, HttpStreamMaker make_stream, HttpRefusals& refusals)
      : limits_(limits), make_stream_(std::move(make_stream)), refusals_(refusals) {}

  void identify_newest();
  bool has_token(const std::string& source, TimePoint now);
  void make_room();
  // False when there is nobody to be ended.
  bool end_one(std::string_view why);
  void make_memory(const Connection* spared);
  void end(Connection& connection, HttpRefusal reason, std::string_view what);
  void hold(Connection& connection, std::size_t bytes);
  void released(Connection& connection);
  Connection* find(::bufferevent* stream);
  void received(Connection& connection, std::size_t bytes);

  void sweep();
  void sweep_later();
  bool is_crowded() const { return connections_.size() >= limits_.connections_max + kEndingMax; }
  void set_accepting(bool accepting);
  static HttpConnections* owner_of(::evconnlistener* listener);
  static void on_accept_error(::evconnlistener* listener, void*);
  static void on_sweep(int fd, short what, void* self) noexcept;
  static void on_input(::evbuffer* buffer, const ::evbuffer_cb_info* info, void* connection);

  HttpLimits limits_;
  HttpStreamMaker make_stream_;
  HttpRefusals& refusals_;
  ::event_base* base_ = nullptr;
  HttpEventHandle sweep_event_;
  std::list<Connection> connections_;  // oldest first
  std::size_t ended_ = 0;              // of them, is_ended
  std::size_t delivered_ = 0;          // of them, is_delivered and not is_ended
  std::size_t held_ = 0;               // bytes, of those that are not ended
  std::unordered_map<std::string, Bucket> buckets_;
  std::vector<::evconnlistener*> listeners_;
};

}  // namespace fairlead::event
