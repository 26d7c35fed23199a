// Protection domains, and memory that is registered in one.
#pragma once

#include <sys/mman.h>

#include <memory>
#include <span>
#include <utility>

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

// Whole pages of zeros from mmap(2), or none.
class MappedPages {
 public:
  MappedPages() = default;
  static Result<MappedPages> create(std::size_t size_bytes);
  MappedPages(MappedPages&& other) noexcept : bytes_(other.bytes_) { other.bytes_ = {}; }
  MappedPages& operator=(MappedPages&&) = delete;
  void swap(MappedPages& other) noexcept { std::swap(bytes_, other.bytes_); }
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
                                                     std::size_t size_bytes, BufferUse use);
  // The memory of another buffer, which outlives this one.
  static Result<std::unique_ptr<VerbsBuffer>> create(const VerbsDomain& domain,
                                                     MemlockAccount& account,
                                                     std::span<std::byte> bytes, BufferUse use);

  std::span<std::byte> bytes() const override { return bytes_; }
  LocalKey lkey() const override { return LocalKey{region_->lkey}; }
  RemoteKey rkey() const override { return RemoteKey{region_->rkey}; }
  RemoteAddress address() const override {
    return RemoteAddress{reinterpret_cast<std::uintptr_t>(bytes_.data())};
  }

 private:
  VerbsBuffer(MemlockShare share, std::span<std::byte> bytes, MemoryHandle region)
      : share_(std::move(share)), bytes_(bytes), region_(std::move(region)) {}

  MemlockShare share_;
  MappedPages pages_;  // where they are its own
  std::span<std::byte> bytes_;
  MemoryHandle region_;
};

}  // namespace fairlead::rdma::verbs
