// What an API server answers, from the bytes of HTTP on: to the agent and the injector, and to
// fairleadctl, which also reads answers of a proxy. The server of this fuzzer sends the input and
// ends. Properties: each call ends, with a reply within its limits or without one; a reply that
// fairleadctl's own client reads has the body that was announced.
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>

#include "base/linux/handle.h"
#include "cni/node/agent/withdraw.h"
#include "cni/node/pods/node_pods.h"
#include "ctl/cluster/cluster_client.h"
#include "ctl/http_client.h"
#include "ctl/json_value.h"
#include "ctl/reports.h"
#include "ctl/table.h"
#include "event/http/http_server.h"
#include "event/https/http_exchange.h"
#include "fuzz/reached.h"

namespace {

using namespace fairlead;
using namespace fairlead::event;

constexpr std::size_t kReplyMax = 1024;
constexpr Duration kPatience = std::chrono::seconds(60);

// Answers one connection after the other on a thread of its own.
class Server {
 public:
  Server() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* raw = reinterpret_cast<sockaddr*>(&address);
    SMC_ASSERT(::bind(listener_.get(), raw, size) == 0 && ::listen(listener_.get(), 1) == 0);
    SMC_ASSERT(::getsockname(listener_.get(), raw, &size) == 0);
    port_ = ntohs(address.sin_port);
  }
  std::uint16_t port() const { return port_; }

  void answer_one(std::string_view bytes) const {
    const FileDescriptor peer(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    (void)!::send(peer.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    ::shutdown(peer.get(), SHUT_WR);
    std::array<char, 4096> part;
    while (::recv(peer.get(), part.data(), part.size(), 0) > 0) {
    }
  }

 private:
  FileDescriptor listener_;
  std::uint16_t port_ = 0;
};

std::optional<HttpsReply> call(std::string_view bytes) {
  static const Server server;
  std::thread thread([&] { server.answer_one(bytes); });
  const HttpBaseHandle base(event_base_new());
  ::bufferevent* stream = bufferevent_socket_new(base.get(), -1, BEV_OPT_CLOSE_ON_FREE);
  HttpsTarget target;
  target.host = "127.0.0.1";
  target.port = server.port();
  HttpsRequest request;
  request.path = "/p";
  request.reply_bytes_max = kReplyMax;
  const TimePoint begin = std::chrono::steady_clock::now();
  auto reply = http_exchange(base.get(), stream, target, request, kPatience);
  SMC_ASSERT(std::chrono::steady_clock::now() - begin < kPatience);
  thread.join();
  if (reply) return std::move(*reply);
  SMC_ASSERT(reply.error().code == Errc::kExhausted);
  fuzz::reached("an answer that is too long");
  return std::nullopt;
}

void check_reply(const HttpsReply& reply) {
  SMC_ASSERT(reply.status != 0);
  SMC_ASSERT(reply.body.size() <= kReplyMax, reply.body.size());
  fuzz::reached("reply with status " + std::to_string(reply.status / 100) + "xx");
  if (!reply.body.empty()) fuzz::reached("reply with a body");
  if (cni::node::parse_pod_page(reply.body)) fuzz::reached("a page of pods");
  (void)cni::node::read_rollout(reply.body).complete();
  ctl::ClusterAccess access;
  access.server = "https://h";
  const ctl::ApiAnswer answer = ctl::answer_of({.path = "/p"}, reply, access);
  SMC_ASSERT(!answer.good() || reply.status / 100 == 2, reply.status);
  SMC_ASSERT(answer.trouble.size() < 1024, answer.trouble.size());
  fuzz::reached(answer.good() ? "answer accepted" : "answer refused");
}

void check_own_client(const std::string& bytes) {
  const auto reply = fairlead::event::parse_http_reply(bytes);
  if (!reply) return fuzz::reached_refusal(reply.error().what);
  SMC_ASSERT(reply->body.size() < bytes.size());
  SMC_ASSERT(bytes.find(reply->body) != std::string::npos);
  fuzz::reached("own client: reply");
  const auto json = ctl::read_json(reply->body);
  if (!json) return;
  fuzz::reached("own client: JSON");
  for (const std::string& text : {ctl::stats_text(*json), ctl::decisions_text(*json, true),
                                  ctl::checks_text(ctl::checks_from(*json))})
    for (const char c : ctl::printable_lines(text))
      SMC_ASSERT((c >= ' ' && c <= '~') || c == '\n', c);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  check_own_client(bytes);
  if (const auto reply = call(bytes))
    check_reply(*reply);
  else
    fuzz::reached("no reply");
  return 0;
}
