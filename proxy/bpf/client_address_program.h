// The eBPF programs that report the client's address to applications, attached to a cgroup, and the
// map that they read. What a proxy without privileges does with the map is in client_address_map.h.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/linux/handle.h"
#include "base/result.h"
#include "bpf/refusal.h"

namespace fairlead::bpf {

// Attached as long as the object lives; the kernel detaches it when the process dies. Any number
// of them can be attached to one cgroup. For a proxy with CAP_BPF and CAP_NET_ADMIN.
class ClientAddressProgram {
 public:
  // `cgroup` is a cgroup v2 directory that holds the application; empty means that of this process.
  // Errors, told apart by `what`: no cgroup2 hierarchy (kNotFound), capabilities missing
  // (kPermission), a kernel before 5.8 (kUnsupported), the cgroup excludes further programs
  // (kPermission). refusal() has libbpf's own words. It sets libbpf's process-wide
  // log function.
  // `netns_cookie` of own_netns_cookie(): sockets of other network namespaces are left alone, where
  // proxies of several share the cgroup. 0: none is.
  static Result<ClientAddressProgram> attach(const std::string& cgroup = {},
                                             std::uint64_t netns_cookie = 0);

  // The map's descriptor. Valid as long as the object.
  int map_descriptor() const;

  ClientAddressProgram(ClientAddressProgram&&) noexcept;
  ClientAddressProgram& operator=(ClientAddressProgram&&) noexcept;
  ~ClientAddressProgram();

 private:
  struct Attached;
  explicit ClientAddressProgram(std::unique_ptr<Attached> attached);

  std::unique_ptr<Attached> attached_;
};

// What the kernel calls the network namespace of the calling thread; 0 before Linux 5.14.
std::uint64_t own_netns_cookie();

// The same, attached until detach_client_address() or until the cgroup goes: for programs that do
// not stay, such as a CNI plugin. Once is enough; a second call finds the first.
Result<void> attach_client_address(const std::string& cgroup);

// The id of the map of the programs that attach_client_address() left at the cgroup; 0 when it has
// not been there.
Result<std::uint32_t> find_client_address_map(const std::string& cgroup);

// The map of this id, for the process that hands it to the proxy; needs CAP_SYS_ADMIN, but not to
// see the cgroup. Errors: kNotFound when it is gone with its cgroup, or is another map.
Result<FileDescriptor> open_client_address_map(std::uint32_t id);

// A cgroup that is gone, or has no such program, is no error. What the application asks for
// later is the address of the proxy's socket.
Result<void> detach_client_address(const std::string& cgroup);

}  // namespace fairlead::bpf
