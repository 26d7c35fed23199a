// Parked connections in transit to a keeper or back, and the sender and receiver. Neither blocks
// nor waits: the owner polls the socket.
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

// The content of a keeper.
struct Parcel {
  ForeignDescriptor description;  // a sealed memory file
  std::uint64_t bytes = 0;        // length of the description
  std::vector<ForeignDescriptor> descriptors;
};

// Creates a memory file that nobody can change any more.
Result<FileDescriptor> seal_description(std::span<const std::byte> bytes);
// Reads the description of a parcel. Errors: kMalformed if the file was not made by
// seal_description(), or has another length.
Result<std::vector<std::byte>> read_description(const Parcel& parcel);

// Sends a parcel, which outlives the sender and is not consumed: it may be sent again.
class ParcelSender {
 public:
  ParcelSender(int socket, const Parcel& parcel) : socket_(socket), parcel_(parcel) {}
  // True when everything is sent; false: call again when the socket is writable. Errors: as
  // send_record().
  Result<bool> advance();
  // Why the last advance() returned false.
  const Error& obstacle() const { return obstacle_; }

 private:
  int socket_;
  const Parcel& parcel_;
  Error obstacle_;
  bool begun_ = false;
  std::size_t sent_ = 0;  // descriptors
};

// Receives one parcel.
class ParcelReceiver {
 public:
  explicit ParcelReceiver(const ParcelLimits& limits) : limits_(limits) {}

  // Takes the next record with its descriptors. Returns the parcel when it is complete. Only
  // kParcel and kDescriptors are allowed. Errors: kExhausted at a limit, kMalformed.
  Result<std::optional<Parcel>> take(const KeeperRecord& record,
                                     std::span<ForeignDescriptor> descriptors);

 private:
  Result<std::optional<Parcel>> finish();

  ParcelLimits limits_;
  std::optional<Parcel> parcel_;
  std::uint32_t expected_ = 0;
};

}  // namespace fairlead::parking
