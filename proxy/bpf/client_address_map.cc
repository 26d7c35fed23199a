#include "bpf/client_address_map.h"

#include <fcntl.h>
#include <linux/bpf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/assert.h"
#include "base/linux/handle.h"

namespace fairlead::bpf {
namespace {

constexpr std::size_t kFdInfoBytesMax = 4096;

std::size_t map_bytes() {
  const std::size_t page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t bytes = FAIRLEAD_CLIENT_SLOTS * sizeof(fairlead_client_entry);
  return (bytes + page - 1) / page * page;
}

// The number behind "name:" in a file of /proc/self/fdinfo, decimal or with 0x.
std::optional<std::uint64_t> field_of(std::string_view text, std::string_view name) {
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (!line.starts_with(name) || line.substr(name.size(), 1) != ":") continue;
    line.remove_prefix(name.size() + 1);
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    const bool hex = line.starts_with("0x");
    if (hex) line.remove_prefix(2);
    std::uint64_t value = 0;
    const auto [end, error] =
        std::from_chars(line.data(), line.data() + line.size(), value, hex ? 16 : 10);
    if (error != std::errc{} || end != line.data() + line.size()) return std::nullopt;
    return value;
  }
  return std::nullopt;
}

// Another process chose the descriptor. Only the kernel gives this name, which has no slash in
// front; the question does not block, whatever the descriptor is.
Result<void> check_is_map(int fd) {
  constexpr std::string_view kName = "anon_inode:bpf-map";
  std::array<char, 64> name{};
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t length = ::readlink(path.c_str(), name.data(), name.size());
  if (length < 0) return system_error("client-address map: readlink", errno);
  if (std::string_view(name.data(), static_cast<std::size_t>(length)) != kName)
    return Error{Errc::kMalformed, "client-address map: not a map of BPF"};
  return {};
}

// The kernel says what a map is to anybody who holds its descriptor: bpf(2) is not needed, which a
// seccomp profile may forbid.
Result<std::string> read_fdinfo(int map_fd) {
  SMC_TRY(check_is_map(map_fd));
  const std::string path = "/proc/self/fdinfo/" + std::to_string(map_fd);
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return system_error("client-address map: fdinfo", errno);
  std::string text(kFdInfoBytesMax, '\0');
  const ssize_t count = ::read(file.get(), text.data(), text.size());
  if (count < 0) return system_error("client-address map: fdinfo", errno);
  text.resize(static_cast<std::size_t>(count));
  return text;
}

Result<void> check_kind(int map_fd) {
  const std::string info = SMC_TRY(read_fdinfo(map_fd));
  if (field_of(info, "map_type") != std::uint64_t{BPF_MAP_TYPE_ARRAY})
    return Error{Errc::kMalformed, "client-address map: not an array"};
  if (field_of(info, "value_size") != sizeof(fairlead_client_entry))
    return Error{Errc::kMalformed, "client-address map: size of an entry"};
  if (field_of(info, "max_entries") != std::uint64_t{FAIRLEAD_CLIENT_SLOTS})
    return Error{Errc::kMalformed, "client-address map: number of entries"};
  const auto flags = field_of(info, "map_flags");
  if (!flags || (*flags & BPF_F_MMAPABLE) == 0)
    return Error{Errc::kMalformed, "client-address map: cannot be mapped"};
  return {};
}

std::uint32_t tag_of(std::uint32_t state, std::uint32_t generation, std::uint16_t source_port) {
  return std::uint32_t{source_port} << FAIRLEAD_CLIENT_TAG_PORT_SHIFT |
         generation << FAIRLEAD_CLIENT_TAG_GENERATION_SHIFT | state;
}

}  // namespace

Result<ClientAddressMap> ClientAddressMap::open(int map_fd) {
  SMC_TRY(check_kind(map_fd));
  void* memory = ::mmap(nullptr, map_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, map_fd, 0);
  if (memory == MAP_FAILED) return system_error("client-address map: mmap", errno);
  return ClientAddressMap(static_cast<fairlead_client_entry*>(memory));
}

