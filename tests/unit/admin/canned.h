// A simulated proxy: two workers with known counters and rows, for the tests of the admin server
// and of fairleadctl.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "admin/server.h"
#include "admin/sources.h"

namespace fairlead::admin {

inline ConnectionRow canned_connection(unsigned worker, const std::string& id,
                                       Transport transport) {
  ConnectionRow row;
  row.id = id;
  row.worker = worker;
  row.transport = transport;
  row.state = "active";
  row.app = "10.1.1.2:40312";
  row.peer = "10.1.2.7:8080";
  row.tx_bytes = 1536;
  row.rx_bytes = 3 << 20;
  row.age_seconds = 185;
  if (transport == Transport::kSmcr) {
    row.group = "g-1";
    row.link = 1;
    row.local_token = 0x11;
    row.peer_token = 0x22;
    row.rmb_bytes = 512 << 10;
    row.peer_rmb_bytes = 64 << 10;
  } else {
    row.direction = Direction::kInbound;
    row.reason = "no_rdma_device";
    row.reason_code = 0x03030002;
  }
  return row;
}

inline LinkGroupRow canned_link_group(unsigned worker) {
  LinkRow link;
  link.group = "g-1";
  link.number = 1;
  link.state = "active";
  link.rnic = "shm0";
  link.port = 1;
  link.local_gid = "::ffff:10.1.1.1";
  link.peer_gid = "::ffff:10.1.2.1";
  link.local_qp = 0x12;
  link.peer_qp = 0x34;
  link.mtu_bytes = 4096;
  link.connections = 1;
  link.rtt_seconds = 0.00025;
  LinkGroupRow group;
  group.id = "g-1";
  group.worker = worker;
  group.role = "client";
  group.type = "single";
  group.peer_id = "0123456789abcdef";
  group.peer_host = "node-b";
  group.version = "2.1";
  group.ueid = "FAIRLEAD";
  group.connections = 1;
  group.connections_max = 255;
  group.links_max = 1;
  group.rmb_bytes = 512 << 10;
  group.links = {link};
  return group;
}

inline DecisionRow canned_decision(const std::string& id, const std::string& time,
                                   const std::string& peer) {
  DecisionRow row;
  row.id = id;
  row.time = time;
  row.transport = Transport::kTcp;
  row.local = "10.1.1.2:40312";
  row.peer = peer;
  row.reason = "no_rdma_device";
  row.reason_code = 0x03030002;
  row.elapsed_seconds = 0.0018;
  row.steps = {"the peer's SYN/ACK carried the SMC option", "no device reaches the peer"};
  return row;
}

// Worker 0 has an SMC-R connection, worker 1 a TCP one.
inline WorkerSnapshot canned_snapshot(unsigned worker) {
  WorkerSnapshot snapshot;
  snapshot.worker = worker;
  snapshot.connections = {canned_connection(worker, worker == 0 ? "c-1" : "c-2",
                                            worker == 0 ? Transport::kSmcr : Transport::kTcp)};
  if (worker == 0) snapshot.link_groups = {canned_link_group(worker)};
  snapshot.devices = {{.name = "shm0",
                       .kind = "shm",
                       .port = 1,
                       .state = "active",
                       .gid = "fe80::1",
                       .gid_source = "",
                       .mac = "02:00:00:00:00:01",
                       .pnet = "NETA",
                       .pnet_source = "config",
                       .mtu_bytes = 4096,
                       .detail = ""}};
  if (worker == 0)
    snapshot.decisions = {canned_decision("c-2", "2026-11-20T21:29:59.123Z", "10.1.2.7:8080"),
                          canned_decision("c-0", "2026-11-20T21:20:00.000Z", "[fd00::7]:80")};
  else
    snapshot.decisions = {canned_decision("c-9", "2026-11-20T21:25:00.000Z", "10.1.2.7:9090")};
  return snapshot;
}

class CannedProxy {
 public:
  CannedProxy() {
    for (auto& worker : stats) {
      TrafficStats& smcr = worker->traffic[Direction::kOutbound][Transport::kSmcr];
      smcr.connections_total.add(5);
      smcr.connections_active.add(1);
      smcr.tx_bytes.add(1000);
      worker->fallback[Direction::kInbound][Side::kPeer][FallbackReason::kNoRdmaDevice].add(3);
      worker->fallback[Direction::kOutbound][Side::kLocal][FallbackReason::kPeerNotInjected].add(2);
      worker->handshake_smcr.observe(0.0003);
      worker->handshake_smcr.observe(100.0);
      worker->first_answer[Direction::kOutbound].observe(0.0008);
      worker->longest_wait[Direction::kOutbound].observe(0.02);
      worker->link_groups_single.add(1);
      worker->links_active.add(1);
      worker->pinned_bytes.set(1 << 20);
      worker->pinned_limit_bytes.set(16 << 20);
      worker->spin_nanoseconds.add(1'500'000'000);
    }
  }

  // Answers immediately, within the request; `silent_worker` does not answer.
  AdminSources sources() {
    AdminSources made;
    made.build = {"1.2.3", "abc123", "shm"};
    for (const auto& worker : stats) made.stats.push_back(worker.get());
    made.snapshot = [this](const SnapshotRequest& request, const SnapshotReply& reply) {
      asked = request;
      for (unsigned worker = 0; worker < stats.size(); ++worker)
        if (silent_worker != worker) reply(change(canned_snapshot(worker)));
    };
    made.not_ready = [this] { return not_ready; };
    made.drain = [this] { draining = true; };
    made.take_port = [this](const std::string& device, std::uint8_t port, bool up) {
      port_order = device + " " + std::to_string(port) + (up ? " up" : " down");
    };
    made.draining = [this] { return draining.load(); };
    made.config_dump = [] { return std::string("smc:\n  enabled: true\n"); };
    made.facts = [this] { return facts; };
    made.direct = [this] { return direct; };
    return made;
  }

  std::array<std::unique_ptr<WorkerStats>, 2> stats = {std::make_unique<WorkerStats>(),
                                                       std::make_unique<WorkerStats>()};
  // Tests change it only while no request is pending.
  std::function<WorkerSnapshot(WorkerSnapshot)> change = [](WorkerSnapshot rows) { return rows; };
  SnapshotRequest asked;
  std::optional<unsigned> silent_worker;
  std::vector<std::string> not_ready;
  std::vector<Fact> facts = {{"option_program", FactStatus::kOk, "attached", ""}};
  DirectReport direct = {
      .unavailable = "",
      .connections = 12,
      .destinations = {{"10.1.2.9:80", "peer_not_injected", 0x0f000007, 2.5, 7.5},
                       {"10.1.2.10:80", "peer_not_injected", 0x0f000007, 100, 80},
                       {"[fd00::9]:443", "no_rdma_device", 0x03030002, 1, 599}}};
  std::atomic<bool> draining = false;
  std::string port_order;  // the last; read it when the answer has come
};

}  // namespace fairlead::admin
