// How a device gets what it shares with others: the memory and bells of a channel, its own buffers
// and those of peers. The broker of the node makes all of it (shm_broker_connector.h).
//
// Threads: all calls on the device's thread. Nothing blocks, except take_buffer() for
// kStockWaitMax.
#pragma once

#include <cstdint>

#include "base/ids.h"
#include "base/linux/fd_watcher.h"
#include "base/linux/handle.h"
#include "base/result.h"
#include "broker/message.h"
#include "broker/shared_objects.h"

namespace fairlead::rdma::shm {

using broker::BufferId;

struct ConnectorEvent {
  enum class Kind : std::uint8_t {
    kChannel,  // `end` of a channel with `peer`
    kRefused,  // there will be no channel with `peer`
    kGranted,  // `memory` of `buffer`, which `peer` owns
  };
  Kind kind = Kind::kRefused;
  PeerId peer;            // vouched for by the broker
  std::uint8_t side = 0;  // kChannel: 0 is the answer to request_channel(), 1 when `peer` asked
  std::uint32_t pod = 0;  // kChannel, kGranted: which pod the peer belongs to, 0 for none
  broker::ChannelEnd end;
  BufferId buffer;
  ForeignDescriptor memory;
};

// Memory for a buffer, sealed against shrinking: the owner sets its size.
struct Blank {
  BufferId id;
  ForeignDescriptor fd;
};

class Connector {
 public:
  virtual ~Connector() = default;

  virtual FabricId id() const = 0;
  // All descriptors that can bring an event, now and later. Errors: those of the watcher. One that
  // comes later and cannot be watched is given up.
  virtual Result<void> set_watcher(FdWatcher* watcher) = 0;
  virtual bool owns(int fd) const = 0;
  virtual void handle_readable(int fd) = 0;

  // kChannel of side 0, or kRefused, follows by next(), unless the connector is lost before.
  // Errors: kPeerGone when the peer cannot be reached, kExhausted at a limit, others.
  virtual Result<void> request_channel(PeerId peer) = 0;
  // False when request_channel() would be in vain.
  virtual bool may_reach(PeerId peer) const = 0;

  // Errors: kExhausted when there is none.
  virtual Result<Blank> take_buffer() = 0;
  // The peer gets the memory of a local buffer. Call it before the peer is told of the buffer.
  // Errors: kPeerGone when it will not get it.
  virtual Result<void> grant(const BufferId& buffer, PeerId peer) = 0;
  virtual void free_buffer(const BufferId& buffer) = 0;
  // False if the memory of that peer's buffer cannot come any more, because its way here has gone.
  virtual bool may_bring(const BufferId& buffer) const = 0;

  // Errors: kWouldBlock when there is nothing; kPeerGone, once, when what was asked for and has
  // not come will never come; others for one event that is lost, while others may follow.
  virtual Result<ConnectorEvent> next() = 0;
  // next() has something that no descriptor tells of.
  virtual bool has_events() const = 0;
  // Sends what is due. backlog(): something waits for room, or for flush().
  virtual void flush() = 0;
  virtual bool backlog() const = 0;
};

}  // namespace fairlead::rdma::shm
