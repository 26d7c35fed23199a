// fairlead-node's connection to the container runtime's NRI socket. A thread connects, serves the
// runtime's calls, and connects again after a pause if the runtime is not available.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/linux/handle.h"
#include "base/linux/service_thread.h"
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
    std::atomic<std::uint64_t> errors{0};  // connections ended by the runtime or an error
  };

  // Starts the thread. `handler` is called on it and outlives *this. Errors: of
  // ServiceThread::start().
  static Result<std::unique_ptr<NriPlugin>> start(std::string socket_path,
                                                  ContainerHandler& handler);

  const Counts& counts() const { return counts_; }

 private:
  NriPlugin(std::string socket_path, ContainerHandler& handler)
      : socket_path_(std::move(socket_path)), handler_(&handler) {}
  void run();
  // Runs until the connection or *this ends. False if *this ends.
  bool serve(const FileDescriptor& socket);
  void report(const Error& error);

  std::string socket_path_;
  std::chrono::milliseconds pause_ = kReconnectPauseMin;
  ContainerHandler* handler_;
  Counts counts_;
  std::string reported_;  // the last trouble that was logged, so that it is logged once
  ServiceThread thread_;
};

}  // namespace fairlead::cni::node::nri
