#include "sim/net.h"

#include <algorithm>
#include <cerrno>

namespace fairlead::sim {

SocketAddress address_of(Pod pod, std::uint16_t port) {
  return {in_addr{htonl(0x0a000000U + pod)}, port};
}

Pod pod_of(const SocketAddress& address) { return address.bytes()[3]; }

const Net::Accept* Net::find(const std::map<Pod, Accept>& table, Pod pod) const {
  const auto found = table.find(pod);
  return found == table.end() || !found->second ? nullptr : &found->second;
}

std::shared_ptr<TcpConnection> Net::make(Pod from, const SocketAddress& to) {
  auto connection =
      std::make_shared<TcpConnection>(world_, weather, address_of(from, next_port_++), to, live_);
  if (world_.events != nullptr)
    world_.events->dialled(connection->number(), from, pod_of(to), to.port());
  return connection;
}

std::unique_ptr<SimStream> Net::dial_as_application(Pod from, const SocketAddress& to) {
  const Accept* proxy = find(outbound_, from);
  return connect(make(from, to), proxy, to, false);
}

std::unique_ptr<SimStream> Net::dial(Pod from, const SocketAddress& to, bpf::Announced announce) {
  const Pod pod = pod_of(to);
  const auto port = ports_.find(to);
  const Accept* application = port == ports_.end() ? nullptr : &port->second;
  const std::shared_ptr<TcpConnection> connection = make(from, to);
  if (pod == from) return connect(connection, application, to, false);
  abroad_.push_back(connection);
  Random& random = world_.random;
  const bool arrives =
      announce != bpf::Announced::kNothing && !random.chance(faults.strip_syn_per_mille);
  const Accept* proxy = find(inbound_, pod);
  if (proxy == nullptr || (!arrives && !all_[pod]))
    return connect(connection, application, to, true);
  if (!arrives) return connect(connection, proxy, to, true);
  connection->option_requested = std::min(announce, announced_[pod]);
  const bool frames = connection->option_requested == bpf::Announced::kFrames;
  if (!random.chance(faults.strip_answer_per_mille))
    connection->option_answered = frames ? announced_[pod] : connection->option_requested;
  return connect(connection, proxy, to, true);
}

std::unique_ptr<SimStream> Net::connect(const std::shared_ptr<TcpConnection>& connection,
                                        const Accept* accept, const SocketAddress& to,
                                        bool abroad) {
  Random& random = world_.random;
  std::unique_ptr<SimStream> stream = connection->make_stream(TcpConnection::kDialler, false);
  const Duration there = weather.draw_delay(random);
  const Duration back = there + weather.draw_delay(random);
  const bool swallowed = abroad && random.chance(faults.swallow_per_mille);
  const bool refused = abroad && random.chance(faults.refuse_per_mille);
  harmed_ += swallowed || refused;
  if (swallowed) return stream;
  if (refused || accept == nullptr) {
    world_.after(back, [connection] { connection->refuse(ECONNREFUSED); });
    return stream;
  }
  if (abroad && random.chance(faults.reset_per_mille)) {
    ++harmed_;
    const auto within = static_cast<std::uint64_t>(faults.reset_within.count());
    world_.after(Duration{static_cast<std::int64_t>(random.between(0, within))},
                 [this, connection] {
                   world_.trace("the network cuts a connection");
                   connection->cut();
                 });
  }
  world_.after(back, [connection] {
    if (!connection->dead()) connection->open();
  });
  // accept(2) returns what the dialler's ACK has completed, and by then data may have come too.
  world_.after(back + weather.draw_delay(random), [connection, take = *accept, to] {
    // A connection that was reset before it was accepted is ignored.
    if (!connection->dead()) take(connection->make_stream(TcpConnection::kListener, true), to);
  });
  return stream;
}

// A random existing connection between pods.
std::shared_ptr<TcpConnection> Net::draw_abroad() {
  std::erase_if(abroad_, [](const auto& weak) {
    const std::shared_ptr<TcpConnection> connection = weak.lock();
    return connection == nullptr || connection->dead();
  });
  if (abroad_.empty()) return nullptr;
  return abroad_[world_.random.between(0, abroad_.size() - 1)].lock();
}

bool Net::cut_one() {
  const std::shared_ptr<TcpConnection> connection = draw_abroad();
  if (connection == nullptr) return false;
  ++harmed_;
  world_.trace("the network cuts a connection");
  connection->cut();
  return true;
}

bool Net::end_one() {
  const std::shared_ptr<TcpConnection> connection = draw_abroad();
  if (connection == nullptr) return false;
  ++harmed_;
  world_.trace("the network ends a connection towards one side");
  connection->end(TcpConnection::kDialler);
  return true;
}

}  // namespace fairlead::sim
