// The configuration of one proxy as one plain value: what config/proxy.yaml says after it has been
// checked. Made once by config::load_file() (load.h), then given read-only to everything else.
//
// Every field names its key, unit, range and default; those of usual_number() have range and
// default in base/pod_settings.h. A default-constructed Config holds exactly the defaults; it lacks
// only listeners, which have none. A Config that came from the loader obeys every range and
// relation written here, so that nobody has to check again.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "base/connection_rule.h"
#include "base/fallback.h"
#include "base/log.h"
#include "base/pod_settings.h"
#include "base/time.h"

namespace fairlead::config {

inline constexpr std::size_t kKibibyte = 1024;
inline constexpr std::size_t kMebibyte = 1024 * kKibibyte;

inline constexpr unsigned kConcurrencyMax = 64;
inline constexpr std::size_t kListenersMax = 64;
inline constexpr std::size_t kListenerNameCharsMax = 63;
inline constexpr std::size_t kUeidsMax = 8;
inline constexpr std::size_t kUeidCharsMax = 32;
inline constexpr std::size_t kHostNameCharsMax = 32;  // the field of the first contact extension
inline constexpr std::size_t kAssumeMax = 256;
inline constexpr std::size_t kConnectionRulesMax = 256;  // of each kind
inline constexpr std::size_t kGidSubnetsMax = 16;
inline constexpr std::size_t kBufferBytesMin = 16 * kKibibyte;
inline constexpr std::size_t kBufferBytesMax = 512 * kMebibyte;
inline constexpr std::size_t kDeviceNamesMax = 16;
inline constexpr std::size_t kDeviceNameCharsMax = 63;  // IB_DEVICE_NAME_MAX without its end
inline constexpr std::size_t kUnixPathCharsMax = 107;   // sun_path without its terminator
inline constexpr std::size_t kBrokerNameCharsMax = kUnixPathCharsMax - 3;  // and "-63" behind it

// How a listener learns where the application wanted to go.
enum class ListenerMode : std::uint8_t {
  kStatic,    // always `upstream`
  kRedirect,  // the address before the redirect: by eBPF or by NAT (event/origdst)
  kTproxy,    // the local address of the accepted socket; needs CAP_NET_ADMIN
};

struct Listener {
  // listeners[].name: unique; 1 to 63 of a-z 0-9 and "-". Required. In logs.
  std::string name;
  // listeners[].direction: "outbound" takes connections of the application beside us, "inbound"
  // those of other hosts for it. Required.
  Direction direction = Direction::kOutbound;
  // listeners[].mode: static, redirect or tproxy. Required.
  ListenerMode mode = ListenerMode::kStatic;
  // listeners[].listen: address and port; port 0 lets the kernel choose. Required; no two alike,
  // port 0 excepted.
  SocketAddress listen;
  // listeners[].upstream: where to connect to; port 1 to 65535. Present exactly when mode is
  // kStatic.
  std::optional<SocketAddress> upstream;

