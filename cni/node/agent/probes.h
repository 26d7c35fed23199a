// HTTP server of fairlead-node: /livez, /readyz and /metrics, on a separate thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cni/plugin/plugin_error.h"
#include "event/http/http_server.h"

namespace fairlead::cni::node {

// Called on the thread of the probes.
struct ProbeAnswers {
  std::function<std::string()> not_ready;   // why not; empty when it is
  std::function<std::string()> metrics;     // in Prometheus' format
  event::HttpRefusals* refusals = nullptr;  // counts refusals; may be null
};

class Probes {
 public:
  // `listen` is an address and a port. Errors: kConfig if it is malformed, kState if it cannot be
  // bound.
  static Outcome<std::unique_ptr<Probes>> start(const std::string& listen, ProbeAnswers answers);

 private:
  Probes() = default;
  std::unique_ptr<event::HttpServer> server_;
};

}  // namespace fairlead::cni::node
