// Bytes of a client of the HTTP server: admin API, webhook and agent have it in common. The server
// runs on a thread of its own, and the input comes over a UNIX socket. Properties: the server
// always closes. The handler sees at most one request, within the limits, with a path that begins
// with a slash or is a whole URI. The answer can be read by fairleadctl's client.
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "admin/query.h"
#include "base/linux/handle.h"
#include "ctl/http_client.h"
#include "event/http/http_server.h"
#include "fuzz/reached.h"

namespace {

using namespace fairlead;
using namespace fairlead::event;

constexpr std::size_t kBodyMax = 256;
constexpr std::size_t kHeaderMax = 1024;

HttpLimits limits() {
  HttpLimits limits;
  limits.header_bytes_max = kHeaderMax;
  limits.body_bytes_max = kBodyMax;
  // Longer than an input may take, so that only a hang ends by them.
  limits.request_max = limits.idle_max = limits.connection_max = std::chrono::seconds(60);
  return limits;
}

class Server {
 public:
  Server()
      : server_(std::move(*HttpServer::create(
            limits(), [this](HttpExchange exchange) { serve(std::move(exchange)); }))),
        endpoint_(*server_->listen(
            *HttpEndpoint::parse("@fairlead-http-fuzzer-" + std::to_string(::getpid())))) {
    SMC_ASSERT(server_->start("server"));
  }

  // The bytes of the answer.
  std::string ask(std::string_view bytes) {
    const FileDescriptor fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    SMC_ASSERT(::connect(fd.get(), endpoint_.data(), endpoint_.size()) == 0, errno);
    (void)!::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    ::shutdown(fd.get(), SHUT_WR);
    std::string answer;
    std::array<char, 4096> part;
    for (;;) {
      const ssize_t got = ::recv(fd.get(), part.data(), part.size(), 0);
      if (got <= 0) return answer;
      answer.append(part.data(), static_cast<std::size_t>(got));
    }
  }
  HttpRequest take_request(unsigned& count) {
    const std::lock_guard lock(mutex_);
    count = std::exchange(count_, 0);
    return std::move(last_);
  }

 private:
  void serve(HttpExchange exchange) {
    {
      const std::lock_guard lock(mutex_);
      ++count_;
      last_ = exchange.request();
    }
    if (exchange.request().path == "/dropped") return;
    exchange.respond({.status = 200, .body = exchange.request().body});
  }

  std::mutex mutex_;  // guards the two below
  HttpRequest last_;
  unsigned count_ = 0;
  std::unique_ptr<HttpServer> server_;
  HttpEndpoint endpoint_;
};

void check_request(const HttpRequest& request) {
  SMC_ASSERT(!request.path.empty() && request.path.size() <= kHeaderMax, request.path.size());
  SMC_ASSERT(request.body.size() <= kBodyMax, request.body.size());
  SMC_ASSERT(!request.query_malformed || request.query.empty());
  SMC_ASSERT(request.source.starts_with("uid ") && request.peer_uid.has_value());
  constexpr std::array<std::string_view, 2> kKnown = {"limit", "peer"};
  const auto error = admin::parameter_error(request, kKnown);
  SMC_ASSERT(admin::row_limit(request, 10, 100) <= 100);
  fuzz::reached("served: " + request.method);
  if (error) fuzz::reached_refusal(*error);
  if (!request.query.empty() && !error) fuzz::reached("query accepted");
  if (!request.body.empty()) fuzz::reached("body");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Server server;
  const std::string answer = server.ask({reinterpret_cast<const char*>(data), size});
  unsigned count = 0;
  const HttpRequest request = server.take_request(count);
  SMC_ASSERT(count <= 1, count);
  if (count == 1) check_request(request);
  const auto reply = fairlead::event::parse_http_reply(answer);
  if (reply) {
    SMC_ASSERT(reply->status >= 100 && reply->status <= 599, reply->status);
    fuzz::reached("status " + std::to_string(reply->status));
  } else {
    fuzz::reached_refusal(reply.error().what);
  }
  return 0;
}
