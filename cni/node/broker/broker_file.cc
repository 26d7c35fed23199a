#include "cni/node/broker/broker_file.h"

#include <fcntl.h>

#include <charconv>

#include "base/linux/files.h"
#include "base/log.h"
#include "base/random_id.h"
#include "cni/plugin/json_text.h"

namespace fairlead::cni::node {
namespace {

// Enough for all pods with all their ids, each with the name of its pod. Longer files are not
// written, so every written file can be read.
constexpr std::size_t kEntryBytesMax = 128;
constexpr std::size_t kBytesMax = kBrokeredPodsMax * kPeerIdsPerPodMax * kEntryBytesMax;
constexpr mode_t kMode = 0600;

std::string path_in(const std::string& run_dir) { return run_dir + "/broker.json"; }

template <std::size_t N>
bool read_hexadecimal(std::string_view text, std::array<std::uint8_t, N>& into) {
  if (text.size() != 2 * N) return false;
  for (std::size_t i = 0; i < N; ++i) {
    const char* const at = text.data() + 2 * i;
    if (std::from_chars(at, at + 2, into[i], 16).ptr != at + 2) return false;
  }
  return true;
}

tl::unexpected<PluginError> wrong(const std::string& what) {
  return fail(Code::kState, "broker.json: " + what);
}

}  // namespace

std::string to_json_text(const BrokerRecord& record) {
  Json owners = Json::object();
  for (const BrokerBook::Ownership& one : record.owners) owners[to_string(one.peer)] = one.pod;
  return to_text(Json{{"fabric", to_string(record.fabric)}, {"owners", std::move(owners)}}) + "\n";
}

Outcome<BrokerRecord> parse_broker_record(std::string_view text) {
  const auto json = parse_json(text, kBytesMax);
  if (!json) return wrong(json.error());
  if (!json->is_object()) return wrong("no object");
  const Json fabric = json->value("fabric", Json());
  BrokerRecord record;
  if (!fabric.is_string() ||
      !read_hexadecimal(fabric.get_ref<const std::string&>(), record.fabric.bytes) ||
      record.fabric == FabricId{})
    return wrong("fabric: " + shown(fabric) + " is not allowed; allowed: 10 hexadecimal digits");
  const Json owners = json->value("owners", Json::object());
  for (const auto& [key, pod] : owners.items()) {
    BrokerBook::Ownership one;
    if (!pod.is_string() || !read_hexadecimal(key, one.peer.bytes))
      return wrong("owners: " + shown(key) + " is not allowed");
    one.pod = pod.get<std::string>();
    record.owners.push_back(std::move(one));
  }
  return record;
}

BrokerRecord BrokerFile::load() const {
  const auto text = read_file(path_in(run_dir_), kBytesMax, O_NOFOLLOW);
  if (text) {
    auto record = parse_broker_record(*text);
    if (record) return std::move(*record);
    LogEvent(LogLevel::kWarn, "node", "broker_record_damaged")
        .field("what", record.error().message);
  }
  return {random_id<FabricId>(), {}};
}

Outcome<void> BrokerFile::store(const BrokerRecord& record) const {
  const std::string path = path_in(run_dir_);
  const std::string text = to_json_text(record);
  if (text.size() > kBytesMax)
    return wrong(std::to_string(text.size()) + " bytes are not allowed; allowed: at most " +
                 std::to_string(kBytesMax));
  const Result<void> written = replace_file(path, path + ".new", text, kMode);
  if (!written) return wrong(to_string(written.error()));
  return {};
}

Outcome<void> BrokerFile::take_over(BrokerBook& book) {
  const BrokerRecord record = load();
  fabric_ = record.fabric;
  book.restore(record.owners);
  SMC_TRY(store(record));
  changes_ = book.changes();
  return {};
}

void BrokerFile::remember(const BrokerBook& book) {
  if (changes_ == book.changes()) return;
  const auto stored = store({fabric_, book.ownerships()});
  if (stored) changes_ = book.changes();
  const std::string trouble = stored ? "" : stored.error().message;
  if (std::exchange(trouble_, trouble) == trouble || stored) return;
  LogEvent(LogLevel::kWarn, "broker", "record_not_written").field("what", trouble);
}

}  // namespace fairlead::cni::node
