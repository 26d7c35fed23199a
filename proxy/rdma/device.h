// The seam between the protocol and whatever moves memory: an RNIC through libibverbs, shared
// memory between processes of one host, a simulated fabric. The vocabulary is that of verbs;
// nothing here knows SMC. Every implementation passes tests/conformance.
//
// Threads: a Device and all that it made belong to one thread, the worker's. No locks.
// Ownership: the Device outlives all it made. Destroy QueuePairs before the SharedReceiveQueue,
// buffers and ProtectionDomain they use.
// Ordering: on one QueuePair, work requests take effect at the peer in the order posted; a SEND is
// received only after every WRITE posted before it is visible there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/ids.h"
#include "base/linux/fd_watcher.h"
#include "base/result.h"

namespace fairlead::rdma {

// Chosen by the poster, given back in the Completion. Means nothing to the device.
enum class WorkId : std::uint64_t {};

struct Capabilities {
  // QueuePair::remote_memory() works: the peer's registered memory can be written by the CPU, and
  // so by readv(2) straight from a socket.
  bool remote_memory_addressable = false;
  // … and so does Device::return_pages().
  bool returns_pages = false;
  // Its peers are devices of this program: no other one speaks to it.
  bool own_kind_only = false;
  // A SharedReceiveQueue may serve several queue pairs; otherwise one alone.
  bool shared_receive_queues = true;
  // … and queue pairs of another protection domain.
  bool receive_queue_crosses_domains = false;
  std::uint32_t send_requests_max = 0;     // per queue pair
  std::uint32_t receive_requests_max = 0;  // per receive queue
  std::size_t registered_bytes_max = 0;    // what may be registered in all; 0 means no known limit
};

enum class PortState : std::uint8_t { kDown, kActive };

// Why a port cannot be used whatever its state is.
enum class PortFault : std::uint8_t {
  kNone,
  kLinkLayer,     // neither Ethernet nor InfiniBand
  kNoGid,         // no entry of its GID table can be used
  kGidsExcluded,  // the configuration excludes every entry that could
  kNoPartition,   // InfiniBand: it is not a member of the configured partition
};

struct Port {
  PortNumber number;
  PortState state = PortState::kDown;
  Gid gid;  // the one in use for SMC
  Mac mac;
  Mtu mtu = Mtu::k1024;
  PortFault fault = PortFault::kNone;
};

// What memory is registered for. A peer gets no more access than that needs.
enum class BufferUse : std::uint8_t {
  kRmb,       // the remote memory buffers of RFC 7609: peers write into it
  kSendRing,  // the source of writes; no peer writes into it
  kMessages,  // messages to send, or those that receive requests take; no peer writes into it
};

constexpr bool peer_may_write(BufferUse use) { return use == BufferUse::kRmb; }

// Memory that is registered with a device. For BufferUse::kRmb, `address` and `rkey` go to the peer
// and stay valid until the object is destroyed. A write to memory of another use, or to memory that
// has been destroyed, moves no byte and ends in a remote access error on the peer's queue pair.
class RegisteredBuffer {
 public:
  virtual ~RegisteredBuffer() = default;
  virtual std::span<std::byte> bytes() const = 0;
  virtual LocalKey lkey() const = 0;
  virtual RemoteKey rkey() const = 0;
  virtual RemoteAddress address() const = 0;
};

// Keys of buffers registered in one domain are worthless on queue pairs of another.
class ProtectionDomain {
 public:
  virtual ~ProtectionDomain() = default;
};

struct ReceiveRequest {
  WorkId id{};
  RegisteredBuffer* buffer = nullptr;
  std::size_t offset = 0;
  std::uint32_t length_bytes = 0;
};

// A posted range belongs to the device until its receive Completion has been polled. A queue that
// serves one queue pair alone ends with it: in error, the queue pair drops the requests, also those
// posted later, without Completions.
class SharedReceiveQueue {
 public:
  virtual ~SharedReceiveQueue() = default;
  // All or nothing; kExhausted when the queue has too little room.
  virtual Result<void> post(std::span<const ReceiveRequest> requests) = 0;
  // One AsyncEvent::kReceiveLimit is raised when fewer than `count` requests are left; then the
  // limit is disarmed, as in verbs. 0 disarms.
  virtual Result<void> arm_limit(std::uint32_t count) = 0;
};

struct LocalSlice {
  const RegisteredBuffer* buffer = nullptr;
  std::size_t offset = 0;
  std::uint32_t length_bytes = 0;
};

struct RemoteSlice {
  RemoteKey rkey;
  RemoteAddress address;
};

struct WorkRequest {
  enum class Kind : std::uint8_t {
    kWrite,  // RDMA WRITE of `from` to `to`
    kSend,   // SEND of `message`, with the solicited bit
  };
  Kind kind = Kind::kSend;
  // An unsignaled request has no Completion of its own; that of a later signaled one on the same
  // queue pair covers it. On failure every request is flushed with a Completion, signaled or not.
  bool signaled = false;
  WorkId id{};
  LocalSlice from;  // kWrite; the caller keeps the bytes unchanged till completion
  RemoteSlice to;   // kWrite
  std::span<const std::byte> message;  // kSend; copied before post() returns; 1 to kMessageBytesMax
};

inline constexpr std::size_t kMessageBytesMax = 8192;
inline constexpr std::size_t kShortMessageBytes = 48;

enum class CompletionStatus : std::uint8_t {
  kSuccess,
  kFlushed,            // the queue pair was already in error
  kRemoteAccessError,  // rkey or range not granted; both queue pairs are now in error
  kRetryExceeded,      // the peer, its port or ours does not answer
  kLocalError,         // length, protection or other local fault
};

struct Completion {
  enum class Kind : std::uint8_t { kSend, kReceive };  // kSend: of a kWrite or kSend request
  Kind kind = Kind::kSend;
  CompletionStatus status = CompletionStatus::kSuccess;
  WorkId id{};
  QpNumber queue_pair;             // local number
  std::uint32_t length_bytes = 0;  // kReceive: bytes received, into the ReceiveRequest of that id
};

struct AsyncEvent {
  enum class Kind : std::uint8_t {
    kPortDown,
    kPortUp,
    kGidChange,
    kReceiveLimit,    // the limit armed on a shared receive queue was reached
    kQueuePairFatal,  // this queue pair is in error; its outstanding requests are flushed
    kQueuePairError,  // the same, and port and device work: it has refused a packet, or a request
    kDeviceFatal,
  };
  Kind kind = Kind::kDeviceFatal;
  PortNumber port;      // kPortDown, kPortUp, kGidChange
  QpNumber queue_pair;  // kQueuePairFatal, kQueuePairError
};

// The address of the peer's queue pair; all of it came in CLC or LLC messages.
struct PeerEndpoint {
  Gid gid;
  Mac mac;
  QpNumber queue_pair;
  PacketSeq first_psn;
  Mtu mtu = Mtu::k1024;
  bool direct = false;  // no gateway on the way there
};

// Pages of a peer's memory that another thread gives back to the system. Destroying it calls that
// off if it has not begun. The device outlives it.
class PageReturn {
 public:
  virtual ~PageReturn() = default;
  enum class State : std::uint8_t {
    kReturned,   // the memory may be written again, and so with kKept
    kKept,       // the return had not begun, and this call has called it off
    kReturning,  // which a peer can make long
  };
  // Never blocks.
  virtual State settle() noexcept = 0;
};

class QueuePair {
 public:
  virtual ~QueuePair() = default;
  virtual QpNumber number() const = 0;
  virtual PacketSeq first_psn() const = 0;