  friend bool operator==(const Listener&, const Listener&) = default;
};

// Versions of SMC-R that a proxy speaks.
enum class SmcVersion : std::uint8_t {
  kAuto,  // both; version 2 is preferred
  kOne,
  kTwo,
};

// Which GIDs of an RNIC may be used, by their type.
enum class GidTypeChoice : std::uint8_t { kAuto, kRoceV1, kRoceV2 };

// Who sets TCP option 254 on our SYNs.
enum class OptionProgram : std::uint8_t {
  kAuto,      // attach if we may, else use what somebody attached before us, else go without
  kAttach,    // attach to our own cgroup, or refuse to start
  kExternal,  // the node side has attached it; only read the answer
  kNone,      // nobody: only `assume` leads to SMC-R
};

struct Smc {
  // smc.enabled: false relays everything as TCP. Default true.
  bool enabled = true;
  // smc.version: auto, 1 or 2. Default auto.
  SmcVersion version = SmcVersion::kAuto;
  // smc.ueids: 1 to 8, each 1 to 32 of A-Z 0-9 "." "-", first one alphanumeric, upper-cased, no
  // duplicates. Peers must share one. Default [FAIRLEAD].
  std::vector<std::string> ueids = {"FAIRLEAD"};
  // smc.max_connections_per_group.
  unsigned max_connections_per_group = usual_number("smc.max_connections_per_group");
  // smc.max_links: links of one link group; 0 for two where the network has two ports, else one.
  unsigned max_links = usual_number("smc.max_links");
  // smc.group_idle_timeout: how long a link group without connections is kept, 0 to 24h. Default
  // 600s.
  Duration group_idle_timeout = std::chrono::seconds(600);
  // smc.test_link_interval: idle time of a link before it is probed; 0 is never, else 1s to 1h.
  // Default 30s.
  Duration test_link_interval = std::chrono::seconds(30);
  // smc.handshake_timeout: from the first CLC byte to the end of the handshake, 100ms to 60s.
  // Default 6s.
  Duration handshake_timeout = std::chrono::seconds(6);
  // smc.defer_bytes: a connection between two proxies that both set it begins as TCP, and becomes
  // SMC-R when so many bytes have gone both ways together; 0 for SMC-R from the first byte.
  // Without effect where `fallback` is deny.
  std::size_t defer_bytes = usual_number("smc.defer_bytes");
  // smc.defer_turns: the same after so many requests that followed an answer, 1 to 1000. Default
  // 16.
  unsigned defer_turns = 16;
  // smc.defer_time: the same with the first byte after so long, 1ms to 1h. Default 1s.
  Duration defer_time = std::chrono::seconds(1);
  // smc.assume: at most 256 blocks whose hosts are taken to speak SMC-R although no TCP option said
  // so. Default none.
  std::vector<Cidr> assume;
  // smc.exclude: at most 256; SMC-R is never tried. Wins over `assume` and over the TCP option.
  // Keys of a rule: cidr and ports, at least one of them. Default none.
  std::vector<ConnectionRule> exclude;
  // smc.require: at most 256; a connection that cannot be SMC-R is reset, as all are where
  // `fallback` is deny. None may overlap one of `exclude`. With a rule the proxy accepts no
  // connection that begins as TCP (`defer_bytes`). Default none.
  std::vector<ConnectionRule> require;
  // smc.option_program: auto, attach, external or none. Default auto.
  OptionProgram option_program = OptionProgram::kAuto;
  // smc.traffic_class: DSCP and ECN of what queue pairs of RNICs send, as one byte.
  unsigned traffic_class = usual_number("smc.traffic_class");
  // smc.service_level: priority of the same.
  unsigned service_level = usual_number("smc.service_level");
  // smc.path_mtu: bytes that a packet of an RNIC carries at most; 0 for what the port has.
  unsigned path_mtu = usual_number("smc.path_mtu");
  // smc.ack_timeout: an RNIC sends again after 4.096us * 2^ack_timeout without acknowledgement.
  unsigned ack_timeout = usual_number("smc.ack_timeout");
  // smc.retry_count: how often it sends again before the link is lost.
  unsigned retry_count = usual_number("smc.retry_count");
  // smc.rnr_retry: how often it sends again to a peer without a receive request; 7 is without
  // end.
  unsigned rnr_retry = usual_number("smc.rnr_retry");
  // smc.gid_subnets: at most 16 blocks; GIDs of RNICs outside all of them are not used. Default
  // none, which means every GID.
  std::vector<Cidr> gid_subnets;
  // smc.gid_index: the only place in the GID table of a port that is used, 0 to 255, or "auto".
  // Default auto.
  std::optional<unsigned> gid_index;
  // smc.gid_type: auto, rocev1 or rocev2; the only type that is used. Default auto.
  GidTypeChoice gid_type = GidTypeChoice::kAuto;
  // smc.trusted_fabric: connections may use RNICs although their TCP path is encrypted below TCP.
  // Default false.
  bool trusted_fabric = false;
  // smc.partition_key: of InfiniBand, by value without the bit of membership, 0x1 to 0x7fff, or
  // "auto" for the first of a port. Default auto.
  std::optional<unsigned> partition_key;
  // smc.host_name: at most 32 printable ASCII characters, told to peers; empty means gethostname(),
  // cut to 32. Default "".
  std::string host_name;

  friend bool operator==(const Smc&, const Smc&) = default;
};

// What becomes of a connection that cannot be SMC-R.
enum class FallbackPolicy : std::uint8_t {
  kAllow,  // it is relayed as TCP
  kDeny,   // it is reset
};

// Whether applications see the client's address as that of their peer.
enum class ClientAddressMode : std::uint8_t {
  kAuto,  // where eBPF programs report it: ours if we may attach them, else those of the node side
  kOff,   // they see this pod's own address
};

// Whether connections of applications go past the proxy where SMC-R is not possible.
enum class DirectMode : std::uint8_t {
  kLearned,  // once that is learned, and if the redirect of the pod can do that
  kNever,    // every redirected connection goes through the proxy
};

struct ShmDevice {
  // devices.shm.enabled: default true.
  bool enabled = true;
  // devices.shm.broker: "@name" at which the node's broker finds the devices of this proxy, which
  // reach others through it; at most 104 characters. Default "@fairlead-proxy".
  std::string broker = "@fairlead-proxy";

