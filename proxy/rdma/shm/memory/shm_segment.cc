#include "rdma/shm/memory/shm_segment.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cerrno>
#include <utility>

#include "rdma/shm/shm_limits.h"

namespace fairlead::rdma::shm {

bool strict_overcommit() {
  static const bool strict = [] {
    FileDescriptor fd(::open("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC));
    char mode = '0';
    return fd && ::read(fd.get(), &mode, 1) == 1 && mode == '2';
  }();
  return strict;
}

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  if (this != &other) {
    Mapping old(std::move(*this));
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

Mapping::~Mapping() {
  if (data_ != nullptr && ::munmap(data_, size_) != 0) report_failed_destroy("munmap", errno);
}

Result<Mapping> Mapping::map(int fd, std::size_t size_bytes) {
  void* at = ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (at == MAP_FAILED) return system_error("mmap", errno);
  Mapping mapping;
  mapping.data_ = static_cast<std::byte*>(at);
  mapping.size_ = size_bytes;
  return mapping;
}

Result<Mapping> Mapping::map_again(std::span<std::byte> shared) {
  static const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto at = reinterpret_cast<std::uintptr_t>(shared.data());
  if (shared.empty() || at % page != 0 || shared.size() % page != 0)
    return Error{Errc::kMalformed, "memory to map again, which is no whole pages"};
  // An old size of 0 maps the same shared pages once more.
  void* const again = ::mremap(shared.data(), 0, shared.size(), MREMAP_MAYMOVE);
  if (again == MAP_FAILED) return system_error("mremap", errno);
  Mapping mapping;
  mapping.data_ = static_cast<std::byte*>(again);
  mapping.size_ = shared.size();
  return mapping;
}

void Mapping::discard() noexcept {
  if (data_ != nullptr) (void)::madvise(data_, size_, MADV_REMOVE);
}

Mapping Mapping::detach_from_file() noexcept {
  Mapping kept;
  if (data_ == nullptr) return kept;
  if (Result<Mapping> again = map_again(bytes())) kept = std::move(*again);
  // MAP_FIXED replaces the old pages in one step; a failure leaves them as they were.
  (void)::mmap(data_, size_, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  return kept;
}

Result<Mapping> Mapping::map_private(std::size_t size_bytes) {
  void* at = ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return system_error("mmap", errno);
  Mapping mapping;
  mapping.data_ = static_cast<std::byte*>(at);
  mapping.size_ = size_bytes;
  return mapping;
}

Result<Mapping> map_blank(int fd, std::size_t size_bytes) {
  const auto length = static_cast<off_t>(size_bytes);
  if (::ftruncate(fd, length) != 0) return system_error("ftruncate", errno);
  // Refused for the memfd of an earlier broker, which is sealed against further sealing.
  (void)::fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SEAL);
  if (strict_overcommit() && ::fallocate(fd, 0, 0, length) != 0)
    return system_error("fallocate", errno);
  return Mapping::map(fd, size_bytes);
}

namespace {

Result<void> check_sealed(int fd, int needed) {
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0) return Error{Errc::kMalformed, "segment that is no memfd"};
  if ((seals & needed) != needed)
    return Error{Errc::kMalformed, "segment not sealed against shrinking or growing"};
  struct statfs file_system {};
  // Huge pages can be unavailable at the first touch, which would be a SIGBUS.
  if (::fstatfs(fd, &file_system) != 0 || file_system.f_type != TMPFS_MAGIC)
    return Error{Errc::kMalformed, "segment of another file system"};
  return {};
}

Result<std::size_t> size_of(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return system_error("fstat", errno);
  if (status.st_size <= 0) return Error{Errc::kMalformed, "segment smaller than announced"};
  return static_cast<std::size_t>(status.st_size);
}

}  // namespace

Result<void> check_segment(int fd) { return check_sealed(fd, F_SEAL_SHRINK); }

Result<Mapping> adopt_segment(int fd, std::size_t size_bytes) {
  SMC_TRY(check_sealed(fd, F_SEAL_SHRINK | F_SEAL_GROW));
  if (SMC_TRY(size_of(fd)) != size_bytes)
    return Error{Errc::kMalformed, "segment of another size than expected"};
  return Mapping::map(fd, size_bytes);
}

Result<Mapping> adopt_whole_segment(int fd) {
  SMC_TRY(check_segment(fd));
  const std::size_t size = SMC_TRY(size_of(fd));
  if (size > kBufferBytesMax) return Error{Errc::kMalformed, "segment larger than any buffer"};
  return Mapping::map(fd, size);
}

}  // namespace fairlead::rdma::shm
