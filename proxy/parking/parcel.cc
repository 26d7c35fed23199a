#include "parking/parcel.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/linux/record_socket.h"

namespace fairlead::parking {
namespace {

constexpr int kSeals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;

}  // namespace

Result<FileDescriptor> seal_description(std::span<const std::byte> bytes) {
  FileDescriptor file(::memfd_create("fairlead-parked", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file) return system_error("memfd_create", errno);
  while (!bytes.empty()) {
    const ssize_t n = ::write(file.get(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error("write the description", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  if (::fcntl(file.get(), F_ADD_SEALS, kSeals) != 0) return system_error("F_ADD_SEALS", errno);
  return file;
}

Result<std::vector<std::byte>> read_description(const Parcel& parcel) {
  const int fd = parcel.description.get();
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals)
    return Error{Errc::kMalformed, "description: no sealed memory file"};
  struct stat status {};
  if (::fstat(fd, &status) != 0) return system_error("fstat", errno);
  if (static_cast<std::uint64_t>(status.st_size) != parcel.bytes)
    return Error{Errc::kMalformed, "description: another length than announced"};
  std::vector<std::byte> bytes(parcel.bytes);
  for (std::size_t at = 0; at < bytes.size();) {
    const ssize_t n = ::pread(fd, bytes.data() + at, bytes.size() - at, static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error("read the description", errno);
    if (n == 0) return Error{Errc::kMalformed, "description: shorter than it says"};
    at += static_cast<std::size_t>(n);
  }
  return bytes;
}

Result<bool> ParcelSender::advance() {
  const auto send = [&](KeeperRecord::Kind kind, std::span<const int> fds) -> Result<bool> {
    KeeperRecord record;
    record.kind = kind;
    record.count = static_cast<std::uint32_t>(
        kind == KeeperRecord::Kind::kParcel ? parcel_.descriptors.size() : fds.size());
    record.bytes = parcel_.bytes;
    const Result<void> sent = send_record(socket_, encode(record), fds);
    if (sent) return true;
    obstacle_ = sent.error();
    if (sent.error().code == Errc::kWouldBlock) return false;
    return sent.error();
  };
  if (!begun_) {
    const int description = parcel_.description.get();
    begun_ = SMC_TRY(send(KeeperRecord::Kind::kParcel, {&description, 1}));
    if (!begun_) return false;
  }
  while (sent_ < parcel_.descriptors.size()) {
    std::array<int, kRecordDescriptorsMax> fds{};
    const std::size_t count = std::min(fds.size(), parcel_.descriptors.size() - sent_);
    for (std::size_t i = 0; i < count; ++i) fds[i] = parcel_.descriptors[sent_ + i].get();
    const bool sent = SMC_TRY(send(KeeperRecord::Kind::kDescriptors, std::span(fds).first(count)));
    if (!sent) return false;
    sent_ += count;
  }
  return true;
}

Result<std::optional<Parcel>> ParcelReceiver::take(const KeeperRecord& record,
                                                   std::span<ForeignDescriptor> descriptors) {
  if (!parcel_) {
    if (record.kind != KeeperRecord::Kind::kParcel || descriptors.size() != 1)
      return Error{Errc::kMalformed, "parcel: another record instead of its beginning"};
    if (record.count > limits_.descriptors)
      return Error{Errc::kExhausted, "parcel: more descriptors than are taken"};
    if (record.bytes > limits_.bytes)
      return Error{Errc::kExhausted, "parcel: a longer description than is taken"};
    parcel_.emplace();
    parcel_->description = std::move(descriptors[0]);
    parcel_->bytes = record.bytes;
    expected_ = record.count;
    return finish();
  }
  const std::size_t left = expected_ - parcel_->descriptors.size();
  if (record.kind != KeeperRecord::Kind::kDescriptors || descriptors.empty() ||
      descriptors.size() > left)
    return Error{Errc::kMalformed, "parcel: another record instead of its descriptors"};
  for (ForeignDescriptor& descriptor : descriptors)
    parcel_->descriptors.push_back(std::move(descriptor));
  return finish();
}

Result<std::optional<Parcel>> ParcelReceiver::finish() {
  if (parcel_->descriptors.size() < expected_) return std::optional<Parcel>();
  std::optional<Parcel> whole = std::move(parcel_);
  parcel_.reset();
  return whole;
}

}  // namespace fairlead::parking