  friend bool operator==(const ShmDevice&, const ShmDevice&) = default;
};

// Whether devices of a kind are used.
enum class DeviceUse : std::uint8_t {
  kAuto,   // those that are there
  kTrue,   // the same, and their absence is worth a warning
  kFalse,  // none
};

struct VerbsDevices {
  // devices.verbs.enabled: auto, true or false. Default auto.
  DeviceUse enabled = DeviceUse::kAuto;
  // devices.verbs.names: at most 16 RNICs that may be used ("mlx5_0"), each 1 to 63 of letters,
  // digits, "_", "-" and "."; empty means all. Default empty.
  std::vector<std::string> names;
  // devices.verbs.claim: the Kubernetes claim that gives the container its RNICs, or the template
  // of it; for messages. The name of an object, or "" for none. Default "".
  std::string claim;

  friend bool operator==(const VerbsDevices&, const VerbsDevices&) = default;
};

struct Devices {
  ShmDevice shm;
  VerbsDevices verbs;
  friend bool operator==(const Devices&, const Devices&) = default;
};

// Sizes of the rings of one connection. Both ends of SMC-R allow 16 KiB times a power of two only.
struct Buffers {
  // buffers.size: bytes asked for each direction; 16KiB*2^k up to 512MiB: of the RMB element where
  // the peer can address it, else half for that and half for the send ring. Default 512KiB.
  std::size_t size = 512 * kKibibyte;
  // buffers.size_min: smallest size accepted when memory is short, before the connection is TCP;
  // 16KiB*2^k, at most `size`. Default 16KiB.
  std::size_t size_min = 16 * kKibibyte;
  // buffers.publish: bytes after which the peer is told of progress although more is at hand, while
  // few connections are active; 4KiB to `size`. Default 128KiB.
  std::size_t publish = 128 * kKibibyte;
  // buffers.idle_timeout: how long memory for rings that no connection uses is kept, 0 to 24h.
  // Default 30s.
  Duration idle_timeout = std::chrono::seconds(30);

  friend bool operator==(const Buffers&, const Buffers&) = default;
};

struct Memory {
  // memory.limit: bytes that all connections of the proxy may cost at most, in rings, buffers of
  // sockets and state; shared out evenly to the workers; at least 1MiB and at least
  // buffers.size_min, at most 1TiB. Default 512MiB.
  std::size_t limit = 512 * kMebibyte;
  friend bool operator==(const Memory&, const Memory&) = default;
};

// For the whole proxy, shared out evenly to the workers.
struct Limits {
  // limits.connections: proxied connections at a time, 1 to 1000000. Default 10000.
  unsigned connections = 10000;
  // limits.handshakes: SMC handshakes at a time, 1 to 65536, at most `connections`; beyond it new
  // connections are TCP. Default 1024.
  unsigned handshakes = 1024;
  // limits.handshakes_per_peer: those of them that we begin with one address, 1 to 65536; beyond it
  // new connections stand in line. Default 16.
  unsigned handshakes_per_peer = 16;
  // limits.dial_timeout: for a TCP connect of the proxy, 10ms to 5m. Default 5s.
  Duration dial_timeout = std::chrono::seconds(5);

  friend bool operator==(const Limits&, const Limits&) = default;
};

// TCP connections to other hosts: when a host that no longer answers is taken for gone.
struct Tcp {
  // tcp.keepalive_idle: silence before the first keepalive probe, whole seconds from 1s to 1h; 0
  // for no probes. Default 30s.
  Duration keepalive_idle = std::chrono::seconds(30);
  // tcp.keepalive_interval: between two probes, whole seconds from 1s to 10m. Default 10s.
  Duration keepalive_interval = std::chrono::seconds(10);
  // tcp.keepalive_count: unanswered probes after which the connection ends, 1 to 100. Default 3.
  unsigned keepalive_count = 3;
  // tcp.user_timeout: how long data of a connection in TCP mode may stay unacknowledged, 1s to 1h;
  // 0 leaves that to the kernel. Default 60s.
  Duration user_timeout = std::chrono::seconds(60);

  friend bool operator==(const Tcp&, const Tcp&) = default;
};

struct Latency {
  // latency.spin: how long a worker polls before it blocks; 0 is off, at most 1ms. Default 50us.
  Duration spin = std::chrono::microseconds(50);
  // latency.spin_share_max: percent of one core that fruitless polling may cost, 0 to 100.
  // Default 10.
  unsigned spin_share_max = 10;

