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
                                                         std::size_t size_bytes) {
  if (size_bytes == 0) return Error{Errc::kUnsupported, "buffer of no bytes"};
  MemlockShare share(account, size_bytes);
  if (!share) return Error{Errc::kExhausted, "RLIMIT_MEMLOCK"};
  MappedPages pages = SMC_TRY(MappedPages::create(size_bytes));
  constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  MemoryHandle region(ibv_reg_mr(domain.get(), pages.bytes().data(), size_bytes, kAccess));
  if (region == nullptr) return system_error("ibv_reg_mr", errno);
  return std::unique_ptr<VerbsBuffer>(
      new VerbsBuffer(std::move(share), std::move(pages), std::move(region)));
}

}  // namespace fairlead::rdma::verbs
