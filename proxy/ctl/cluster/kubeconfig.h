// The kubeconfig of a person or a script: which cluster, and as whom. Reads files, opens no
// connection.
// Source: Kubernetes reference, "kubeconfig (v1)".
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "event/https/https_client.h"

namespace fairlead::ctl {

// Of one file; beyond it the file is refused.
inline constexpr std::size_t kKubeconfigBytesMax = 1 << 20;

struct ClusterAccess {
  std::string file;           // where the context is written
  std::string context;        // its name
  std::string server;         // the URL as it is written
  std::string host;           // of the URL: a name or an address
  std::string base_path;      // of the URL, without a slash at its end
  event::HttpsTarget target;  // without `host`, which has to be looked up
  std::string token;          // empty for none
  std::string name_space;     // of the context; "default" where it names none
};

// `option` is a file; empty: those of the variable KUBECONFIG, else ~/.kube/config.
std::vector<std::string> kubeconfig_files(const std::string& option);

// What kubeconfig files are read with.
struct FileSource {
  // False only for a file that is certainly not there.
  std::function<bool(const std::string& path)> exists;
  // Content of at most kKubeconfigBytesMax. The error says why there is none.
  std::function<Result<std::string, std::string>(const std::string& path)> read;
};
FileSource disk_files();

// The access of `context`; empty: the current one. Of several files the first that has a cluster, a
// user, a context or a current context of a name counts. Credentials are a token, a file with a
// token, or a client certificate that is valid at `now`. The error names file and field, and says
// what to do.
Result<ClusterAccess, std::string> read_kubeconfig(const std::vector<std::string>& files,
                                                   const std::string& context,
                                                   std::chrono::system_clock::time_point now,
                                                   const FileSource& source = disk_files());

}  // namespace fairlead::ctl