  friend bool operator==(const Latency&, const Latency&) = default;
};

struct Admin {
  // admin.listen: address and port of probes and metrics, "" for none. Default 127.0.0.1:4590.
  std::optional<SocketAddress> listen = SocketAddress(in_addr{htonl(INADDR_LOOPBACK)}, 4590);
  // admin.socket: the Unix socket of the whole HTTP interface: an absolute path, or "@name" in the
  // abstract namespace; at most 107 characters, "" for none. Default @fairlead-admin.
  std::string socket = "@fairlead-admin";

  friend bool operator==(const Admin&, const Admin&) = default;
};

struct Drain {
  // drain.timeout: from SIGTERM or SIGINT until what is left is reset, 0 to 1h. Default 30s.
  Duration timeout = std::chrono::seconds(30);
  friend bool operator==(const Drain&, const Drain&) = default;
};

struct HandOver {
  // hand_over.socket: where the keeper of this proxy's connections comes to: an absolute path, or
  // "@name" in the abstract namespace; at most 107 characters, "" for none. Default "".
  std::string socket;
  // hand_over.wait: how long a start waits for a keeper where a parked listener has the port, 0 to
  // 1m. Default 5s.
  Duration wait = std::chrono::seconds(5);
  // hand_over.settle: how long handshakes that are under way may take before the connections are
  // parked, 0 to 1m. A lost packet costs at least 200ms. Default 1s.
  Duration settle = std::chrono::seconds(1);
  friend bool operator==(const HandOver&, const HandOver&) = default;
};

struct Log {
  // log.level: trace, debug, info, warn, error or off. Default info.
  LogLevel level = LogLevel::kInfo;
  // log.format: logfmt or json. Default logfmt.
  LogFormat format = LogFormat::kLogfmt;
  friend bool operator==(const Log&, const Log&) = default;
};

struct Pnet {
  // pnet.id: the physical network, 1 to 16 of A-Z 0-9, upper-cased; "" finds it out. Default "".
  std::string id;
  friend bool operator==(const Pnet&, const Pnet&) = default;
};

struct Config {
  // concurrency: workers, 0 to 64; 0 means worker_count() decides by the CPUs. Default 0.
  unsigned concurrency = 0;
  // listeners: 1 to 64.
  std::vector<Listener> listeners;
  Smc smc;
  // fallback: allow or deny. Default allow.
  FallbackPolicy fallback = FallbackPolicy::kAllow;
  // client_address: auto or off. Default auto.
  ClientAddressMode client_address = ClientAddressMode::kAuto;
  // direct: learned or never. Default learned.
  DirectMode direct = DirectMode::kLearned;
  Devices devices;
  Buffers buffers;
  Memory memory;
  Limits limits;
  Tcp tcp;
  Latency latency;
  Admin admin;
  Drain drain;
  HandOver hand_over;
  Log log;
  Pnet pnet;

  friend bool operator==(const Config&, const Config&) = default;
};

// The spellings of the file.
std::string_view to_string(ListenerMode mode);
std::string_view to_string(SmcVersion version);
std::string_view to_string(GidTypeChoice choice);
std::string_view to_string(OptionProgram program);
std::string_view to_string(FallbackPolicy policy);
std::string_view to_string(ClientAddressMode mode);
std::string_view to_string(DirectMode mode);
std::string_view to_string(DeviceUse use);
std::string_view to_string(LogFormat format);

// `concurrency`, or if that is 0 what suits the CPUs (cpu_limit.h). 1 to 64.
unsigned worker_count(const Config& config);

// True when connections that the proxy accepts may begin as TCP, see smc.defer_bytes. What a
// SYN/ACK says is the same for every port, so one rule in smc.require ends that for all.
bool accepts_deferred(const Config& config);
// True when a connection to this destination may begin as TCP.
bool defers(const Config& config, const SocketAddress& destination);

// True when some rule of `exclude` matches. `server_port` as in ConnectionRule::matches().
bool excluded(const Smc& smc, const SocketAddress& peer, std::uint16_t server_port);
// True when some block of `assume` holds the peer and no exclusion matches.
bool assumed(const Smc& smc, const SocketAddress& peer, std::uint16_t server_port);
// True when the connection must be SMC-R: by `fallback`, or by a rule of `require`.
bool required(const Config& config, const SocketAddress& peer, std::uint16_t server_port);

}  // namespace fairlead::config
