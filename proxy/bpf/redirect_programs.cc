#include "bpf/redirect_programs.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <linux/magic.h>
#include <linux/nsfs.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include "base/linux/files.h"
#include "base/linux/handle.h"
#include "bpf/cgroup_programs.h"
#include "bpf/client_address_program.h"
#include "redirect_answer.skel.h"
#include "redirect_arrival.skel.h"
#include "redirect_connect.skel.h"

namespace fairlead::bpf {
namespace {

using ConnectSkeleton = Handle<redirect_connect_bpf, redirect_connect_bpf__destroy>;
using AnswerSkeleton = Handle<redirect_answer_bpf, redirect_answer_bpf__destroy>;
using ArrivalSkeleton = Handle<redirect_arrival_bpf, redirect_arrival_bpf__destroy>;
using Link = Handle<bpf_link, bpf_link__destroy>;
using Interfaces = std::unique_ptr<struct if_nameindex, decltype(&if_freenameindex)>;
using InterfaceAddresses = std::unique_ptr<ifaddrs, decltype(&freeifaddrs)>;

constexpr LoadComplaints kComplaints{.too_old = "kernel without what the redirect needs (5.10)",
                                     .other = "loading the redirect programs"};

// In the order in which they are attached: the programs at connect(2) need all others.
struct Hook {
  const char* name;  // as in redirect_connect.bpf.c
  bpf_attach_type type;
};
constexpr Hook kHooks[] = {
    {"fairlead_ops", BPF_CGROUP_SOCK_OPS},
    {"fairlead_name4", BPF_CGROUP_INET4_GETSOCKNAME},
    {"fairlead_name6", BPF_CGROUP_INET6_GETSOCKNAME},
    {"fairlead_peer4", BPF_CGROUP_INET4_GETPEERNAME},
    {"fairlead_peer6", BPF_CGROUP_INET6_GETPEERNAME},
    {"fairlead_conn4", BPF_CGROUP_INET4_CONNECT},
    {"fairlead_conn6", BPF_CGROUP_INET6_CONNECT},
};
constexpr const char* kSynName = "fairlead_syn";
constexpr const char* kAnswerName = "fairlead_answer";
constexpr const char* kLookupName = "fairlead_lookup";

// The kernel attaches a program to a network namespace only by a link, which lives as long as
// somebody has it. A pin in this folder has it, as long as the pod may need it.
constexpr const char* kBpfFileSystem = "/sys/fs/bpf";
constexpr const char* kPinFolder = "/sys/fs/bpf/fairlead";

// Of our filter on each interface. Others choose low numbers by habit; the kernel runs these first.
constexpr __u32 kFilterHandle = 0xfa1;
constexpr __u32 kFilterThatSet = 0xfa2;  // on lo: tcp_fastopen was set for it
constexpr __u32 kFilterPriority = 0xfa1e;

// Bit of net.ipv4.tcp_fastopen that lets listeners ask for it; for IPv6, too.
constexpr const char* kFastOpenSetting = "/proc/sys/net/ipv4/tcp_fastopen";
constexpr unsigned kFastOpenOfServers = 2;

// Calls `visit` with the index and name of each interface of the calling thread's network namespace
// but lo, until it fails.
template <class Visit>
Result<void> for_each_interface(Visit visit) {
  const Interfaces interfaces(if_nameindex(), if_freenameindex);
  if (!interfaces) return system_error("interfaces of the pod", errno);
  for (const struct if_nameindex* one = interfaces.get(); one->if_index != 0; ++one)
    if (std::strcmp(one->if_name, "lo") != 0) SMC_TRY(visit(one->if_index, one->if_name));
  return {};
}

bpf_tc_hook ingress_of(unsigned interface) {
  bpf_tc_hook hook{};
  hook.sz = sizeof hook;
  hook.ifindex = static_cast<int>(interface);
  hook.attach_point = BPF_TC_INGRESS;
  return hook;
}

bpf_tc_opts our_filter(__u32 handle) {
  bpf_tc_opts options{};
  options.sz = sizeof options;
  options.handle = handle;
  options.priority = kFilterPriority;
  return options;
}

Result<void> attach_filter(unsigned interface, const bpf_program* program,
                           __u32 handle = kFilterHandle) {
  bpf_tc_hook hook = ingress_of(interface);
  if (const int rc = bpf_tc_hook_create(&hook); rc != 0 && rc != -EEXIST)
    return system_error("clsact queueing discipline of an interface of the pod", -rc);
  bpf_tc_opts options = our_filter(handle);
  options.prog_fd = bpf_program__fd(program);
  options.flags = BPF_TC_F_REPLACE;
  if (const int rc = bpf_tc_attach(&hook, &options); rc != 0)
    return system_error("tc filter of an interface of the pod", -rc);
  return {};
}

// The number of our program on the interface, 0 for none.
Result<__u32> filter_of(unsigned interface, __u32 handle = kFilterHandle) {
  const bpf_tc_hook hook = ingress_of(interface);
  bpf_tc_opts options = our_filter(handle);
  const int rc = bpf_tc_query(&hook, &options);
  if (rc == -ENOENT || rc == -EINVAL || rc == -EOPNOTSUPP) return __u32{0};  // no such qdisc either
  if (rc != 0) return system_error("tc filters of an interface of the pod", -rc);
  return options.prog_id;
}

Result<void> detach_filter(unsigned interface, __u32 handle) {
  if (SMC_TRY(filter_of(interface, handle)) == 0) return {};
  // The queueing discipline stays: it does nothing by itself, and others may use it.
  const bpf_tc_hook hook = ingress_of(interface);
  const bpf_tc_opts options = our_filter(handle);
  if (const int rc = bpf_tc_detach(&hook, &options); rc != 0 && rc != -ENOENT)
    return system_error("tc filter of an interface of the pod", -rc);
  return {};
}

// File systems of eBPF take no dots in names.
std::string path_of_pin(std::string name) {
  std::replace(name.begin(), name.end(), '.', '_');
  return std::string(kPinFolder) + "/" + name;
}

Result<void> require_bpf_file_system() {
  struct statfs where {};
  if (::statfs(kBpfFileSystem, &where) != 0) return system_error(kBpfFileSystem, errno);
  if (where.f_type == BPF_FS_MAGIC) return {};
  return Error{Errc::kNotFound, "the file system of eBPF is not mounted on /sys/fs/bpf"};
}

// Where others may write to the file system, somebody else may have made the folder first.
Result<void> make_pin_folder() {
  SMC_TRY(require_bpf_file_system());
  if (::mkdir(kPinFolder, 0700) != 0 && errno != EEXIST) return system_error(kPinFolder, errno);
  struct stat status {};
  if (::lstat(kPinFolder, &status) != 0) return system_error(kPinFolder, errno);
  if (!S_ISDIR(status.st_mode) || status.st_uid != 0)
    return Error{Errc::kPermission, "/sys/fs/bpf/fairlead is no folder of root's"};
  return {};
}

// The programs know the sidecar by its uid in the initial user namespace.
Result<void> require_initial_users(int netns) {
  const FileDescriptor users(::ioctl(netns, NS_GET_USERNS));
  struct stat owner {};
  struct stat own {};
  if (!users || ::fstat(users.get(), &owner) != 0 || ::stat("/proc/self/ns/user", &own) != 0)
    return system_error("user namespace of the pod", errno);
  if (owner.st_ino != own.st_ino || owner.st_dev != own.st_dev)
    return Error{Errc::kUnsupported, "the pod has a user namespace of its own (hostUsers: false)"};
  return {};
}

Result<void> attach_lookup(const std::string& pin, const bpf_program* program) {
  SMC_TRY(make_pin_folder());
  const FileDescriptor netns(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
  if (!netns) return system_error("network namespace of the pod", errno);
  SMC_TRY(require_initial_users(netns.get()));
  Link link(bpf_program__attach_netns(program, netns.get()));
  if (!link) return system_error("attaching a program to the network namespace of the pod", errno);
  if (const int rc = bpf_link__pin(link.get(), pin.c_str()); rc != 0)
    return system_error("pinning the link to the network namespace of the pod", -rc);
  return {};
}

// The number of the program that the pin has attached to a network namespace, 0 for none.
Result<__u32> program_of(const std::string& pin) {
  const FileDescriptor link(bpf_obj_get(pin.c_str()));
  if (!link && errno == ENOENT) return __u32{0};
  if (!link) return system_error("link to the network namespace of the pod", errno);
  bpf_link_info info{};
  __u32 length = sizeof info;
  if (bpf_obj_get_info_by_fd(link.get(), &info, &length) != 0)
    return system_error("link to the network namespace of the pod", errno);
  const bool attached = info.type == BPF_LINK_TYPE_NETNS && info.netns.netns_ino != 0;
  return attached ? info.prog_id : 0;
}

Result<void> remove_pin(const std::string& pin) {
  if (::unlink(pin.c_str()) == 0 || errno == ENOENT || errno == ENOTDIR) return {};
  return system_error("pin of the link to a network namespace", errno);
}

fairlead_block block_of(const Cidr& cidr) {
  fairlead_block block{};
  auto* bytes = reinterpret_cast<std::uint8_t*>(block.address);
  const auto network = cidr.network();
  block.prefix_length = cidr.prefix_length();
  if (cidr.family() == AF_INET) {
    bytes[10] = bytes[11] = 0xff;
    std::copy_n(network.begin(), sizeof(in_addr), bytes + 12);
    block.prefix_length += 96;
  } else {
    std::copy(network.begin(), network.end(), bytes);
  }
  return block;
}

// An address of an interface, and the block on its link.
struct LinkAddress {
  SocketAddress address;
  Cidr block;
  bool on_loopback = false;
};

std::array<std::uint8_t, 16> bytes_of(const SocketAddress& address) {
  std::array<std::uint8_t, 16> bytes{};
  std::copy(address.bytes().begin(), address.bytes().end(), bytes.begin());
  return bytes;
}

std::optional<SocketAddress> address_in(const sockaddr* address) {
  if (address == nullptr || (address->sa_family != AF_INET && address->sa_family != AF_INET6))
    return std::nullopt;
  const socklen_t length =
      address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  const Result<SocketAddress> found = SocketAddress::from(address, length);
  if (!found) return std::nullopt;
  return found->with_port(0);
}

// The block that has this address only.
Cidr alone(const SocketAddress& address) {
  return Cidr::around(address.family(), bytes_of(address),
                      static_cast<unsigned>(address.bytes().size()) * 8);
}

unsigned prefix_length_of(const SocketAddress& mask) {
  unsigned length = 0;
  for (const std::uint8_t byte : mask.bytes()) length += static_cast<unsigned>(std::popcount(byte));
  return length;
}

// Of the network namespace of the calling thread.
Result<std::vector<LinkAddress>> link_addresses() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return system_error("addresses of the pod", errno);
  const InterfaceAddresses owner(list, freeifaddrs);
  std::vector<LinkAddress> addresses;
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    const auto address = address_in(one->ifa_addr);
    const auto mask = address_in(one->ifa_netmask);
    if (!address || !mask || mask->family() != address->family()) continue;
    addresses.push_back(
        {*address, Cidr::around(address->family(), bytes_of(*address), prefix_length_of(*mask)),
         std::strcmp(one->ifa_name, "lo") == 0});
  }
  return addresses;
}

// Never through the sidecar: the pod itself, and what only one link knows.
std::vector<Cidr> near_blocks(const std::vector<LinkAddress>& own) {
  std::vector<Cidr> near;
  for (const char* text : {"0.0.0.0/32", "127.0.0.0/8", "::/128", "::1/128", "fe80::/10"})
    near.push_back(*Cidr::parse(text));
  for (const LinkAddress& one : own) near.push_back(alone(one.address));
  return near;
}

Result<void> fill_blocks(const bpf_map* map, const std::vector<Cidr>& blocks) {
  const __u32 present = 1;
  for (const Cidr& block : blocks) {
    const fairlead_block key = block_of(block);
    if (bpf_map_update_elem(bpf_map__fd(map), &key, &present, BPF_ANY) == 0) continue;
    if (errno == ENOSPC)
      return Error{Errc::kExhausted, "blocks of addresses: more than the programs take (512)"};
    return system_error("writing the addresses to redirect", errno);
  }
  return {};
}

// One of the lists of redirect.h.
struct PortList {
  __u32 number;
  const std::vector<kubernetes::PortRange>& ranges;
};

template <class Skeleton>
void announce_ports(Skeleton& skeleton, std::initializer_list<PortList> lists) {
  bool any = false;
  for (const PortList& list : lists) {
    skeleton.rodata->has_ports[list.number] = !list.ranges.empty();
    any = any || !list.ranges.empty();
  }
  // Most pods have no list. The map of all ports would then be most of what the programs take.
  if (!any) (void)bpf_map__set_max_entries(skeleton.maps.ports, 1);
}

template <class Skeleton>
Result<void> fill_ports(const Skeleton& skeleton, std::initializer_list<PortList> lists) {
  for (const PortList& list : lists) {
    std::array<__u64, FAIRLEAD_REDIRECT_PORT_WORDS> words{};
    for (const kubernetes::PortRange& range : list.ranges)
      for (unsigned port = range.first; port <= range.last; ++port)
        words[port / 64] |= __u64{1} << (port % 64);
    for (__u32 i = 0; i < words.size(); ++i) {
      if (words[i] == 0) continue;
      const __u32 key = list.number * FAIRLEAD_REDIRECT_PORT_WORDS + i;
      if (bpf_map_update_elem(bpf_map__fd(skeleton.maps.ports), &key, &words[i], BPF_ANY) != 0)
        return system_error("writing the ports to redirect", errno);
    }
  }
  return {};
}

// IPv4 as ::ffff:a.b.c.d.
void write_mapped(const SocketAddress& address, __u32* words) {
  const fairlead_block block = block_of(alone(address));
  std::copy(std::begin(block.address), std::end(block.address), words);
}

// The first of the rules' addresses that the pod has is the main one of its family.
void set_own(redirect_connect_bpf& skeleton, const RedirectRules& rules,
             const std::vector<LinkAddress>& own) {
  for (const SocketAddress& wanted : rules.addresses) {
    const bool has = std::any_of(own.begin(), own.end(), [&wanted](const LinkAddress& one) {
      return one.address == wanted.with_port(0);
    });
    const std::size_t family = wanted.is_v4() ? 0 : 1;
    if (!has || skeleton.rodata->has_family[family]) continue;
    skeleton.rodata->has_family[family] = true;
    write_mapped(wanted, skeleton.rodata->own_address[family]);
  }
}

Result<void> fill_sources(const bpf_map* map, const std::vector<LinkAddress>& own) {
  for (const LinkAddress& one : own) {
    if (one.on_loopback || one.address.is_loopback()) continue;
    const fairlead_block key = block_of(one.block);
    std::array<__u32, 4> source{};
    write_mapped(one.address, source.data());
    // The first address of a block is the one that the kernel chooses. Beyond the limit, the main
    // address is reported.
    if (bpf_map_update_elem(bpf_map__fd(map), &key, source.data(), BPF_NOEXIST) != 0 &&
        errno != EEXIST && errno != ENOSPC)
      return system_error("writing the addresses of the pod", errno);
  }
  return {};
}

// connect(2) of Linux gives up about 130 seconds after the first of its SYNs, whose intervals
// double.
constexpr double kConnectSeconds = 128;

// The shortest timeout that the kernel knows is a jiffy.
void set_held(redirect_connect_bpf& skeleton) {
  timespec jiffy{};
  if (::clock_getres(CLOCK_MONOTONIC_COARSE, &jiffy) != 0 || jiffy.tv_nsec <= 0) return;
  const double seconds = static_cast<double>(jiffy.tv_nsec) / 1e9;
  skeleton.rodata->held_timeout = 1;
  skeleton.rodata->held_retries =
      static_cast<__u32>(std::lround(std::log2(kConnectSeconds / seconds))) - 1;
}

Result<ConnectSkeleton> load_connect(const RedirectRules& rules) {
  collect_complaints();
  ConnectSkeleton skeleton(redirect_connect_bpf__open());
  if (!skeleton) return load_error(errno, kComplaints);
  const std::vector<LinkAddress> own = SMC_TRY(link_addresses());
  skeleton->rodata->proxy_uid = rules.proxy_uid;
  skeleton->rodata->outbound_port = rules.outbound_port;
  skeleton->rodata->netns_cookie = own_netns_cookie();
  set_held(*skeleton);
  set_own(*skeleton, rules, own);
  const auto lists = {PortList{FAIRLEAD_REDIRECT_SKIP_OUTBOUND, rules.skip_outbound}};
  announce_ports(*skeleton, lists);
  if (const int rc = redirect_connect_bpf__load(skeleton.get()); rc != 0)
    return load_error(-rc, kComplaints);
  SMC_TRY(fill_ports(*skeleton, lists));
  SMC_TRY(fill_blocks(skeleton->maps.skipped, near_blocks(own)));
  SMC_TRY(fill_blocks(skeleton->maps.skipped, rules.skip));
  SMC_TRY(fill_blocks(skeleton->maps.included, rules.include));
  SMC_TRY(fill_sources(skeleton->maps.sources, own));
  return skeleton;
}

// Whether all interfaces of the calling thread's network namespace but lo have Ethernet headers.
bool has_ethernet_only() {
  const FileDescriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  return static_cast<bool>(for_each_interface([&](unsigned, const char* name) -> Result<void> {
    ifreq request{};
    std::strncpy(request.ifr_name, name, sizeof request.ifr_name - 1);
    const bool known = ::ioctl(socket.get(), SIOCGIFHWADDR, &request) == 0;
    if (known && request.ifr_hwaddr.sa_family == ARPHRD_ETHER) return {};
    return Error{Errc::kUnsupported, "an interface without Ethernet headers"};
  }));
}

Result<ArrivalSkeleton> load_arrival(const RedirectRules& rules) {
  ArrivalSkeleton skeleton(redirect_arrival_bpf__open());
  if (!skeleton) return load_error(errno, kComplaints);
  skeleton->rodata->outbound_port = rules.outbound_port;
  skeleton->rodata->inbound_port = rules.inbound_port;
  skeleton->rodata->ethernet = has_ethernet_only();
  const auto lists = {PortList{FAIRLEAD_REDIRECT_SKIP_INBOUND, rules.skip_inbound},
                      PortList{FAIRLEAD_REDIRECT_INCLUDE_INBOUND, rules.include_inbound}};
  announce_ports(*skeleton, lists);
  if (const int rc = redirect_arrival_bpf__load(skeleton.get()); rc != 0)
    return load_error(-rc, kComplaints);
  SMC_TRY(fill_ports(*skeleton, lists));
  return skeleton;
}

Result<AnswerSkeleton> load_answer(const RedirectRules& rules) {
  AnswerSkeleton skeleton(redirect_answer_bpf__open());
  if (!skeleton) return load_error(errno, kComplaints);
  skeleton->rodata->outbound_port = rules.outbound_port;
  if (const int rc = redirect_answer_bpf__load(skeleton.get()); rc != 0)
    return load_error(-rc, kComplaints);
  return skeleton;
}

// The setting of the network namespace of the calling thread; empty if it cannot be read.
std::optional<unsigned> fast_open() {
  const Result<std::string> text = read_file(kFastOpenSetting, 16);
  if (!text) return std::nullopt;
  return static_cast<unsigned>(std::strtoul(text->c_str(), nullptr, 10));
}

void set_fast_open(unsigned value) {
  const FileDescriptor file(::open(kFastOpenSetting, O_WRONLY | O_CLOEXEC));
  const std::string text = std::to_string(value);
  if (file) (void)!::write(file.get(), text.data(), text.size());
}

// Without the setting, connections of applications are not held. The filter comes first: whoever
// finds it later knows that the bit is ours.
Result<void> attach_answer(const redirect_answer_bpf& answer) {
  const unsigned loopback = ::if_nametoindex("lo");
  if (loopback == 0) return system_error("loopback interface of the pod", errno);
  const std::optional<unsigned> before = fast_open();
  const bool sets = before && (*before & kFastOpenOfServers) == 0;
  SMC_TRY(
      attach_filter(loopback, answer.progs.fairlead_answer, sets ? kFilterThatSet : kFilterHandle));
  if (sets) set_fast_open(*before | kFastOpenOfServers);
  return {};
}

// The number of the program on lo, 0 for none.
Result<__u32> answer_program() {
  const unsigned loopback = ::if_nametoindex("lo");
  if (loopback == 0) return __u32{0};
  const __u32 id = SMC_TRY(filter_of(loopback, kFilterHandle));
  return id != 0 ? Result<__u32>(id) : filter_of(loopback, kFilterThatSet);
}

Result<void> detach_answer() {
  const unsigned loopback = ::if_nametoindex("lo");
  if (loopback == 0) return {};
  SMC_TRY(detach_filter(loopback, kFilterHandle));
  if (SMC_TRY(filter_of(loopback, kFilterThatSet)) == 0) return {};
  if (const std::optional<unsigned> now = fast_open()) set_fast_open(*now & ~kFastOpenOfServers);
  return detach_filter(loopback, kFilterThatSet);
}

Result<void> attach_all(int cgroup, const std::string& pin, const redirect_answer_bpf& answer,
                        const redirect_arrival_bpf& arrival, const redirect_connect_bpf& connect) {
  SMC_TRY(attach_answer(answer));
  SMC_TRY(attach_lookup(pin, arrival.progs.fairlead_lookup));
  SMC_TRY(for_each_interface([&arrival](unsigned interface, const char*) {
    return attach_filter(interface, arrival.progs.fairlead_syn);
  }));
  for (const Hook& hook : kHooks) {
    const bpf_program* program = bpf_object__find_program_by_name(connect.obj, hook.name);
    SMC_TRY(attach_without_link(cgroup, hook.type, program));
  }
  return {};
}

}  // namespace

