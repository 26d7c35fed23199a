// The certificate and key of an HTTPS server, which can be replaced while it serves: connections
// that are open keep theirs, new ones get the new.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "event/http/http_server.h"

struct ssl_ctx_st;

namespace fairlead::event {

class TlsIdentity {
 public:
  TlsIdentity();
  ~TlsIdentity();

  // `chain_pem`: the certificate, then those of its issuers. Errors: kMalformed, also when the two
  // do not belong together; then everything stays as it was. Server's thread, or before run().
  Result<void> load(const std::string& chain_pem, const std::string& key_pem);
  bool is_loaded() const { return context_ != nullptr; }

  // For HttpServer::create(); *this must outlive the server. REQUIRES: load() has succeeded before
  // the server listens; where there is no such stream, libevent makes one without TLS.
  HttpStreamMaker stream_maker();

 private:
  struct Free {
    void operator()(::ssl_ctx_st* context) const noexcept;
  };
  std::unique_ptr<::ssl_ctx_st, Free> context_;
};

}  // namespace fairlead::event
