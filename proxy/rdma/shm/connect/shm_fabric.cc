#include "rdma/shm/connect/shm_fabric.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <string_view>
#include <utility>

#include "base/linux/peer_credentials.h"
#include "base/linux/unix_socket.h"
#include "rdma/shm/shm_limits.h"

namespace fairlead::rdma::shm {
namespace {

constexpr std::uint8_t kGidPrefix[2] = {0xfd, 0xfa};
constexpr std::size_t kIdentityBytes = 16;
constexpr std::string_view kSocketSuffix = ".sock";
constexpr std::size_t kSocketNameBytes = 16 + kSocketSuffix.size();
constexpr int kBacklog = 128;
constexpr mode_t kDirectoryMode = 0770;

Result<void> fill_random(void* into, std::size_t size_bytes) {
  if (::getrandom(into, size_bytes, 0) != static_cast<ssize_t>(size_bytes))
    return system_error("getrandom", errno);
  return {};
}

// A name next to the final one, for things that must appear complete or not at all.
Result<std::string> unfinished_name(const std::string& directory) {
  std::uint32_t random = 0;
  SMC_TRY(fill_random(&random, sizeof random));
  char name[16];
  std::snprintf(name, sizeof name, "/.new-%08x", random);
  return directory + name;
}

Result<FileDescriptor> connect_to(const std::string& path) {
  const auto address = UnixAddress::of_path(path);
  if (!address) return Error{Errc::kUnsupported, "socket path too long"};
  auto connected = connect_unix_socket(*address, SOCK_SEQPACKET);
  const int error = connected ? 0 : connected.error().system;
  if (error == ENOENT) return Error{Errc::kPeerGone, "no socket of that device", error};
  if (error == EAGAIN) return Error{Errc::kExhausted, "backlog of the peer's socket", error};
  return connected;
}

// The peer's directory entry could be anybody's: only processes of our user, or root, are let in.
Result<FileDescriptor> admit(FileDescriptor socket, DescriptorCloser& closer) {
  if (is_peer_root_or_ours(socket.get()) || (::geteuid() == 0 && peer_credentials(socket.get())))
    return socket;
  closer.close(std::move(socket));
  return Error{Errc::kPermission, "peer of another user"};
}

bool is_socket_name(std::string_view name) {
  auto is_hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return name.size() == kSocketNameBytes && name.ends_with(kSocketSuffix) &&
         std::all_of(name.begin(), name.begin() + 16, is_hex);
}

// A process that was killed leaves its socket behind; nobody else would ever remove it. Best
// effort.
void sweep_dead_sockets(const std::string& directory) {
  Handle<DIR, ::closedir> entries(::opendir(directory.c_str()));
  if (entries == nullptr) return;
  for (std::size_t seen = 0; seen < kSweptMax; ++seen) {
    const dirent* entry = ::readdir(entries.get());
    if (entry == nullptr) return;
    if (!is_socket_name(entry->d_name)) continue;
    const std::string path = directory + '/' + entry->d_name;
    auto connected = connect_to(path);
    if (!connected && connected.error().system == ECONNREFUSED) ::unlink(path.c_str());
  }
}

Result<void> write_identity(const std::string& path) {
  std::array<std::uint8_t, kIdentityBytes> bytes{};
  SMC_TRY(fill_random(bytes.data(), bytes.size()));
  FileDescriptor fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!fd) return system_error("identity of the fabric", errno);
  const ssize_t written = ::write(fd.get(), bytes.data(), bytes.size());
  if (written == static_cast<ssize_t>(bytes.size())) return {};
  return system_error("identity of the fabric", written < 0 ? errno : ENOSPC);
}

// link(2) puts the complete file in place or fails because another process was faster: both are
// fine.
Result<void> make_identity(const std::string& directory, const std::string& path) {
  const std::string unfinished = SMC_TRY(unfinished_name(directory));
  auto written = write_identity(unfinished);
  int error = 0;
  if (written && ::link(unfinished.c_str(), path.c_str()) != 0 && errno != EEXIST) error = errno;
  ::unlink(unfinished.c_str());
  if (!written) return written;
  if (error != 0) return system_error("identity of the fabric", error);
  return {};
}

Result<FabricId> read_identity(const std::string& path) {
  FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return system_error("identity of the fabric", errno);
  std::array<std::uint8_t, kIdentityBytes + 1> bytes{};
  const ssize_t count = ::read(fd.get(), bytes.data(), bytes.size());
  if (count < 0) return system_error("identity of the fabric", errno);
  if (count != static_cast<ssize_t>(kIdentityBytes))
    return Error{Errc::kMalformed, "identity of the fabric"};
  FabricId id;
  std::copy_n(bytes.begin(), id.bytes.size(), id.bytes.begin());
  return id;
}

Result<void> make_directory(const std::string& directory) {
  for (std::size_t at = directory.find('/', 1); at != std::string::npos;
       at = directory.find('/', at + 1))
    (void)::mkdir(directory.substr(0, at).c_str(), 0755);
  if (::mkdir(directory.c_str(), kDirectoryMode) == 0 || errno == EEXIST) return {};
  return system_error("directory of the fabric", errno);
}

}  // namespace