Result<void> check_redirect_programs() {
  SMC_TRY(require_bpf_file_system());
  SMC_TRY(load_connect(RedirectRules{}));
  SMC_TRY(load_arrival(RedirectRules{}));
  SMC_TRY(load_answer(RedirectRules{}));
  return {};
}

Result<RedirectReading> attach_redirect_programs(const RedirectPlace& place,
                                                 const RedirectRules& rules) {
  const FileDescriptor directory = SMC_TRY(open_cgroup(place.cgroup));
  const ConnectSkeleton connect = SMC_TRY(load_connect(rules));
  const ArrivalSkeleton arrival = SMC_TRY(load_arrival(rules));
  const AnswerSkeleton answer = SMC_TRY(load_answer(rules));
  // Two of the programs at one connect(2) would take the sidecar's address for a destination.
  SMC_TRY(detach_redirect_programs(place));
  if (const Result<void> attached =
          attach_all(directory.get(), path_of_pin(place.pin), *answer, *arrival, *connect);
      !attached) {
    (void)detach_redirect_programs(place);
    return Error(attached.error());
  }
  return read_redirect_programs(place);
}

Result<RedirectReading> read_redirect_programs(const RedirectPlace& place) {
  collect_complaints();
  const FileDescriptor directory = SMC_TRY(open_cgroup(place.cgroup));
  RedirectReading reading;
  const auto add = [&reading](const std::string& name, __u32 id) {
    if (id != 0) reading.push_back("program " + name + " " + std::to_string(id));
  };
  for (const Hook& hook : kHooks) {
    const FileDescriptor program = SMC_TRY(find_attached(directory.get(), hook.type, hook.name));
    if (!program) continue;
    bpf_prog_info info{};
    __u32 length = sizeof info;
    if (bpf_obj_get_info_by_fd(program.get(), &info, &length) != 0)
      return system_error("asking for a redirect program", errno);
    add(hook.name, info.id);
  }
  const Result<void> asked = for_each_interface([&add](unsigned interface, const char* name) {
    const Result<__u32> id = filter_of(interface);
    if (id) add(std::string(kSynName) + "/" + name, *id);
    return id ? Result<void>() : Result<void>(id.error());
  });
  if (!asked) return Error(asked.error());
  add(std::string(kAnswerName) + "/lo", SMC_TRY(answer_program()));
  add(kLookupName, SMC_TRY(program_of(path_of_pin(place.pin))));
  return reading;
}

