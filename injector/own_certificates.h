// Self-managed certificates of the webhook: stored in a Secret that all replicas share, with the
// authority in the caBundle of the webhook configuration.
#pragma once

#include <string>

#include "injector/certificate.h"
#include "injector/cluster.h"

namespace fairlead::injector {

struct OwnNames {
  std::string name_space;
  std::string secret;         // must exist; the chart makes it empty
  std::string configuration;  // MutatingWebhookConfiguration
  std::string service;        // the leaf is for <service>.<name_space>.svc
};

class OwnCertificates {
 public:
  OwnCertificates(Cluster cluster, OwnNames names)
      : cluster_(std::move(cluster)), names_(std::move(names)) {}

  // Reads the Secret, renews certificates that are due, and updates the caBundle. The result is
  // safe to serve, because the API server already knows its authority. `renewed` counts renewals.
  Called<KeyPair> refresh(WallTime now, unsigned& renewed);

 private:
  // True if `data` was changed.
  Called<bool> renew(std::map<std::string, std::string, std::less<>>& data, WallTime now) const;

  Cluster cluster_;
  OwnNames names_;
};

// tls.crt and tls.key of a folder, as cert-manager and Secrets of type kubernetes.io/tls have them.
Called<KeyPair> read_certificate_files(const std::string& folder);

}  // namespace fairlead::injector