  // INIT → RTR → RTS, once. kPeerGone when nobody answers for that GID.
  virtual Result<void> connect(const PeerEndpoint& peer) = 0;

  // All or nothing, in order. kExhausted when send_room() is too small, kWrongState when not
  // connected or in error. Nothing is guaranteed to leave before Device::ring_doorbells().
  virtual Result<void> post(std::span<const WorkRequest> requests) = 0;

  // Requests that post() would take now, when at most one of them is a SEND of more than
  // kShortMessageBytes. Grows when signaled completions are polled.
  virtual std::uint32_t send_room() const = 0;

  // Where the peer's memory [address, address+length) is addressable by our CPU: a view that stays
  // valid while this queue pair lives and is not in error. Bytes written there become visible to
  // the peer before any SEND posted afterwards. kWouldBlock while what the peer granted is still on
  // its way, or the peer cannot be reached; kNotFound when the rkey or the range is not granted to
  // us, or could not be mapped; kExhausted when it cannot be mapped now; kUnsupported when the
  // device cannot.
  virtual Result<std::span<std::byte>> remote_memory(const RemoteSlice& slice,
                                                     std::size_t length_bytes) = 0;
  // Views of the buffer with this key are not used any more. Without it they take address space,
  // even of a buffer that the peer has destroyed, until this queue pair goes.
  virtual void release_remote_memory(RemoteKey) {}