Result<void> detach_redirect_programs(const RedirectPlace& place) {
  SMC_TRY(detach_redirect_programs_outside(place));
  return detach_redirect_filters();
}

Result<void> detach_redirect_filters() {
  collect_complaints();
  SMC_TRY(detach_answer());
  return for_each_interface(
      [](unsigned interface, const char*) { return detach_filter(interface, kFilterHandle); });
}

Result<void> detach_redirect_programs_outside(const RedirectPlace& place) {
  SMC_TRY(remove_pin(path_of_pin(place.pin)));
  const Result<FileDescriptor> directory = open_cgroup(place.cgroup);
  if (!directory && directory.error().code == Errc::kNotFound) return {};
  if (!directory) return Error(directory.error());
  for (std::size_t i = std::size(kHooks); i-- > 0;) {
    const Result<void> detached = detach_all(directory->get(), kHooks[i].type, kHooks[i].name);
    // A kernel without this hook has nothing to detach.
    if (!detached && detached.error().code != Errc::kUnsupported) return detached;
  }
  return {};
}

void remove_dead_pins() {
  for (const std::string& name : names_in(kPinFolder)) {
    const std::string pin = path_of_pin(name);
    const Result<__u32> program = program_of(pin);
    if (program && *program == 0) (void)remove_pin(pin);
  }
}

}  // namespace fairlead::bpf