Gid gid_of(FabricId fabric, PortNumber port, PeerId peer) {
  Gid gid;
  auto at = std::copy(std::begin(kGidPrefix), std::end(kGidPrefix), gid.bytes.begin());
  at = std::copy(fabric.bytes.begin(), fabric.bytes.end(), at);
  *at++ = port.value;
  std::copy(peer.bytes.begin(), peer.bytes.end(), at);
  return gid;
}

std::optional<ParsedShmGid> parse_gid(const Gid& gid) {
  const auto& bytes = gid.bytes;
  if (bytes[0] != kGidPrefix[0] || bytes[1] != kGidPrefix[1]) return std::nullopt;
  ParsedShmGid parsed;
  std::copy_n(bytes.begin() + 2, parsed.fabric.bytes.size(), parsed.fabric.bytes.begin());
  parsed.port = PortNumber(bytes[7]);
  std::copy_n(bytes.begin() + 8, parsed.peer.bytes.size(), parsed.peer.bytes.begin());
  if (parsed.port.value == 0 || parsed.port.value > kPortsMax || parsed.peer.is_zero())
    return std::nullopt;
  return parsed;
}

Fabric::~Fabric() {
  if (listener_) ::unlink(own_path_.c_str());
}

Result<Fabric> Fabric::open(const std::string& directory, PeerId self) {
  if (!UnixAddress::of_path(directory + '/' + std::string(kSocketNameBytes, 'x')))
    return Error{Errc::kUnsupported, "directory path too long for a socket"};
  SMC_TRY(make_directory(directory));
  const std::string identity = directory + "/fabric";
  auto id = read_identity(identity);
  if (!id && id.error().code == Errc::kNotFound) {
    SMC_TRY(make_identity(directory, identity));
    id = read_identity(identity);
  }
  if (!id) return id.error();
  sweep_dead_sockets(directory);
  Fabric fabric(directory, *id);
  SMC_TRY(fabric.listen_as(self));
  return fabric;
}

std::string Fabric::socket_path(PeerId peer) const {
  return directory_ + '/' + to_string(peer) + std::string(kSocketSuffix);
}

// The socket is bound under another name first: between bind and listen it refuses connections, as
// the socket of a dead process does, and would be swept.
Result<void> Fabric::listen_as(PeerId self) {
  const std::string unfinished = SMC_TRY(unfinished_name(directory_));
  const auto address = UnixAddress::of_path(unfinished);
  if (!address) return Error{Errc::kUnsupported, "socket path too long"};
  auto opened = UnixListener::open(
      *address, {.backlog = kBacklog, .keeps_spare = true, .pause = kAcceptRetry});
  const std::string path = socket_path(self);
  const int error = opened && ::link(unfinished.c_str(), path.c_str()) != 0 ? errno : 0;
  ::unlink(unfinished.c_str());
  if (!opened) return opened.error();
  if (error == EEXIST) return Error{Errc::kWrongState, "peer id in use on this fabric", error};
  if (error != 0) return system_error("socket of the device", error);
  own_path_ = path;
  listener_ = std::move(*opened);
  return {};
}

Result<FileDescriptor> Fabric::dial(PeerId peer, DescriptorCloser& closer) {
  return admit(SMC_TRY(connect_to(socket_path(peer))), closer);
}

bool Fabric::may_reach(PeerId peer) const {
  struct stat status {};
  return ::stat(socket_path(peer).c_str(), &status) == 0 && S_ISSOCK(status.st_mode);
}

Result<FileDescriptor> Fabric::accept(DescriptorCloser& closer) {
  return admit(SMC_TRY(listener_.accept()).release(), closer);
}

}  // namespace fairlead::rdma::shm
