#include "event/https/api_server.h"
#include "base/linux/files.h"
#include "base/result.h"

#include <charconv>
#include <cstdlib>
#include <string_view>

namespace fairlead::event {
namespace {

constexpr const char* kAccountFolder = "/var/run/secrets/kubernetes.io/serviceaccount";
constexpr std::size_t kAccountFileBytesMax = 1 << 20;
constexpr const char* kJsonType = "application/json";

std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

}  // namespace

Result<ApiServer, std::string> ApiServer::from_pod() {
  const char* host = std::getenv("KUBERNETES_SERVICE_HOST");
  const char* port = std::getenv("KUBERNETES_SERVICE_PORT");
  if (host == nullptr || port == nullptr)
    return tl::unexpected(
        std::string("KUBERNETES_SERVICE_HOST and _PORT are not set, as they are in a pod"));
  HttpsTarget target;
  target.host = host;
  const std::string_view digits = port;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), target.port);
  if (error != std::errc{} || end != digits.data() + digits.size())
    return tl::unexpected("KUBERNETES_SERVICE_PORT: \"" + std::string(digits) +
                          "\" is not allowed; allowed: a port");
  const char* folder = std::getenv("FAIRLEAD_SERVICE_ACCOUNT");
  const std::string account = folder != nullptr ? folder : kAccountFolder;
  target.ca_pem = read_file(account + "/ca.crt", kAccountFileBytesMax).value_or("");
  return ApiServer(std::move(target), account + "/token");
}

std::string ApiServer::token() const {
  return trimmed(read_file(token_file_, kAccountFileBytesMax).value_or(""));
}

Result<HttpsReply, std::string> ApiServer::send(HttpsRequest request) const {
  request.bearer = token();
  if (!request.body.empty() && request.content_type.empty()) request.content_type = kJsonType;
  auto reply = https_call(target_, request, kCallMax);
  if (!reply)
    return tl::unexpected(request.method + " " + request.path + ": " + to_string(reply.error()));
  return std::move(*reply);
}

}  // namespace fairlead::event
