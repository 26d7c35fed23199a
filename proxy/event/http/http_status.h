// Status codes of HTTP that Fairlead gives or understands (RFC 9110).
#pragma once

namespace fairlead::http_status {

inline constexpr int kOk = 200;
inline constexpr int kCreated = 201;
inline constexpr int kAccepted = 202;
inline constexpr int kBadRequest = 400;
inline constexpr int kUnauthorized = 401;
inline constexpr int kForbidden = 403;
inline constexpr int kNotFound = 404;
inline constexpr int kMethodNotAllowed = 405;
inline constexpr int kConflict = 409;
inline constexpr int kGone = 410;
inline constexpr int kUnprocessableContent = 422;
inline constexpr int kTooManyRequests = 429;
inline constexpr int kInternalServerError = 500;
inline constexpr int kServiceUnavailable = 503;

constexpr bool is_success(int status) { return status >= 200 && status <= 299; }
constexpr bool is_client_error(int status) { return status >= 400 && status <= 499; }

}  // namespace fairlead::http_status
