// The TCP network of a simulation: pods with one address each, their applications' ports, and the
// redirect of a pod to its proxy. As with a real redirect, a SYN with the SMC option goes to the
// inbound listener of the pod's proxy, and any other SYN to the application.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "sim/tcp.h"

namespace fairlead::sim {

using Pod = unsigned;  // from 1

SocketAddress address_of(Pod pod, std::uint16_t port);
// REQUIRES: an address made by address_of()
Pod pod_of(const SocketAddress& address);

struct NetFaults {
  unsigned strip_syn_per_mille = 0;     // the option is lost on the way to the server
  unsigned strip_answer_per_mille = 0;  // ... on the way back
  unsigned refuse_per_mille = 0;        // a dial between pods meets an RST
  unsigned swallow_per_mille = 0;       // ... or nothing at all
  unsigned reset_per_mille = 0;         // a connection between pods is cut at some time
  Duration reset_within = std::chrono::milliseconds(5);
};

class Net {
 public:
  using Accept = std::function<void(std::unique_ptr<SimStream>, const SocketAddress& destination)>;

  explicit Net(World& world) : world_(world) {}

  // An application listens.
  void listen(const SocketAddress& at, Accept accept) { ports_[at] = std::move(accept); }
  // Sets or removes the proxy of a pod.
  void set_inbound(Pod pod, Accept accept) { inbound_[pod] = std::move(accept); }
  void set_outbound(Pod pod, Accept accept) { outbound_[pod] = std::move(accept); }
  // The most that its SYN/ACK announces.
  void set_announced(Pod pod, bpf::Announced announced) { announced_[pod] = announced; }
  // Every connection from other pods goes to the proxy, with or without the option.
  void redirect_all(Pod pod) { all_[pod] = true; }

  // By a proxy.
  std::unique_ptr<SimStream> dial(Pod from, const SocketAddress& to, bpf::Announced announce);
  // By an application: its pod's proxy accepts the connection.
  std::unique_ptr<SimStream> dial_as_application(Pod from, const SocketAddress& to);

  // Resets an existing connection between pods. False if there is none.
  bool cut_one();
  // Ends an existing connection towards the proxy that dialled it. False if there is none.
  bool end_one();
  std::size_t live() const { return live_; }
  // Connections between pods that were cut, refused or swallowed, since the start.
  std::size_t harmed() const { return harmed_; }

  TcpWeather weather;
  NetFaults faults;

 private:
  std::unique_ptr<SimStream> connect(const std::shared_ptr<TcpConnection>& connection,
                                     const Accept* accept, const SocketAddress& to, bool abroad);
  const Accept* find(const std::map<Pod, Accept>& table, Pod pod) const;
  std::shared_ptr<TcpConnection> draw_abroad();
  std::shared_ptr<TcpConnection> make(Pod from, const SocketAddress& to);

  World& world_;
  std::map<SocketAddress, Accept> ports_;
  std::map<Pod, Accept> inbound_;
  std::map<Pod, Accept> outbound_;
  std::map<Pod, bpf::Announced> announced_;
  std::map<Pod, bool> all_;
  std::vector<std::weak_ptr<TcpConnection>> abroad_;
  std::size_t live_ = 0;
  std::size_t harmed_ = 0;
  std::uint16_t next_port_ = 20000;
};

}  // namespace fairlead::sim
