#include "ctl/cluster/cluster_client.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/linux/handle.h"
#include "base/result.h"
#include "ctl/http_client.h"
#include "ctl/timed_socket.h"
#include "event/http/http_status.h"

namespace fairlead::ctl {
namespace {

using json::Json;

constexpr json::Limits kAnswerLimits{event::kHttpsReplyBytesMax, 64, 500'000};
constexpr unsigned kPageSize = 50;  // nodes are long, for their lists of images
constexpr std::size_t kMessageCharsMax = 300;

using AddressList = Handle<addrinfo, ::freeaddrinfo>;

Result<AddressList, std::string> look_up(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (error != 0) return tl::unexpected(std::string(::gai_strerror(error)));
  return AddressList(list);
}

std::string numeric(const addrinfo& address) {
  std::array<char, NI_MAXHOST> text{};
  if (::getnameinfo(address.ai_addr, address.ai_addrlen, text.data(), text.size(), nullptr, 0,
                    NI_NUMERICHOST) != 0)
    return {};
  return text.data();
}

std::string sentence_of(const event::HttpsRequest& request, const ApiAnswer& answer,
                        const ClusterAccess& access) {
  if (http_status::is_success(answer.status)) return {};
  if (answer.status == http_status::kUnauthorized)
    return "the API server does not know the credentials of context \"" + access.context +
           "\" (status 401): the token is wrong or expired, or the certificate is of another "
           "cluster";
  std::string message = json::text_of(json::member(answer.body, "message"));
  if (message.size() > kMessageCharsMax) message.resize(kMessageCharsMax);
  return request.method + " " + request.path + ": status " + std::to_string(answer.status) +
         (message.empty() ? "" : ", " + message);
}

}  // namespace

ApiAnswer answer_of(const event::HttpsRequest& request, const event::HttpsReply& reply,
                    const ClusterAccess& access) {
  ApiAnswer answer;
  answer.status = reply.status;
  auto body = json::parse(reply.body, kAnswerLimits);
  if (body) answer.body = std::move(*body);
  answer.trouble = sentence_of(request, answer, access);
  answer.too_long = !body && answer.trouble.empty() && !body.error().starts_with("not JSON");
  if (!body && answer.trouble.empty())
    answer.trouble = access.server + ": " + request.path + ": the answer is no JSON of an API " +
                     "server: " + body.error();
  return answer;
}

Result<ClusterClient, std::string> ClusterClient::connect(ClusterAccess access, Duration timeout) {
  const std::string where =
      access.server + " (kubeconfig " + access.file + ", context " + access.context + ")";
  const auto addresses = look_up(access.host, access.target.port);
  if (!addresses)
    return tl::unexpected(where + ": the host \"" + access.host +
                          "\" cannot be looked up: " + addresses.error());
  int error = ENOENT;
  for (const addrinfo* one = addresses->get(); one != nullptr; one = one->ai_next) {
    const TimePoint deadline = std::chrono::steady_clock::now() + timeout;
    const auto connected = connect_to(one->ai_addr, one->ai_addrlen, deadline, "connect");
    if (!connected) {
      const bool late = connected.error().code == Errc::kTimedOut;
      error = late ? ETIMEDOUT : connected.error().system;
      continue;
    }
    access.target.host = numeric(*one);
    return ClusterClient(std::move(access), timeout);
  }
  return tl::unexpected(where + ": no connection: " + std::strerror(error) +
                        "; is the API server up, and reachable from here?");
}

ApiAnswer ClusterClient::call(event::HttpsRequest request) const {
  request.path = access_.base_path + request.path;
  request.bearer = access_.token;
  if (!request.body.empty()) request.content_type = "application/json";
  ApiAnswer answer;
  const auto reply = event::https_call(access_.target, request, timeout_);
  if (!reply) {
    answer.too_long = reply.error().code == Errc::kExhausted;
    answer.trouble = access_.server + ": " + request.method + " " + request.path + ": ";
    if (reply.error().code == Errc::kPermission)
      answer.trouble +=
          "the server's certificate is not one to trust: " + std::string(reply.error().what) +
          "; compare clusters[].cluster.certificate-authority in " + access_.file;
    else
      answer.trouble += to_string(reply.error());
    return answer;
  }
  return answer_of(request, *reply, access_);
}

ApiAnswer ClusterClient::get(const std::string& path) const {
  return call({"GET", path, "", "", ""});
}

ApiAnswer ClusterClient::post(const std::string& path, const Json& body) const {
  return call({"POST", path, "", "", body.dump(-1, ' ', false, Json::error_handler_t::replace)});
}

ApiAnswer ClusterClient::list(const std::string& path) const {
  const std::string first = path + (path.find('?') == std::string::npos ? "?" : "&") + "limit=";
  Json items = Json::array();
  std::string next;
  unsigned limit = kPageSize;
  for (unsigned page = 0;; ++page) {
    const std::string place = next.empty() ? "" : "&continue=" + percent_encoded(next);
    ApiAnswer answer = get(first + std::to_string(limit) + place);
    if (answer.too_long && limit > 1) {
      limit /= 2;
      continue;
    }
    if (answer.too_long)
      answer.trouble += "; one object of the list is longer than " +
                        std::to_string(event::kHttpsReplyBytesMax) + " bytes";
    if (!answer.good()) return answer;
    for (const Json& item : json::items_of(json::member(answer.body, "items")))
      if (items.size() < kClusterItemsMax) items.push_back(item);
    next = json::text_of(json::member(answer.body, "metadata", "continue"));
    if (!next.empty() && items.size() < kClusterItemsMax) {
      if (page + 1 < kClusterPagesMax) continue;
      answer.trouble = "GET " + path + ": the list does not end after " +
                       std::to_string(kClusterPagesMax) + " pages";
      return answer;
    }
    answer.body = Json{{"items", std::move(items)}};
    return answer;
  }
}

}  // namespace fairlead::ctl
