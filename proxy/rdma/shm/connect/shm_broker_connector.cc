// long because it is one class: the socket of the broker, the ring of requests, and the stock
#include "rdma/shm/connect/shm_broker_connector.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "base/linux/descriptors.h"
#include "base/linux/peer_credentials.h"
#include "rdma/shm/channel/shm_channel_memory.h"
#include "rdma/shm/shm_limits.h"

namespace fairlead::rdma::shm {
namespace {

using broker::Message;
using broker::Request;
using Kind = broker::Message::Kind;
using Trigger = FdWatcher::Trigger;

constexpr int kBacklog = 4;

TimePoint now_() { return std::chrono::steady_clock::now(); }

const char* refused_because(broker::Refusal refusal) {
  if (refusal == broker::Refusal::kTaken) return "the broker refuses us: our peer id is taken";
  if (refusal == broker::Refusal::kLimit)
    return "the broker refuses us: too many devices of our pod";
  return "the broker refuses us";
}

void wait_readable(std::initializer_list<int> fds, Duration limit) {
  pollfd waiting[2] = {};
  nfds_t count = 0;
  for (const int fd : fds) waiting[count++] = {fd, POLLIN, 0};
  const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(limit).count();
  (void)::poll(waiting, count, static_cast<int>(milliseconds));
}

}  // namespace

Result<std::unique_ptr<BrokerConnector>> BrokerConnector::open(const std::string& name, PeerId self,
                                                               std::uint32_t broker_uid) {
  std::unique_ptr<BrokerConnector> connector(new BrokerConnector(self, broker_uid));
  SMC_TRY(connector->listen(name));
  return connector;
}

BrokerConnector::~BrokerConnector() { (void)set_watcher(nullptr); }

Result<void> BrokerConnector::listen(const std::string& name) {
  for (unsigned index = 0; index <= broker::kSocketIndexMax; ++index) {
    const auto address = UnixAddress::parse(name + "-" + std::to_string(index));
    if (!address) return Error{Errc::kUnsupported, "name of the broker's socket"};
    auto opened = UnixListener::open(
        *address, {.backlog = kBacklog, .keeps_spare = true, .pause = kAcceptRetry});
    if (!opened && opened.error().system == EADDRINUSE) continue;
    listener_ = SMC_TRY(std::move(opened));
    listener_.close_with(closer_);
    return {};
  }
  return Error{Errc::kExhausted, "devices of this pod"};
}

Result<void> BrokerConnector::set_watcher(FdWatcher* watcher) {
  if (watcher_ != nullptr && link_) watcher_->unwatch(link_.get());
  watcher_ = watcher;
  SMC_TRY(listener_.set_watcher(watcher));
  if (watcher_ != nullptr && link_) SMC_TRY(watcher_->watch_readable(link_.get(), Trigger::kLevel));
  return {};
}

BrokerConnector::State BrokerConnector::poll_registration() {
  accept_broker();
  read_all();
  return state_;
}

BrokerConnector::State BrokerConnector::wait_registered(Duration limit) {
  const TimePoint deadline = now_() + limit;
  for (;;) {
    const State state = poll_registration();
    const Duration left = deadline - now_();
    if (state == State::kRegistered || state == State::kDown || left <= Duration::zero())
      return state;
    wait_readable({listener_.descriptor(), link_ ? link_.get() : -1}, left);
  }
}

void BrokerConnector::handle_readable(int fd) {
  if (fd == listener_.descriptor()) accept_broker();
  read_all();
}

// Our own user could end this process anyway.
bool BrokerConnector::may_be_broker(int link) const {
  return is_peer_of_user(link, broker_uid_) || (broker_uid_ == 0 && is_peer_root_or_ours(link));
}

// The newest is the broker: the one before it has gone, or is about to.
void BrokerConnector::accept_broker() {
  for (int i = 0; i < kBacklog; ++i) {
    if (closer_.full()) return listener_.be_deaf();
    auto link = listener_.accept();
    if (!link && link.error().code != Errc::kExhausted) return;
    if (link && may_be_broker(link->get())) take_link(std::move(*link));
  }
}

void BrokerConnector::take_link(ForeignDescriptor link) {
  if (state_ == State::kFabricChanged) return;
  if (watcher_ != nullptr && !watcher_->watch_readable(link.get(), Trigger::kLevel)) return;
  drop_link();
  link_ = std::move(link);
  state_ = State::kRegistering;
  error_text_ = "the broker has not answered yet";
}

void BrokerConnector::drop_link() {
  if (link_) lost_ = true;
  if (link_ && watcher_ != nullptr) watcher_->unwatch(link_.get());
  // The broker learns it at once, however long the closer takes.
  if (link_) (void)::shutdown(link_.get(), SHUT_RDWR);
  link_.reset();
  requests_.reset();
  ring_memory_ = Mapping();
  waiting_.clear();
  wake_due_ = false;
  stock_.blanks.clear();
  if (instance_ != 0) lost_instance_ = instance_;
  instance_ = 0;
}

void BrokerConnector::lose(State state, const char* why) {
  drop_link();
  state_ = state;
  error_text_ = why;
}

void BrokerConnector::read_all() {
  while (link_ && events_.size() < kConnectorEventsMax) {
    if (closer_.full()) return lose(State::kDown, "too many descriptors wait to be closed");
    auto received = broker::receive(link_.get(), closer_);
    const Errc code = received ? Errc{} : received.error().code;
    if (!received && code == Errc::kWouldBlock) return;
    if (!received && code == Errc::kExhausted) continue;  // one that was lost
    if (!received)
      return lose(State::kDown,
                  code == Errc::kPeerGone ? "the broker has gone" : "the broker speaks otherwise");
    // Further descriptors would be lost. Those that wait are handled or closed soon.
    const bool scarce = descriptors_scarce(received->fds[0].get(), DescriptorUse::kBegun);
    const auto handled = handle(std::move(*received));
    // handle() may have lost the link itself, with a better reason.
    if (!handled && link_) return lose(State::kDown, handled.error().what);
    if (scarce && !events_.empty()) return;
  }
}

Result<void> BrokerConnector::handle(broker::Received received) {
  const Message& message = received.message;
  const bool registered = state_ == State::kRegistered;
  const Error otherwise{Errc::kMalformed, "the broker speaks otherwise"};
  switch (message.kind) {
    case Kind::kRequestRing:
      if (requests_) return otherwise;
      return handle_ring(std::move(received));
    case Kind::kWelcome:
      if (registered || !requests_) return otherwise;
      return handle_welcome(message);
    case Kind::kRefused:
      if (!registered) return Error{Errc::kPermission, refused_because(message.refusal)};
      events_.push_back({.kind = ConnectorEvent::Kind::kRefused, .peer = message.peer});
      return {};
    case Kind::kChannel:
    case Kind::kBlank:
    case Kind::kGranted:
      if (!registered) return otherwise;
      return keep(std::move(received));
    case Kind::kRoom:
      if (!requests_) return otherwise;
      flush();
      return {};
  }
  return otherwise;
}

Result<void> BrokerConnector::handle_ring(broker::Received received) {
  ring_memory_ = SMC_TRY(adopt_segment(received.fds[0].get(), broker::kRequestRingBytes));
  received.fds[0].close_here();
  instance_ = received.message.buffer.instance;
  requests_.emplace(*reinterpret_cast<broker::RequestRingMemory*>(ring_memory_.bytes().data()));
  ask({.kind = Request::Kind::kRegister,
       .layout = kChannelLayout,
       .channel_bytes = sizeof(ChannelMemory),
       .peer = self_});
  flush();
  return {};
}

Result<void> BrokerConnector::handle_welcome(const Message& message) {
  if (fabric_ != FabricId{} && message.fabric != fabric_) {
    lose(State::kFabricChanged, "the broker is of another fabric");
    return Error{Errc::kPeerGone, error_text_};
  }
  fabric_ = message.fabric;
  state_ = State::kRegistered;
  error_text_ = "";
  return {};
}

// Only a broker makes such memory. A descriptor of another kind shows that this is no broker.
Result<void> BrokerConnector::keep(broker::Received received) {
  const Message& message = received.message;
  SMC_TRY(check_segment(received.fds[0].get()));
  if (message.kind == Kind::kBlank) {
    if (stock_.blanks.size() < kStockMax)
      stock_.blanks.push_back({message.buffer, std::move(received.fds[0])});
    return {};
  }
  if (message.peer.is_zero()) return Error{Errc::kMalformed, "the broker speaks otherwise"};
  ConnectorEvent event{.kind = ConnectorEvent::Kind::kGranted, .peer = message.peer};
  event.pod = message.pod;
  if (message.kind == Kind::kGranted) {
    event.buffer = message.buffer;
    event.memory = std::move(received.fds[0]);
  } else {
    if (message.layout != kChannelLayout)
      return Error{Errc::kUnsupported, "channel layout of another version"};
    event.kind = ConnectorEvent::Kind::kChannel;
    event.side = message.side;
    event.end = {std::move(received.fds[0]), std::move(received.fds[1]),
                 std::move(received.fds[2])};
  }
  events_.push_back(std::move(event));
  return {};
}

Result<ConnectorEvent> BrokerConnector::next() {
  if (events_.empty()) read_all();
  if (!events_.empty()) {
    ConnectorEvent event = std::move(events_.front());
    events_.pop_front();
    return event;
  }
  if (std::exchange(lost_, false)) return Error{Errc::kPeerGone, error_text_};
  return Error{Errc::kWouldBlock, "no news of the broker"};
}

void BrokerConnector::ask(const Request& request) {
  if (!requests_) return;
  if (waiting_.empty()) {
    const auto pushed = requests_->push(request);
    wake_due_ = true;
    if (pushed) return;
    if (pushed.error().code != Errc::kWouldBlock)
      return lose(State::kDown, "the broker speaks otherwise");
  }
  // A broker that is that far behind connects again, and knows none of the device's buffers then.
  if (waiting_.size() >= kRequestsWaitingMax)
    return lose(State::kDown, "the broker does not keep up");
  waiting_.push_back(request);
}

void BrokerConnector::flush() {
  if (listener_.pause_is_over()) accept_broker();
  while (!waiting_.empty()) {
    const auto pushed = requests_->push(waiting_.front());
    if (!pushed && pushed.error().code != Errc::kWouldBlock)
      return lose(State::kDown, "the broker speaks otherwise");
    if (!pushed) break;
    wake_due_ = true;
    waiting_.pop_front();
  }
  wake_broker();
}

// No byte is sent, and nothing waits: the broker's end gets an event each time.
void BrokerConnector::wake_broker() {
  if (std::exchange(wake_due_, false)) (void)::shutdown(link_.get(), SHUT_WR);
}

Result<void> BrokerConnector::request_channel(PeerId peer) {
  if (state_ != State::kRegistered) return Error{Errc::kPeerGone, "the broker is not there"};
  ask({.kind = Request::Kind::kConnect, .peer = peer});
  wake_broker();
  return {};
}

Result<Blank> BrokerConnector::take_buffer() {
  if (stock_.blanks.empty()) read_all();
  const TimePoint now = now_();
  if (stock_.blanks.empty() && state_ == State::kRegistered && now >= stock_.no_wait_before) {
    flush();
    const TimePoint deadline = now + kStockWaitMax;
    for (TimePoint at = now; stock_.blanks.empty() && link_ && at < deadline; at = now_()) {
      wait_readable({link_.get()}, deadline - at);
      const std::size_t before = events_.size();
      read_all();
      if (stock_.blanks.empty() && before >= kConnectorEventsMax) break;
    }
    // One whose broker is slow must not stop a worker again and again.
    if (stock_.blanks.empty()) stock_.no_wait_before = now_() + kStockWaitPause;
  }
  if (stock_.blanks.empty())
    return Error{Errc::kExhausted, state_ == State::kRegistered
                                       ? "the broker has no buffer for us"
                                       : "the broker, which makes buffers, is not there"};
  Blank blank = std::move(stock_.blanks.front());
  stock_.blanks.pop_front();
  ask({.kind = Request::Kind::kTake, .buffer = blank.id});
  return blank;
}

Result<void> BrokerConnector::grant(const BufferId& buffer, PeerId peer) {
  if (!usable(buffer)) return Error{Errc::kPeerGone, "the broker that made the buffer has gone"};
  ask({.kind = Request::Kind::kGrant, .peer = peer, .buffer = buffer});
  if (!usable(buffer)) return Error{Errc::kPeerGone, error_text_};
  return {};
}

void BrokerConnector::free_buffer(const BufferId& buffer) {
  if (usable(buffer)) ask({.kind = Request::Kind::kFree, .buffer = buffer});
}

}  // namespace fairlead::rdma::shm
