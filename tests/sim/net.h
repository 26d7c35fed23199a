// The TCP network of a simulation: pods with one address each, their applications' ports, and the
// redirect of a pod to its proxy. A SYN with the SMC option that reaches a pod goes to the proxy's
// inbound listener, any other straight to the application, as the node's redirect has it.
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
  // A pod has a proxy, or no longer.
  void set_inbound(Pod pod, Accept accept) { inbound_[pod] = std::move(accept); }
  void set_outbound(Pod pod, Accept accept) { outbound_[pod] = std::move(accept); }
  // What its SYN/ACK says at most.
  void set_announced(Pod pod, bpf::Announced announced) { announced_[pod] = announced; }
  // Every connection from other pods goes to the proxy, option or not.
  void redirect_all(Pod pod) { all_[pod] = true; }

  // By a proxy.
  std::unique_ptr<SimStream> dial(Pod from, const SocketAddress& to, bpf::Announced announce);
  // By an application: its pod's proxy takes the connection.
  std::unique_ptr<SimStream> dial_as_application(Pod from, const SocketAddress& to);

  // Resets some connection between pods that is still there. False if there is none.
  bool cut_one();
  // Ends one towards the proxy that dialled it. False if there is none.
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
