// fairlead-node's connection to the container runtime's NRI socket. A thread connects, serves the
// runtime's calls, and connects again after a pause if the runtime is not available.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "base/linux/event_descriptor.h"
#include "base/linux/handle.h"
#include "base/result.h"
#include "cni/node/nri/plugin_session.h"

namespace fairlead::cni::node::nri {

inline constexpr const char* kDefaultSocket = "/var/run/nri/nri.sock";
// Doubles with each failed connection.
inline constexpr std::chrono::milliseconds kReconnectPauseMin{250};
inline constexpr std::chrono::milliseconds kReconnectPauseMax{8000};
// The runtime's own limits for a registration are seconds.
inline constexpr std::chrono::seconds kRegistrationTimeout{30};
// Unsent bytes; the connection to a runtime that reads nothing is closed.
inline constexpr std::size_t kUnsentBytesMax = 1 << 20;

class NriPlugin {
 public:
  // Written by the plugin's thread, read by any.
  struct Counts {
    std::atomic<bool> connected{false};
    std::atomic<std::uint64_t> registrations{0};
    std::atomic<std::uint64_t> errors{0};  // connections that ended but by *this
  };

  // Starts the thread. `handler` is called on it and outlives *this. Errors: of eventfd(2).
  static Result<std::unique_ptr<NriPlugin>> start(std::string socket_path,
                                                  ContainerHandler& handler);
  // Ends the connection and the thread.
  ~NriPlugin();

  const Counts& counts() const { return counts_; }

 private:
  NriPlugin(std::string socket_path, ContainerHandler& handler, EventDescriptor stop_event);
  void run();
  // Runs until the connection or *this ends. False if *this ends.
  bool serve(const FileDescriptor& socket);
  bool wait_stop(std::chrono::milliseconds limit);
  void report(const Error& error);

  std::string socket_path_;
  std::chrono::milliseconds pause_ = kReconnectPauseMin;
  ContainerHandler* handler_;
  EventDescriptor stop_event_;
  Counts counts_;
  std::string reported_;  // the last trouble that was logged, so that it is logged once
  std::thread thread_;
};

}  // namespace fairlead::cni::node::nri
