// Memory that two processes share: a sealed memfd and its mapping. Sealing against shrinking is
// what makes it safe to touch memory that somebody else made: no page of the mapping can vanish.
// Sealing against growing limits what a peer can make us wait for: a touch of a hole waits for a
// peer that punches it, and that takes the longer, the more pages the file has.
#pragma once

#include <cstddef>
#include <span>

#include "base/linux/handle.h"
#include "base/result.h"

namespace fairlead::rdma::shm {

// A mapped range, unmapped when it dies. Move only.
class Mapping {
 public:
  Mapping() = default;
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  // MAP_SHARED, readable and writable, nothing prefaulted. Errors: those of mmap(2).
  static Result<Mapping> map(int fd, std::size_t size_bytes);
  // A second mapping of whole pages that are mapped by map(). Errors: kMalformed for parts of
  // pages; those of mremap(2), also for memory that is not shared.
  static Result<Mapping> map_again(std::span<std::byte> shared);
  // Zeroed memory of our own.
  static Result<Mapping> map_private(std::size_t size_bytes);

  std::span<std::byte> bytes() const { return {data_, size_}; }

  // Gives the pages of shared memory back to the system, whoever else has them mapped; what is
  // written afterwards is charged to the writer. When the kernel refuses, they stay. Takes the lock
  // of the inode: blocks for as long as any process with its descriptor wants.
  void discard() noexcept;

  // Lets go of the shared memory but keeps the address range valid, as private zero pages: for
  // views that somebody may still hold. Returns the shared memory at other addresses; empty when
  // the kernel refuses that. When it refuses to replace the pages, the shared memory stays.
  Mapping detach_from_file() noexcept;

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// Under strict overcommit the kernel may refuse a page at the first touch, which is a SIGBUS. There
// memory is reserved when it is made, and its pages are kept.
bool strict_overcommit();

// Sets the size of an empty memfd, seals it against growing and further sealing, and maps it. The
// seals of a memfd that refuses further sealing stay as they are.
// Errors: kExhausted for memory.
Result<Mapping> map_blank(int fd, std::size_t size_bytes);

// Descriptors that came from elsewhere may be of any kind. The first call on each is F_GET_SEALS,
// which fails on all but memfds and never blocks.

// kMalformed unless it is a memfd of ordinary pages, sealed against shrinking.
Result<void> check_segment(int fd);

// Maps a memfd of fixed size. kMalformed as above, and unless it is sealed against growing too and
// has exactly `size_bytes`: the last munmap(2) frees all of its pages, which would take long if
// there were more.
Result<Mapping> adopt_segment(int fd, std::size_t size_bytes);

// Maps all of a memfd, whatever it has. kMalformed as check_segment(), and for one of size 0 or
// above kBufferBytesMax.
Result<Mapping> adopt_whole_segment(int fd);

}  // namespace fairlead::rdma::shm