  // Into the error state: outstanding requests are flushed, the peer's queue pair notices as it
  // would when a cable is cut. Idempotent.
  virtual void fail() = 0;
};

using fairlead::FdWatcher;

struct QueuePairOptions {
  ProtectionDomain* domain = nullptr;
  SharedReceiveQueue* receive_queue = nullptr;
  PortNumber port{1};
  Gid gid;                      // the port's GID to speak from; zero is Port::gid
  bool prefer_roce_v1 = false;  // where the port has the GID for RoCEv1 and RoCEv2
  std::uint32_t send_requests = 64;
  // That will be connected to it, where it is known; zero is not known. A device may refuse what
  // others say to the queue pair before connect().
  PeerId peer;
};

// What a peer did wrong, or wanted beyond a limit; for the log. It was refused, or the peer given
// up.
struct PeerFault {
  PeerId peer;  // zero when it had not said who it is
  Error error;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const std::string& name() const = 0;
  virtual const Capabilities& capabilities() const = 0;
  virtual std::span<const Port> ports() const = 0;

  virtual Result<std::unique_ptr<ProtectionDomain>> create_protection_domain() = 0;
  virtual Result<std::unique_ptr<SharedReceiveQueue>> create_shared_receive_queue(
      ProtectionDomain& domain, std::uint32_t requests_max) = 0;
  // Zeroed; kExhausted when memory or the locked-memory limit is spent.
  virtual Result<std::unique_ptr<RegisteredBuffer>> allocate_buffer(ProtectionDomain& domain,
                                                                    std::size_t size_bytes,
                                                                    BufferUse use) = 0;
  // Registers here what a buffer of another device holds: the same bytes under keys of this device.
  // `buffer` outlives the result. kUnsupported where memory cannot belong to two devices.
  virtual Result<std::unique_ptr<RegisteredBuffer>> share_buffer(ProtectionDomain&,
                                                                 const RegisteredBuffer&,
                                                                 BufferUse) {
    return Error{Errc::kUnsupported, "memory of another device"};
  }
  virtual Result<std::unique_ptr<QueuePair>> create_queue_pair(const QueuePairOptions& options) = 0;
  // Gives the pages of a view of remote memory back to the system, and so their bytes. While
  // settle() says kReturning, and before it is asked, the caller neither writes there nor lets the
  // peer use that memory for anything else. Null where the device cannot, or has too much of that
  // to do now.
  virtual std::unique_ptr<PageReturn> return_pages(std::span<std::byte>) { return nullptr; }
  // What buffers for data may still take, as far as a limit is known.
  virtual std::size_t registrable_bytes() const { return std::numeric_limits<std::size_t>::max(); }

  // An operator takes a port out of use, or back. False where there is no such port, and where this
  // is for the device's own tools.
  virtual bool take_port(PortNumber, PortState) { return false; }

  // Takes up to completions.size() completions; never blocks.
  virtual std::size_t poll(std::span<Completion> completions) = 0;
  virtual std::optional<AsyncEvent> poll_async_event() = 0;
  // The oldest fault of a peer that has not been told yet; a few are kept.
  virtual std::optional<PeerFault> poll_fault() { return std::nullopt; }

  // True when poll() would probably find something. No system call; made for spinning.
  virtual bool pending() const noexcept = 0;

  // Before blocking: asks to be woken through a watched descriptor by the next receive or signaled
  // completion. False when something came in meanwhile: poll again instead of blocking.
  virtual bool arm() = 0;
  // After waking, before poll(): peers need not ring while we are awake.
  virtual void disarm() = 0;

  // Pushes out what post() has gathered since the last call, one doorbell a peer.
  virtual void ring_doorbells() = 0;

  // Hands every descriptor that can wake us to `watcher`, now and whenever one is added; `watcher`
  // outlives the device or is replaced by nullptr. Errors: those of the watcher; then it may watch
  // some of them, and the device is of use only with another watcher.
  virtual Result<void> set_watcher(FdWatcher* watcher) = 0;
  // One of the watched descriptors is readable.
  virtual void handle_readable(int fd) = 0;
};

}  // namespace fairlead::rdma