Result<std::uint32_t> map_id(int map_fd) {
  const std::string info = SMC_TRY(read_fdinfo(map_fd));
  const auto id = field_of(info, "map_id");
  if (!id) return Error{Errc::kNotFound, "client-address map: map_id in fdinfo"};
  return static_cast<std::uint32_t>(*id);
}

ClientAddressMap::ClientAddressMap(ClientAddressMap&& other) noexcept
    : entries_(std::exchange(other.entries_, nullptr)) {}

ClientAddressMap& ClientAddressMap::operator=(ClientAddressMap&& other) noexcept {
  std::swap(entries_, other.entries_);
  return *this;
}

ClientAddressMap::~ClientAddressMap() {
  if (entries_ != nullptr) ::munmap(entries_, map_bytes());
}

void publish(fairlead_client_entry& entry, const ClientAddressClaim& claim) {
  SMC_ASSERT(claim.generation < FAIRLEAD_CLIENT_GENERATIONS, claim.generation);
  // What user space holds of it is IPv4-mapped or IPv6; both fill the 16 bytes.
  std::array<std::uint32_t, 4> address{0, 0, htonl(0xffff), 0};
  const auto bytes = claim.client.bytes();
  if (claim.client.is_v4())
    std::memcpy(&address[3], bytes.data(), bytes.size());
  else
    std::memcpy(address.data(), bytes.data(), bytes.size());

  std::atomic_ref<std::uint32_t> tag(entry.tag);
  tag.store(tag_of(FAIRLEAD_CLIENT_WRITING, claim.generation, 0), std::memory_order_relaxed);
  // Each release keeps the mark "writing" before the field. A fence would do for all, but
  // ThreadSanitizer knows none.
  for (std::size_t i = 0; i < address.size(); ++i)
    std::atomic_ref(entry.address[i]).store(address[i], std::memory_order_release);
  std::atomic_ref(entry.client_port).store(htons(claim.client.port()), std::memory_order_release);
  std::atomic_ref(entry.application_port).store(claim.application_port, std::memory_order_release);
  tag.store(tag_of(claim.state, claim.generation, claim.source_port), std::memory_order_release);
}

void publish_source_port(fairlead_client_entry& entry, std::uint16_t source_port) {
  std::atomic_ref<std::uint32_t> tag(entry.tag);
  tag.store(tag.load(std::memory_order_relaxed) | std::uint32_t{source_port}
                                                      << FAIRLEAD_CLIENT_TAG_PORT_SHIFT,
            std::memory_order_release);
}

void copy(const fairlead_client_entry& from, fairlead_client_entry& to) {
  if (is_unused(from)) return;
  const std::uint32_t tag = from.tag;
  std::copy(std::begin(from.address), std::end(from.address), to.address);
  to.client_port = from.client_port;
  to.application_port = from.application_port;
  std::atomic_ref(to.tag).store(tag, std::memory_order_release);
}

std::uint16_t source_port_of(const fairlead_client_entry& entry) {
  const std::uint32_t tag =
      std::atomic_ref(const_cast<std::uint32_t&>(entry.tag)).load(std::memory_order_relaxed);
  return static_cast<std::uint16_t>(tag >> FAIRLEAD_CLIENT_TAG_PORT_SHIFT);
}

std::uint32_t generation_of(const fairlead_client_entry& entry) {
  const std::uint32_t tag =
      std::atomic_ref(const_cast<std::uint32_t&>(entry.tag)).load(std::memory_order_relaxed);
  return (tag >> FAIRLEAD_CLIENT_TAG_GENERATION_SHIFT & FAIRLEAD_CLIENT_GENERATION_MASK) %
         FAIRLEAD_CLIENT_GENERATIONS;
}

bool is_unused(const fairlead_client_entry& entry) {
  const std::uint32_t tag =
      std::atomic_ref(const_cast<std::uint32_t&>(entry.tag)).load(std::memory_order_relaxed);
  return (tag & FAIRLEAD_CLIENT_TAG_STATE_MASK) == FAIRLEAD_CLIENT_UNUSED;
}

}  // namespace fairlead::bpf
