#include "rdma/verbs/verbs_buffer.h"

#include <cerrno>

namespace fairlead::rdma::verbs {

Result<MappedPages> MappedPages::create(std::size_t size_bytes) {
  void* memory = ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return system_error("mmap", errno);
  return MappedPages(std::span(static_cast<std::byte*>(memory), size_bytes));
}

Result<std::unique_ptr<VerbsBuffer>> VerbsBuffer::create(const VerbsDomain& domain,
                                                         MemlockAccount& account,
                                                         std::size_t size_bytes, BufferUse use) {
  if (size_bytes == 0) return Error{Errc::kUnsupported, "buffer of no bytes"};
  MappedPages pages = SMC_TRY(MappedPages::create(size_bytes));
  std::unique_ptr<VerbsBuffer> buffer = SMC_TRY(create(domain, account, pages.bytes(), use));
  buffer->pages_.swap(pages);
  return buffer;
}

Result<std::unique_ptr<VerbsBuffer>> VerbsBuffer::create(const VerbsDomain& domain,
                                                         MemlockAccount& account,
                                                         std::span<std::byte> bytes,
                                                         BufferUse use) {
  MemlockShare share(account, bytes.size());
  if (!share) return Error{Errc::kExhausted, "RLIMIT_MEMLOCK"};
  unsigned access = IBV_ACCESS_LOCAL_WRITE;
  if (peer_may_write(use)) access |= IBV_ACCESS_REMOTE_WRITE;
  MemoryHandle region(ibv_reg_mr(domain.get(), bytes.data(), bytes.size(), access));
  if (region == nullptr) return system_error("ibv_reg_mr", errno);
  return std::unique_ptr<VerbsBuffer>(new VerbsBuffer(std::move(share), bytes, std::move(region)));
}

}  // namespace fairlead::rdma::verbs
