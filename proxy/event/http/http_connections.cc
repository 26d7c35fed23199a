#include "event/http/http_connections.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <sys/socket.h>

#include <algorithm>
#include <mutex>

#include "event/http/libevent_time.h"

namespace fairlead::event {
namespace {

// Below this share of connections_max that wait for their request, no rate is limited.
constexpr std::size_t kPressureShare = 4;

// Connections that make room at once when descriptors are used up, and how long that takes. Many
// more may wait to be accepted, and the one that matters is behind them.
constexpr int kVictimsOfEmfile = 16;
constexpr Duration kVictimPause = std::chrono::milliseconds(1);

// libevent tells of a failed accept(2) with nothing but the listener.
std::mutex owners_mutex;
std::unordered_map<::evconnlistener*, HttpConnections*> owners;

bool released_by_evhttp(::bufferevent* stream) {
  bufferevent_data_cb on_read = nullptr;
  bufferevent_data_cb on_write = nullptr;
  bufferevent_event_cb on_event = nullptr;
  bufferevent_getcb(stream, &on_read, &on_write, &on_event, nullptr);
  // evhttp drops the read callback while it writes; the event callback stays to the end.
  return on_event == nullptr;
}

// The oldest element that `is_candidate`, of the source for which the sum of `weight` over such
// elements is largest; null when there is none.
template <class List, class Candidate, class Weight>
typename List::pointer oldest_of_heaviest(List& connections, Candidate is_candidate,
                                          Weight weight) {
  std::unordered_map<std::string_view, std::size_t> sums;
  std::size_t largest = 0;
  for (auto& connection : connections)
    if (is_candidate(connection))
      largest = std::max(largest, sums[connection.source.name] += weight(connection));
  for (auto& connection : connections)
    if (is_candidate(connection) && sums[connection.source.name] == largest) return &connection;
  return nullptr;
}

}  // namespace

Result<std::unique_ptr<HttpConnections>> HttpConnections::create(::event_base* base,
                                                                 const HttpLimits& limits,
                                                                 HttpStreamMaker make_stream,
                                                                 HttpRefusals& refusals) {
  std::unique_ptr<HttpConnections> made(
      new HttpConnections(limits, std::move(make_stream), refusals));
  made->base_ = base;
  made->sweep_event_.reset(event_new(base, -1, 0, &HttpConnections::on_sweep, made.get()));
  if (!made->sweep_event_) return Error{Errc::kExhausted, "event_new", 0};
  return made;
}

HttpConnections::~HttpConnections() {
  for (Connection& connection : connections_) released(connection);
}

void HttpConnections::add_listener(::evconnlistener* listener) {
  const std::lock_guard lock(owners_mutex);
  owners[listener] = this;
  evconnlistener_set_error_cb(listener, on_accept_error);
  listeners_.push_back(listener);
}

void HttpConnections::forget_listeners() {
  const std::lock_guard lock(owners_mutex);
  for (::evconnlistener* listener : listeners_) owners.erase(listener);
  listeners_.clear();
}

// Usually for want of descriptors. The listening socket stays readable, so going on at once would
// spin. Those that were ended give theirs back when the sweep finds them.
void HttpConnections::on_accept_error(::evconnlistener* listener, void*) {
  HttpConnections* own = owner_of(listener);
  own->identify_newest();
  if (own->ended_ == 0)
    for (int i = 0; i < kVictimsOfEmfile && own->end_one("descriptors are used up");) ++i;
  evconnlistener_disable(listener);
  const timeval pause = to_timeval(own->ended_ == 0 ? HttpServer::kAcceptPause : kVictimPause);
  event_base_once(
      own->base_, -1, EV_TIMEOUT,
      [](evutil_socket_t, short, void* paused) {
        auto* resumed = static_cast<::evconnlistener*>(paused);
        owner_of(resumed)->sweep();
        evconnlistener_enable(resumed);
      },
      listener, &pause);
}

HttpConnections* HttpConnections::owner_of(::evconnlistener* listener) {
  const std::lock_guard lock(owners_mutex);
  return owners.at(listener);
}

::bufferevent* HttpConnections::open() {
  identify_newest();
  make_room();
  ::bufferevent* stream =
      make_stream_ ? make_stream_(base_) : bufferevent_socket_new(base_, -1, BEV_OPT_CLOSE_ON_FREE);
  if (stream == nullptr) return nullptr;
  bufferevent_incref(stream);
  connections_.push_back({.table = this,
                          .stream = stream,
                          .accepted = std::chrono::steady_clock::now(),
                          .source = {}});
  evbuffer_add_cb(bufferevent_get_input(stream), &HttpConnections::on_input, &connections_.back());
  if (is_crowded()) set_accepting(false);
  sweep_soon();
  return stream;
}

// evhttp gives a connection its socket after open(), so the source is known a little later.
void HttpConnections::identify_newest() {
  if (connections_.empty() || connections_.back().is_identified) return;
  Connection& newest = connections_.back();
  const int fd = bufferevent_getfd(newest.stream);
  if (fd < 0) return;
  newest.source = http_source_of(fd);
  newest.is_identified = true;
  const bool has_share = has_token(newest.source.name, newest.accepted);
  const std::size_t waiting = connections_.size() - ended_ - delivered_;
  if (!has_share && waiting > limits_.connections_max / kPressureShare)
    end(newest, HttpRefusal::kRate, "the source opens connections faster than it may");
}

// With connections_per_second a second, and twice as many at once.
bool HttpConnections::has_token(const std::string& source, TimePoint now) {
  if (limits_.connections_per_second == 0) return true;
  const double rate = limits_.connections_per_second;
  if (buckets_.size() >= kBucketsMax && !buckets_.contains(source)) {
    // A bucket that had time to fill up tells nothing.
    std::erase_if(buckets_, [now](const auto& entry) {
      return now - entry.second.filled > std::chrono::seconds(2);
    });
    if (buckets_.size() >= kBucketsMax) buckets_.clear();
  }
  Bucket& bucket = buckets_.try_emplace(source, Bucket{2 * rate, now}).first->second;
  const double seconds = std::chrono::duration<double>(now - bucket.filled).count();
  bucket.tokens = std::min(2 * rate, bucket.tokens + seconds * rate);
  bucket.filled = now;
  if (bucket.tokens < 1) return false;
  bucket.tokens -= 1;
  return true;
}

void HttpConnections::make_room() {
  while (connections_.size() - ended_ >= limits_.connections_max)
    if (!end_one("too many connections at once")) return;
}

bool HttpConnections::end_one(std::string_view why) {
  const auto one = [](const Connection&) { return std::size_t{1}; };
  Connection* victim = oldest_of_heaviest(
      connections_, [](const Connection& c) { return !c.is_ended && !c.is_delivered; }, one);
  if (victim == nullptr)
    victim = oldest_of_heaviest(
        connections_, [](const Connection& c) { return !c.is_ended; }, one);
  if (victim == nullptr) return false;
  end(*victim, HttpRefusal::kCrowded, why);
  return true;
}

void HttpConnections::make_memory(const Connection* spared) {
  while (held_ > limits_.held_bytes_max) {
    Connection* victim = oldest_of_heaviest(
        connections_,
        [spared](const Connection& c) { return !c.is_ended && c.held > 0 && &c != spared; },
        [](const Connection& c) { return c.held; });
    // One connection alone may exceed the limit: the largest answer must reach its reader.
    if (victim == nullptr) return;
    end(*victim, HttpRefusal::kMemory, "requests and unread answers hold too much memory");
  }
}

void HttpConnections::end(Connection& connection, HttpRefusal reason, std::string_view what) {
  refusals_.add(reason, connection.source.name, what);
  hold(connection, 0);
  if (connection.is_delivered) --delivered_;
  connection.is_ended = true;
  ++ended_;
  ::shutdown(bufferevent_getfd(connection.stream), SHUT_RDWR);
}

void HttpConnections::hold(Connection& connection, std::size_t bytes) {
  held_ += bytes;
  held_ -= connection.held;
  connection.held = bytes;
}

HttpConnections::Connection* HttpConnections::find(::bufferevent* stream) {
  const auto found = std::find_if(connections_.begin(), connections_.end(),
                                  [stream](const Connection& c) { return c.stream == stream; });
  return found == connections_.end() ? nullptr : &*found;
}

HttpSource HttpConnections::delivered(::bufferevent* stream) {
  identify_newest();
  Connection* connection = find(stream);
  if (connection == nullptr) return http_source_of(bufferevent_getfd(stream));
  hold(*connection, 0);
  if (!connection->is_delivered && !connection->is_ended) ++delivered_;
  connection->is_delivered = true;
  return connection->source;
}

void HttpConnections::answering(::bufferevent* stream, std::size_t bytes) {
  Connection* connection = find(stream);
  if (connection == nullptr || connection->is_ended) return;
  hold(*connection, bytes);
  make_memory(connection);
}

void HttpConnections::received(Connection& connection, std::size_t bytes) {
  if (connection.is_ended) return;
  if (!connection.is_delivered) {
    hold(connection, connection.held + bytes);
    return make_memory(nullptr);
  }
  // evhttp goes on to read while it writes, without limit.
  connection.received += bytes;
  if (connection.received > limits_.header_bytes_max)
    end(connection, HttpRefusal::kBadRequest, "the client sends on behind its request");
}

void HttpConnections::released(Connection& connection) {
  if (connection.is_ended) {
    --ended_;
  } else if (connection.is_delivered) {
    --delivered_;
  } else if (connection.held > 0) {
    refusals_.add(HttpRefusal::kBadRequest, connection.source.name,
                  "no complete request of allowed form and size came");
  }
  hold(connection, 0);
  evbuffer_remove_cb(bufferevent_get_input(connection.stream), &HttpConnections::on_input,
                     &connection);
  bufferevent_decref(connection.stream);
}

void HttpConnections::sweep_later() {
  if (event_pending(sweep_event_.get(), EV_TIMEOUT, nullptr) != 0) return;
  const timeval interval = to_timeval(HttpServer::kSweepInterval);
  event_add(sweep_event_.get(), &interval);
}

void HttpConnections::sweep_soon() {
  const timeval now{};
  event_add(sweep_event_.get(), &now);
}

void HttpConnections::sweep() {
  identify_newest();
  const TimePoint now = std::chrono::steady_clock::now();
  std::erase_if(connections_, [this, now](Connection& connection) {
    if (released_by_evhttp(connection.stream)) {
      released(connection);
      return true;
    }
    if (connection.is_ended) return false;
    const Duration age = now - connection.accepted;
    if (!connection.is_delivered && age >= limits_.request_max)
      end(connection, HttpRefusal::kSlowRequest, "the request did not come in time");
    else if (age >= limits_.connection_max)
      end(connection, HttpRefusal::kSlowReader, "the answer was not read in time");
    return false;
  });
  if (!is_crowded()) set_accepting(true);
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

void HttpConnections::on_input(::evbuffer*, const ::evbuffer_cb_info* info, void* connection) {
  auto& own = *static_cast<Connection*>(connection);
  if (info->n_added > 0) own.table->received(own, info->n_added);
}

}  // namespace fairlead::event
