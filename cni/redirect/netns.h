// Network namespaces of pods.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "base/linux/handle.h"
#include "base/result.h"

namespace fairlead::cni {

// Identifies a namespace, because its path can be used again for another one.
struct NetnsIdentity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  friend bool operator==(const NetnsIdentity&, const NetnsIdentity&) = default;
};

class Netns {
 public:
  // Errors: kNotFound, kMalformed when the path is no network namespace, those of open(2).
  static Result<Netns> open(const std::string& path);
  NetnsIdentity identity() const { return identity_; }

 private:
  friend class NetnsVisit;
  Netns(FileDescriptor fd, NetnsIdentity identity) : fd_(std::move(fd)), identity_(identity) {}
  FileDescriptor fd_;
  NetnsIdentity identity_;
};

// The calling thread is in the namespace while the object lives. Needs CAP_SYS_ADMIN, unless the
// thread is there already.
class NetnsVisit {
 public:
  static Result<NetnsVisit> enter(const Netns& netns);
  NetnsVisit(NetnsVisit&&) noexcept = default;
  NetnsVisit& operator=(NetnsVisit&&) = delete;
  ~NetnsVisit();

 private:
  explicit NetnsVisit(FileDescriptor home) : home_(std::move(home)) {}
  FileDescriptor home_;
};

}  // namespace fairlead::cni
