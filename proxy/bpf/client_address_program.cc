#include "bpf/client_address_program.h"

#include <bpf/bpf.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "bpf/cgroup_path.h"
#include "bpf/cgroup_programs.h"
#include "client_address.skel.h"

namespace fairlead::bpf {
namespace {

using Skeleton = Handle<client_address_bpf, client_address_bpf__destroy>;
using Link = Handle<bpf_link, bpf_link__destroy>;

// As in client_address.bpf.c.
constexpr const char* kName4 = "client_addr4";
constexpr const char* kName6 = "client_addr6";
constexpr const char* kMapName = "client_addrs";
constexpr bpf_attach_type kType4 = BPF_CGROUP_INET4_GETPEERNAME;
constexpr bpf_attach_type kType6 = BPF_CGROUP_INET6_GETPEERNAME;

constexpr LoadComplaints kComplaints{
    .too_old = "kernel without getpeername hooks for eBPF (before 5.8)",
    .other = "loading the client-address programs"};

Result<Skeleton> load_skeleton(std::uint64_t netns_cookie) {
  collect_complaints();
  Skeleton skeleton(client_address_bpf__open());
  if (!skeleton) return load_error(errno, kComplaints);
  skeleton->rodata->netns_cookie = netns_cookie;
  if (int rc = client_address_bpf__load(skeleton.get()); rc != 0)
    return load_error(-rc, kComplaints);
  return skeleton;
}

// The map of this program: the one with our name.
Result<std::uint32_t> map_of(int program) {
  std::array<__u32, 4> ids{};
  bpf_prog_info info{};
  info.nr_map_ids = ids.size();
  info.map_ids = reinterpret_cast<std::uintptr_t>(ids.data());
  __u32 length = sizeof info;
  if (bpf_obj_get_info_by_fd(program, &info, &length) != 0)
    return system_error("asking for the maps of the client-address program", errno);
  for (std::size_t i = 0; i < info.nr_map_ids && i < ids.size(); ++i)
    if (open_client_address_map(ids[i])) return ids[i];
  return Error{Errc::kNotFound, "map of the client-address program"};
}

}  // namespace

// In the order in which they are made: links die before the programs they hold.
struct ClientAddressProgram::Attached {
  Skeleton skeleton;
  Link ipv4, ipv6;
};

ClientAddressProgram::ClientAddressProgram(std::unique_ptr<Attached> attached)
    : attached_(std::move(attached)) {}
ClientAddressProgram::ClientAddressProgram(ClientAddressProgram&&) noexcept = default;
ClientAddressProgram& ClientAddressProgram::operator=(ClientAddressProgram&&) noexcept = default;
ClientAddressProgram::~ClientAddressProgram() = default;

std::uint64_t own_netns_cookie() {
  const FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  std::uint64_t cookie = 0;
  socklen_t length = sizeof cookie;
  constexpr int kNetnsCookie = 71;  // SO_NETNS_COOKIE, unknown to older headers
  if (::getsockopt(socket.get(), SOL_SOCKET, kNetnsCookie, &cookie, &length) != 0) return 0;
  return cookie;
}

Result<ClientAddressProgram> ClientAddressProgram::attach(const std::string& cgroup,
                                                          std::uint64_t netns_cookie) {
  const std::string path = cgroup.empty() ? SMC_TRY(own_cgroup_path()) : cgroup;
  const FileDescriptor directory = SMC_TRY(open_cgroup(path));
  auto attached = std::make_unique<Attached>();
  attached->skeleton = SMC_TRY(load_skeleton(netns_cookie));
  const client_address_bpf& skeleton = *attached->skeleton;
  attached->ipv4.reset(bpf_program__attach_cgroup(skeleton.progs.client_addr4, directory.get()));
  if (!attached->ipv4) return attach_error(errno);
  attached->ipv6.reset(bpf_program__attach_cgroup(skeleton.progs.client_addr6, directory.get()));
  if (!attached->ipv6) return attach_error(errno);
  return ClientAddressProgram(std::move(attached));
}

int ClientAddressProgram::map_descriptor() const {
  return bpf_map__fd(attached_->skeleton->maps.client_addrs);
}

Result<void> attach_client_address(const std::string& cgroup) {
  const FileDescriptor directory = SMC_TRY(open_cgroup(cgroup));
  // The one for IPv6 is attached last: where it is, all is.
  const FileDescriptor before = SMC_TRY(find_attached(directory.get(), kType6, kName6));
  if (before) return {};
  // A call that was killed half-way left the other one, with a map of its own.
  SMC_TRY(detach_client_address(cgroup));
  // One pod, one cgroup.
  const Skeleton skeleton = SMC_TRY(load_skeleton(0));
  SMC_TRY(attach_without_link(directory.get(), kType4, skeleton->progs.client_addr4));
  const Result<void> second =
      attach_without_link(directory.get(), kType6, skeleton->progs.client_addr6);
  if (!second) (void)detach_all(directory.get(), kType4, kName4);
  return second;
}

Result<std::uint32_t> find_client_address_map(const std::string& cgroup) {
  const FileDescriptor directory = SMC_TRY(open_cgroup(cgroup));
  const FileDescriptor program = SMC_TRY(find_attached(directory.get(), kType6, kName6));
  if (!program) return std::uint32_t{0};
  return map_of(program.get());
}

Result<FileDescriptor> open_client_address_map(std::uint32_t id) {
  FileDescriptor map(bpf_map_get_fd_by_id(id));
  if (!map) return system_error("map of the client-address programs", errno);
  bpf_map_info info{};
  __u32 length = sizeof info;
  if (bpf_obj_get_info_by_fd(map.get(), &info, &length) != 0)
    return system_error("map of the client-address programs", errno);
  if (std::strcmp(info.name, kMapName) != 0)
    return Error{Errc::kNotFound, "map of the client-address programs"};
  return map;
}

Result<void> detach_client_address(const std::string& cgroup) {
  const auto directory = open_cgroup(cgroup);
  if (!directory && directory.error().code == Errc::kNotFound) return {};
  if (!directory) return Error(directory.error());
  const Result<void> ipv6 = detach_all(directory->get(), kType6, kName6);
  const Result<void> ipv4 = detach_all(directory->get(), kType4, kName4);
  // A kernel without these hooks has nothing to detach.
  for (const Result<void>& result : {ipv6, ipv4})
    if (!result && result.error().code != Errc::kUnsupported) return result;
  return {};
}

}  // namespace fairlead::bpf
