// Protection domains, and memory that is registered in one.
#pragma once

#include <sys/mman.h>

#include <memory>

#include "rdma/device.h"
#include "rdma/verbs/memlock.h"
#include "rdma/verbs/verbs_handles.h"

namespace fairlead::rdma::verbs {

class VerbsDomain final : public ProtectionDomain {
 public:
  explicit VerbsDomain(DomainHandle domain) : domain_(std::move(domain)) {}
  ibv_pd* get() const { return domain_.get(); }

 private:
  DomainHandle domain_;
};

// Whole pages of zeros from mmap(2).
class MappedPages {
 public:
  static Result<MappedPages> create(std::size_t size_bytes);
  MappedPages(MappedPages&& other) noexcept : bytes_(other.bytes_) { other.bytes_ = {}; }
  MappedPages& operator=(MappedPages&&) = delete;
  ~MappedPages() {
    if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
  }
  std::span<std::byte> bytes() const { return bytes_; }

 private:
  explicit MappedPages(std::span<std::byte> bytes) : bytes_(bytes) {}
  std::span<std::byte> bytes_;
};

class VerbsBuffer final : public RegisteredBuffer {
 public:
  // `account` outlives the buffer. kExhausted when it, or memory, is spent.
  static Result<std::unique_ptr<VerbsBuffer>> create(const VerbsDomain& domain,
                                                     MemlockAccount& account,
                                                     std::size_t size_bytes);

  std::span<std::byte> bytes() const override { return pages_.bytes(); }
  LocalKey lkey() const override { return LocalKey{region_->lkey}; }
  RemoteKey rkey() const override { return RemoteKey{region_->rkey}; }
  RemoteAddress address() const override {
    return RemoteAddress{reinterpret_cast<std::uintptr_t>(pages_.bytes().data())};
  }

 private:
  VerbsBuffer(MemlockShare share, MappedPages pages, MemoryHandle region)
      : share_(std::move(share)), pages_(std::move(pages)), region_(std::move(region)) {}

  MemlockShare share_;
  MappedPages pages_;
  MemoryHandle region_;
};

}  // namespace fairlead::rdma::verbs
