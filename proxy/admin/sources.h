// What the admin server knows of the proxy: functions and pointers that main fills in, so that
// admin needs to include nothing of relay.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/snapshot.h"
#include "base/stats.h"

namespace fairlead::admin {

struct BuildInfo {
  std::string version;   // "0.1.0"
  std::string revision;  // commit, "unknown" if not built from a repository
  std::string backend;   // kinds of devices in use, "shm", "verbs" or "shm,verbs"
};

enum class FactStatus : std::uint8_t { kOk, kWarn, kFail };

constexpr std::string_view to_string(FactStatus status) {
  switch (status) {
    case FactStatus::kOk:
      return "ok";
    case FactStatus::kWarn:
      return "warn";
    case FactStatus::kFail:
      return "fail";
  }
  return "fail";
}

// Something about the running process that only main and its parts can tell, as a line of
// `fairleadctl doctor`: "ok  option_program  attached to /sys/fs/cgroup/…".
struct Fact {
  std::string name;  // snake_case, unique
  FactStatus status = FactStatus::kOk;
  std::string text;  // what was found
  std::string fix;   // what to do about it; empty when ok
};

// Facts with a meaning for the metrics. Leave one out when it does not apply.
inline constexpr std::string_view kFactOptionProgram =
    "option_program";  // ok: the SMC option is written
inline constexpr std::string_view kFactClientAddress =
    "client_address";  // ok: applications see the addresses of clients

// Takes the answer of one worker. Callable from any thread, for as long as the AdminServer exists;
// an answer that comes too late is dropped.
using SnapshotReply = std::function<void(WorkerSnapshot)>;

// Where connections of the pod are led to the proxy by rules of the network namespace.
struct RedirectPorts {
  std::vector<std::uint16_t> ports;  // of the listeners; empty: no connection is redirected
  std::uint32_t user = 0;            // of the process, whose own connections are not redirected
};

// Which connections of applications go past the proxy.
struct DirectReport {
  std::string unavailable;        // why none does, as a sentence; empty: some may
  std::uint64_t connections = 0;  // that went past since the pod's redirect was set up
  std::vector<DestinationRow> destinations;
};

// Functions are called on the admin thread and must not block. An empty function means that the
// proxy has no such thing: always ready, no facts, and so on.
struct AdminSources {
  BuildInfo build;

  // One per worker; the index is the worker's number. They outlive the AdminServer.
  std::vector<const WorkerStats*> stats;

  // Asks every worker: each calls the reply once, with its own number in it. A worker that does not
  // is shown as silent.
  std::function<void(const SnapshotRequest&, SnapshotReply)> snapshot;

  // Why the proxy cannot serve yet, a sentence each; empty when it can.
  std::function<std::vector<std::string>()> not_ready;

  // Starts draining. May be called again.
  std::function<void()> drain;
  std::function<bool()> draining;

  // Takes a port of a device out of use on all workers, or back. Not waited for.
  std::function<void(const std::string& device, std::uint8_t port, bool up)> take_port;

  // The configuration in effect, as YAML.
  std::function<std::string()> config_dump;

  std::function<std::vector<Fact>()> facts;

  RedirectPorts redirect;

  std::function<DirectReport()> direct;
};

}  // namespace fairlead::admin
