#include "rdma/shm/shm_broker_link.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "base/unix_address.h"

namespace fairlead::rdma::shm {
namespace {

using broker::Message;
using Kind = broker::Message::Kind;

// An application of our pod could take the name before the broker does. It is no danger to others,
// and as root, or as us, it could look into our memory anyway.
bool is_trusted(int socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
         (peer.uid == 0 || peer.uid == ::geteuid());
}

const char* refused_because(broker::Refusal refusal) {
  if (refusal == broker::Refusal::kTaken) return "the broker refuses us: our peer id is taken";
  if (refusal == broker::Refusal::kLimit)
    return "the broker refuses us: too many devices of our pod";
  return "the broker refuses us";
}

Result<FileDescriptor> connect_to(const std::string& name) {
  const auto address = unix_name(name);
  if (!address) return Error{Errc::kUnsupported, "name of the broker's socket"};
  FileDescriptor fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return system_error("socket", errno);
  if (::connect(fd.get(), address->get(), address->length_bytes) == 0) return fd;
  if (errno == ENOENT || errno == ECONNREFUSED)
    return Error{Errc::kPeerGone, "no broker listens", errno};
  return system_error("connect", errno);
}

}  // namespace

Result<std::unique_ptr<BrokerLink>> BrokerLink::open(const std::string& name, PeerId self) {
  std::unique_ptr<BrokerLink> link(new BrokerLink(name, self));
  SMC_TRY(link->connect());
  return link;
}

Result<void> BrokerLink::connect() {
  FileDescriptor socket = SMC_TRY(connect_to(name_));
  if (!is_trusted(socket.get())) return Error{Errc::kPermission, "a broker that is not root's"};
  SMC_TRY(broker::send(socket.get(), Message{.kind = Kind::kRegister, .peer = self_}));
  socket_ = std::move(socket);
  state_ = State::kGreeting;
  return {};
}

BrokerLink::State BrokerLink::greet() {
  if (state_ == State::kGreeting) (void)accept();
  return state_;
}

BrokerLink::State BrokerLink::await_welcome(Duration limit) {
  pollfd waiting = {socket_.get(), POLLIN, 0};
  const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(limit).count();
  (void)::poll(&waiting, 1, static_cast<int>(milliseconds));
  return greet();
}

// The descriptor stays until reconnect(): somebody may watch it.
Error BrokerLink::lose(const char* trouble) {
  state_ = State::kDown;
  trouble_ = trouble;
  return Error{Errc::kPeerGone, trouble};
}

Result<FileDescriptor> BrokerLink::dial(PeerId peer) {
  if (state_ != State::kUp) return Error{Errc::kPeerGone, "the broker is not there"};
  const Result<void> asked =
      broker::send(socket_.get(), Message{.kind = Kind::kIntroduce, .peer = peer});
  if (!asked && asked.error().code == Errc::kWouldBlock)
    return Error{Errc::kExhausted, "the broker does not keep up"};
  if (!asked) return asked.error();  // accept() will find out that it has gone
  return FileDescriptor();
}

Result<Arrival> BrokerLink::accept() {
  if (state_ == State::kDown || state_ == State::kMigrated) return Error{Errc::kPeerGone, trouble_};
  auto received = broker::receive(socket_.get());
  if (received) return handle(std::move(*received));
  const Errc code = received.error().code;
  if (code == Errc::kWouldBlock || code == Errc::kExhausted) return received.error();
  return lose(code == Errc::kPeerGone ? "the broker has gone" : "the broker speaks otherwise");
}

Result<Arrival> BrokerLink::handle(broker::Received received) {
  const Message& message = received.message;
  const bool registered = state_ == State::kUp;
  switch (message.kind) {
    case Kind::kWelcome:
      if (registered) break;
      return handle_welcome(message);
    case Kind::kRefused:
      if (!registered) return lose(refused_because(message.refusal));
      return Arrival{.peer = message.peer, .asked = true};
    case Kind::kIntroduced:
    case Kind::kVisitor:
      if (!registered || message.peer.is_zero()) break;
      return Arrival{.socket = std::move(received.fd),
                     .peer = message.peer,
                     .asked = message.kind == Kind::kIntroduced};
    case Kind::kRegister:
    case Kind::kIntroduce:
      break;
  }
  return lose("the broker speaks otherwise");
}

Result<Arrival> BrokerLink::handle_welcome(const Message& message) {
  if (fabric_ != FabricId{} && message.fabric != fabric_) {
    lose("the broker has begun anew");
    state_ = State::kMigrated;
    return Error{Errc::kPeerGone, trouble_};
  }
  fabric_ = message.fabric;
  state_ = State::kUp;
  return Error{Errc::kWouldBlock, "nothing but a welcome"};
}

void BrokerLink::reconnect() {
  if (state_ != State::kDown) return;
  socket_.reset();
  const Result<void> connected = connect();
  if (!connected) trouble_ = connected.error().what;
}

}  // namespace fairlead::rdma::shm
