#include "cni/node/pod_places.h"

#include <ifaddrs.h>
#include <linux/magic.h>
#include <net/if.h>
#include <sys/vfs.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/handle.h"
#include "cni/files.h"

namespace fairlead::cni::node {
namespace {

constexpr int kCgroupDepthMax = 4;

// Of the namespace that the thread is in: address and interface.
std::vector<std::pair<SocketAddress, std::string>> present_addresses() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return {};
  const Handle<ifaddrs, ::freeifaddrs> list(first);
  std::vector<std::pair<SocketAddress, std::string>> present;
  for (const ifaddrs* one = list.get(); one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || (one->ifa_flags & IFF_LOOPBACK) != 0) continue;
    const auto length =
        one->ifa_addr->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    const auto address = SocketAddress::from(one->ifa_addr, static_cast<socklen_t>(length));
    if (address) present.emplace_back(address->with_port(0), one->ifa_name);
  }
  return present;
}

std::optional<SocketAddress> without_port(const std::string& text) {
  const bool v6 = text.find(':') != std::string::npos;
  const auto address = SocketAddress::parse(v6 ? "[" + text + "]:0" : text + ":0");
  return address ? std::optional(*address) : std::nullopt;
}

bool is_cgroup2(const std::string& path) {
  struct statfs where {};
  return ::statfs(path.c_str(), &where) == 0 && where.f_type == CGROUP2_SUPER_MAGIC;
}

// Looks for a directory with a name that `is_it` knows, below those of the kubelet.
class Search {
 public:
  explicit Search(std::string_view uid) : plain_("pod" + std::string(uid)), slice_(plain_) {
    std::replace(slice_.begin(), slice_.end(), '-', '_');
    slice_ += ".slice";
  }

  std::optional<std::filesystem::path> below(const std::filesystem::path& folder, int depth) {
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
      if (++looked_at_ > kCgroupsLookedAtMax) return std::nullopt;
      if (!entry.is_directory(ignored)) continue;
      const std::string name = entry.path().filename();
      if (name == plain_ || name.ends_with("-" + slice_)) return entry.path();
      const bool kubelets = depth > 0 || name.find("kube") != std::string::npos;
      if (!kubelets || depth >= kCgroupDepthMax) continue;
      if (auto found = below(entry.path(), depth + 1)) return found;
    }
    return std::nullopt;
  }

 private:
  std::string plain_;
  std::string slice_;
  std::size_t looked_at_ = 0;
};

}  // namespace

NetnsAddresses NetnsAddresses::read(const std::string& folder) {
  NetnsAddresses all;
  std::size_t entered = 0;
  for (const std::string& name : names_in(folder)) {
    if (++entered > kNamespacesMax) break;
    const std::string path = folder + "/" + name;
    const Result<Netns> netns = Netns::open(path);
    if (!netns) continue;
    const Result<NetnsVisit> visit = NetnsVisit::enter(*netns);
    if (!visit) continue;
    for (auto& [address, ifname] : present_addresses())
      all.found_.emplace(address, PodNetns{path, netns->identity(), std::move(ifname)});
  }
  return all;
}

tl::expected<PodNetns, std::string> NetnsAddresses::find(
    const std::vector<std::string>& addresses) const {
  std::optional<PodNetns> found;
  for (const std::string& text : addresses) {
    const auto address = without_port(text);
    const auto [first, last] =
        address ? found_.equal_range(*address) : std::pair(found_.end(), found_.end());
    if (first == last) return tl::unexpected("no network namespace has the address " + text);
    for (auto one = first; one != last; ++one) {
      if (found && found->identity != one->second.identity)
        return tl::unexpected("two network namespaces have the address " + text);
      if (!found) found = one->second;
    }
  }
  if (!found) return tl::unexpected(std::string("the pod has no address"));
  return *found;
}

Result<std::string> find_pod_cgroup(const std::string& root, std::string_view uid) {
  const std::string base = is_cgroup2(root) ? root : root + "/unified";
  if (!is_cgroup2(base)) return Error{Errc::kNotFound, "cgroup version 2 hierarchy"};
  const auto found = Search(uid).below(base, 0);
  if (!found) return Error{Errc::kNotFound, "cgroup of the pod in the version 2 hierarchy"};
  return found->string();
}

}  // namespace fairlead::cni::node
