// Parked connections on their way to a keeper or back, and the two ends of that way. Neither blocks
// nor waits by itself: the owner polls the socket.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/linux/descriptor_closer.h"
#include "base/linux/handle.h"
#include "base/result.h"
#include "parking/keeper_record.h"

namespace fairlead::parking {

struct ParcelLimits {
  std::uint32_t descriptors = 0;
  std::uint64_t bytes = 0;  // of the description
};

// What a keeper holds.
struct Parcel {
  ForeignDescriptor description;  // a sealed memory file
  std::uint64_t bytes = 0;        // of it
  std::vector<ForeignDescriptor> descriptors;
};

// A memory file that nobody can change any more.
Result<FileDescriptor> seal_description(std::span<const std::byte> bytes);
// The bytes of a parcel's description. Errors: kMalformed when it is another file than
// seal_description() makes, or another length.
Result<std::vector<std::byte>> read_description(const Parcel& parcel);

// Sends a parcel, which outlives it and stays whole: it may be sent again.
class ParcelSender {
 public:
  ParcelSender(int socket, const Parcel& parcel) : socket_(socket), parcel_(parcel) {}
  // True when all has been sent; false: when the socket is writable. Errors of send_record().
  Result<bool> advance();
  // Why the last advance() gave false.
  const Error& obstacle() const { return obstacle_; }

 private:
  int socket_;
  const Parcel& parcel_;
  Error obstacle_;
  bool begun_ = false;
  std::size_t sent_ = 0;  // descriptors
};

// Receives one.
class ParcelReceiver {
 public:
  explicit ParcelReceiver(const ParcelLimits& limits) : limits_(limits) {}

  // A record with its descriptors, behind those given before. The whole parcel when this was the
  // last, which has none but kParcel and kDescriptors. Errors: kExhausted at a limit, kMalformed.
  Result<std::optional<Parcel>> take(const KeeperRecord& record,
                                     std::span<ForeignDescriptor> descriptors);

 private:
  Result<std::optional<Parcel>> finish();

  ParcelLimits limits_;
  std::optional<Parcel> parcel_;
  std::uint32_t expected_ = 0;
};

}  // namespace fairlead::parking
