// Every key of the file, in the order of config/proxy.yaml. CONTRIBUTING.md has the steps to a new
// setting; the tests notice a missing one.
#include <array>
#include <chrono>

#include "base/pod_settings.h"
#include "config/key.h"

#define FAIRLEAD_MEMBER(member) \
  [](auto& s) -> auto& { return s.member; }

namespace fairlead::config {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr std::size_t kMemoryBytesMin = kMebibyte;
constexpr std::size_t kMemoryBytesMax = kMebibyte * kMebibyte;
constexpr std::size_t kPublishBytesMin = 4 * kKibibyte;
constexpr unsigned kDeferTurnsMax = 1000;
constexpr unsigned kConnectionsMax = 1'000'000;
constexpr unsigned kHandshakesMax = 65536;
constexpr unsigned kKeepaliveCountMax = 100;

constexpr EnumCodec kDirections{std::array{Direction::kOutbound, Direction::kInbound}};
constexpr EnumCodec kModes{
    std::array{ListenerMode::kStatic, ListenerMode::kRedirect, ListenerMode::kTproxy}};
constexpr EnumCodec kVersions{std::array{SmcVersion::kAuto, SmcVersion::kOne, SmcVersion::kTwo}};
constexpr EnumCodec kGidTypes{
    std::array{GidTypeChoice::kAuto, GidTypeChoice::kRoceV1, GidTypeChoice::kRoceV2}};
constexpr EnumCodec kPrograms{std::array{OptionProgram::kAuto, OptionProgram::kAttach,
                                         OptionProgram::kExternal, OptionProgram::kNone}};
constexpr EnumCodec kFallbacks{std::array{FallbackPolicy::kAllow, FallbackPolicy::kDeny}};
constexpr EnumCodec kClientAddressModes{
    std::array{ClientAddressMode::kAuto, ClientAddressMode::kOff}};
constexpr EnumCodec kDirectModes{std::array{DirectMode::kLearned, DirectMode::kNever}};
constexpr EnumCodec kDeviceUses{std::array{DeviceUse::kAuto, DeviceUse::kTrue, DeviceUse::kFalse}};
constexpr EnumCodec kLevels{std::array{LogLevel::kTrace, LogLevel::kDebug, LogLevel::kInfo,
                                       LogLevel::kWarn, LogLevel::kError, LogLevel::kOff}};
constexpr EnumCodec kFormats{std::array{LogFormat::kLogfmt, LogFormat::kJson}};

constexpr const PodSetting& kDeferBytes = pod_setting("smc.defer_bytes");

constexpr TextCodec kListenerName{check_listener_name, "1 to 63 characters of a-z, 0-9 and -"};
constexpr TextCodec kUeid{check_ueid,
                          "1 to 32 characters of A-Z, 0-9, . and -, the first a letter or digit"};
constexpr TextCodec kHostName{check_host_name, "at most 32 printable ASCII characters"};
constexpr TextCodec kDeviceName{check_device_name,
                                "1 to 63 letters, digits, _, - and ., as in ibv_devices(1)"};
constexpr TextCodec kClaimName{check_claim_name,
                               "1 to 253 characters of a-z, 0-9, - and ., or \"\""};
constexpr TextCodec kSocketName{
    check_socket_name, "an absolute path or @name, at most 107 characters, or \"\" for none"};
constexpr TextCodec kBrokerName{check_broker_name, "@name, at most 104 characters"};
constexpr TextCodec kPnetId{check_pnet_id, "1 to 16 characters of A-Z and 0-9, or \"\""};

template <class Struct>
Key<Struct> required(Key<Struct> key) {
  key.required = true;
  return key;
}

std::span<const Key<Listener>> listener_keys() {
  static const std::array kKeys = {
      required(single<Listener>("name", FAIRLEAD_MEMBER(name), kListenerName)),
      required(single<Listener>("direction", FAIRLEAD_MEMBER(direction), kDirections)),
      required(single<Listener>("mode", FAIRLEAD_MEMBER(mode), kModes)),
      required(single<Listener>("listen", FAIRLEAD_MEMBER(listen), EndpointCodec{})),
      single<Listener>("upstream", FAIRLEAD_MEMBER(upstream), OptionalEndpointCodec{false, false}),
  };
  return kKeys;
}

std::span<const Key<ConnectionRule>> connection_rule_keys() {
  static const std::array kKeys = {
      single<ConnectionRule>("cidr", FAIRLEAD_MEMBER(cidr), OptionalCidrCodec{}),
      list_of<ConnectionRule>("ports", FAIRLEAD_MEMBER(ports), PortCodec{}, {0, kRulePortsMax}),
  };
  return kKeys;
}

std::optional<ConnectionRule> connection_rule_from(const Node& node, const std::string& key,
                                                   Reading& reading) {
  const Result<ConnectionRule> rule = ConnectionRule::parse(node.text);
  if (rule) return *rule;
  reading.wrong(node, key,
                in_quotes(node.text) + " names no connections: " + std::string(rule.error().what),
                "CIDR, \"CIDR port P\", \"port P\", or a mapping with cidr or ports; CIDR is " +
                    CidrCodec::allowed());
  return std::nullopt;
}

// A number that the chart or an annotation can give too.
template <class Member>
Key<Config> number(const PodSetting& setting, Member member) {
  return single<Config>(setting.key, member, IntegerCodec{setting.lowest(), setting.limits.max});
}

std::vector<Key<Config>> smc_keys() {
  return {
      single<Config>("smc.enabled", FAIRLEAD_MEMBER(smc.enabled), BooleanCodec{}),
      single<Config>("smc.version", FAIRLEAD_MEMBER(smc.version), kVersions),
      list_of<Config>("smc.ueids", FAIRLEAD_MEMBER(smc.ueids), kUeid, {1, kUeidsMax}),
      number(pod_setting("smc.max_connections_per_group"),
             FAIRLEAD_MEMBER(smc.max_connections_per_group)),
      number(pod_setting("smc.max_links"), FAIRLEAD_MEMBER(smc.max_links)),
      single<Config>("smc.group_idle_timeout", FAIRLEAD_MEMBER(smc.group_idle_timeout),
                     DurationCodec{seconds(0), hours(24)}),
      single<Config>("smc.test_link_interval", FAIRLEAD_MEMBER(smc.test_link_interval),
                     DurationCodec{seconds(1), hours(1), true}),
      single<Config>("smc.handshake_timeout", FAIRLEAD_MEMBER(smc.handshake_timeout),
                     DurationCodec{milliseconds(100), seconds(60)}),
      single<Config>("smc.defer_bytes", FAIRLEAD_MEMBER(smc.defer_bytes),
                     SizeCodec{kDeferBytes.limits.min, kDeferBytes.limits.max, false, true}),
      single<Config>("smc.defer_turns", FAIRLEAD_MEMBER(smc.defer_turns),
                     IntegerCodec{1, kDeferTurnsMax}),
      single<Config>("smc.defer_time", FAIRLEAD_MEMBER(smc.defer_time),
                     DurationCodec{milliseconds(1), hours(1)}),
      list_of<Config>("smc.assume", FAIRLEAD_MEMBER(smc.assume), CidrCodec{}, {0, kAssumeMax}),
      list_of_structs<Config, ConnectionRule>("smc.exclude", FAIRLEAD_MEMBER(smc.exclude),
                                              connection_rule_keys(), {0, kConnectionRulesMax},
                                              connection_rule_from),
      list_of_structs<Config, ConnectionRule>("smc.require", FAIRLEAD_MEMBER(smc.require),
                                              connection_rule_keys(), {0, kConnectionRulesMax},
                                              connection_rule_from),
      single<Config>("smc.option_program", FAIRLEAD_MEMBER(smc.option_program), kPrograms),
      number(pod_setting("smc.traffic_class"), FAIRLEAD_MEMBER(smc.traffic_class)),
      number(pod_setting("smc.service_level"), FAIRLEAD_MEMBER(smc.service_level)),
      single<Config>("smc.path_mtu", FAIRLEAD_MEMBER(smc.path_mtu), PathMtuCodec{}),
      number(pod_setting("smc.ack_timeout"), FAIRLEAD_MEMBER(smc.ack_timeout)),
      number(pod_setting("smc.retry_count"), FAIRLEAD_MEMBER(smc.retry_count)),
      number(pod_setting("smc.rnr_retry"), FAIRLEAD_MEMBER(smc.rnr_retry)),
      list_of<Config>("smc.gid_subnets", FAIRLEAD_MEMBER(smc.gid_subnets), CidrCodec{},
                      {0, kGidSubnetsMax}),
      single<Config>("smc.gid_index", FAIRLEAD_MEMBER(smc.gid_index), GidIndexCodec{}),
      single<Config>("smc.gid_type", FAIRLEAD_MEMBER(smc.gid_type), kGidTypes),
      single<Config>("smc.trusted_fabric", FAIRLEAD_MEMBER(smc.trusted_fabric), BooleanCodec{}),
      single<Config>("smc.partition_key", FAIRLEAD_MEMBER(smc.partition_key), PartitionKeyCodec{}),
      single<Config>("smc.host_name", FAIRLEAD_MEMBER(smc.host_name), kHostName,
                     KeyShape::kSingleOrNone),
  };
}

std::vector<Key<Config>> resource_keys() {
  return {
      single<Config>("fallback", FAIRLEAD_MEMBER(fallback), kFallbacks),
      single<Config>("client_address", FAIRLEAD_MEMBER(client_address), kClientAddressModes),
      single<Config>("direct", FAIRLEAD_MEMBER(direct), kDirectModes),
      single<Config>("devices.shm.enabled", FAIRLEAD_MEMBER(devices.shm.enabled), BooleanCodec{}),
      single<Config>("devices.shm.broker", FAIRLEAD_MEMBER(devices.shm.broker), kBrokerName),
      single<Config>("devices.verbs.enabled", FAIRLEAD_MEMBER(devices.verbs.enabled), kDeviceUses),
      list_of<Config>("devices.verbs.names", FAIRLEAD_MEMBER(devices.verbs.names), kDeviceName,
                      {0, kDeviceNamesMax}),
      single<Config>("devices.verbs.claim", FAIRLEAD_MEMBER(devices.verbs.claim), kClaimName,
                     KeyShape::kSingleOrNone),
      single<Config>("buffers.size", FAIRLEAD_MEMBER(buffers.size),
                     SizeCodec{kBufferBytesMin, kBufferBytesMax, true}),
      single<Config>("buffers.size_min", FAIRLEAD_MEMBER(buffers.size_min),
                     SizeCodec{kBufferBytesMin, kBufferBytesMax, true}),
      single<Config>("buffers.publish", FAIRLEAD_MEMBER(buffers.publish),
                     SizeCodec{kPublishBytesMin, kBufferBytesMax}),
      single<Config>("buffers.idle_timeout", FAIRLEAD_MEMBER(buffers.idle_timeout),
                     DurationCodec{seconds(0), hours(24)}),
      single<Config>("memory.limit", FAIRLEAD_MEMBER(memory.limit),
                     SizeCodec{kMemoryBytesMin, kMemoryBytesMax}),
      single<Config>("limits.connections", FAIRLEAD_MEMBER(limits.connections),
                     IntegerCodec{1, kConnectionsMax}),
      single<Config>("limits.handshakes", FAIRLEAD_MEMBER(limits.handshakes),
                     IntegerCodec{1, kHandshakesMax}),
      single<Config>("limits.handshakes_per_peer", FAIRLEAD_MEMBER(limits.handshakes_per_peer),
                     IntegerCodec{1, kHandshakesMax}),
      single<Config>("limits.dial_timeout", FAIRLEAD_MEMBER(limits.dial_timeout),
                     DurationCodec{milliseconds(10), minutes(5)}),
      single<Config>("tcp.keepalive_idle", FAIRLEAD_MEMBER(tcp.keepalive_idle),
                     DurationCodec{seconds(1), hours(1), true}),
      single<Config>("tcp.keepalive_interval", FAIRLEAD_MEMBER(tcp.keepalive_interval),
                     DurationCodec{seconds(1), minutes(10)}),
      single<Config>("tcp.keepalive_count", FAIRLEAD_MEMBER(tcp.keepalive_count),
                     IntegerCodec{1, kKeepaliveCountMax}),
      single<Config>("tcp.user_timeout", FAIRLEAD_MEMBER(tcp.user_timeout),
                     DurationCodec{seconds(1), hours(1), true}),
      single<Config>("latency.spin", FAIRLEAD_MEMBER(latency.spin),
                     DurationCodec{seconds(0), milliseconds(1)}),
      single<Config>("latency.spin_share_max", FAIRLEAD_MEMBER(latency.spin_share_max),
                     IntegerCodec{0, 100}),
  };
}

std::vector<Key<Config>> operation_keys() {
  return {
      single<Config>("admin.listen", FAIRLEAD_MEMBER(admin.listen), OptionalEndpointCodec{},
                     KeyShape::kSingleOrNone),
      single<Config>("admin.socket", FAIRLEAD_MEMBER(admin.socket), kSocketName,
                     KeyShape::kSingleOrNone),
      single<Config>("drain.timeout", FAIRLEAD_MEMBER(drain.timeout),
                     DurationCodec{seconds(0), hours(1)}),
      single<Config>("hand_over.socket", FAIRLEAD_MEMBER(hand_over.socket), kSocketName,
                     KeyShape::kSingleOrNone),
      single<Config>("hand_over.wait", FAIRLEAD_MEMBER(hand_over.wait),
                     DurationCodec{seconds(0), minutes(1)}),
      single<Config>("hand_over.settle", FAIRLEAD_MEMBER(hand_over.settle),
                     DurationCodec{seconds(0), minutes(1)}),
      single<Config>("log.level", FAIRLEAD_MEMBER(log.level), kLevels),
      single<Config>("log.format", FAIRLEAD_MEMBER(log.format), kFormats),
      single<Config>("pnet.id", FAIRLEAD_MEMBER(pnet.id), kPnetId, KeyShape::kSingleOrNone),
  };
}

}  // namespace

std::span<const Key<Config>> config_keys() {
  static const std::vector<Key<Config>> kKeys = [] {
    std::vector<Key<Config>> keys = {
        single<Config>("concurrency", FAIRLEAD_MEMBER(concurrency),
                       IntegerCodec{0, kConcurrencyMax}),
        list_of_structs<Config, Listener>("listeners", FAIRLEAD_MEMBER(listeners), listener_keys(),
                                          {1, kListenersMax}),
    };
    for (const auto& part : {smc_keys(), resource_keys(), operation_keys()})
      keys.insert(keys.end(), part.begin(), part.end());
    return keys;
  }();
  return kKeys;
}

}  // namespace fairlead::config
