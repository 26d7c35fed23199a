#include "admin/json.h"

#include <utility>

#include "admin/code_text.h"

namespace fairlead::admin {
namespace {

constexpr int kIndent = 2;

void append_flat(std::string& out, const std::string& prefix, const Json& json) {
  if (!json.is_structured()) {
    out += prefix + ' ' + (json.is_string() ? json.get<std::string>() : json.dump()) + '\n';
    return;
  }
  for (const auto& [key, value] : json.items())
    append_flat(out, prefix.empty() ? key : prefix + '.' + key, value);
}

std::string dump(const Json& json) {
  // Names that a peer sent may be anything but UTF-8; dump() would throw at them.
  return json.dump(kIndent, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace

Json to_json(const ConnectionRow& row) {
  return {{"id", row.id},
          {"worker", row.worker},
          {"direction", to_string(row.direction)},
          {"transport", to_string(row.transport)},
          {"state", row.state},
          {"app", row.app},
          {"peer", row.peer},
          {"group", row.group},
          {"link", row.link},
          {"reason", row.reason},
          {"reason_code", row.reason_code == 0 ? "" : code_text(row.reason_code)},
          {"client_address", row.client_address},
          {"local_token", row.local_token},
          {"peer_token", row.peer_token},
          {"rmb_bytes", row.rmb_bytes},
          {"peer_rmb_bytes", row.peer_rmb_bytes},
          {"tx_bytes", row.tx_bytes},
          {"rx_bytes", row.rx_bytes},
          {"age_seconds", row.age_seconds}};
}

Json to_json(const LinkRow& row) {
  return {{"group", row.group},
          {"number", row.number},
          {"state", row.state},
          {"rnic", row.rnic},
          {"port", row.port},
          {"local_gid", row.local_gid},
          {"peer_gid", row.peer_gid},
          {"local_qp", row.local_qp},
          {"peer_qp", row.peer_qp},
          {"mtu_bytes", row.mtu_bytes},
          {"connections", row.connections},
          {"rtt_seconds", row.rtt_seconds}};
}

Json to_json(const LinkGroupRow& row) {
  Json json = {{"id", row.id},
               {"worker", row.worker},
               {"role", row.role},
               {"type", row.type},
               {"peer_id", row.peer_id},
               {"peer_host", row.peer_host},
               {"version", row.version},
               {"ueid", row.ueid},
               {"connections", row.connections},
               {"connections_max", row.connections_max},
               {"links_max", row.links_max},
               {"rmb_bytes", row.rmb_bytes},
               {"idle_seconds", row.idle_seconds},
               {"links", Json::array()}};
  for (const LinkRow& link : row.links) json["links"].push_back(to_json(link));
  return json;
}

Json to_json(const DeviceRow& row) {
  return {{"name", row.name},
          {"kind", row.kind},
          {"port", row.port},
          {"state", row.state},
          {"gid", row.gid},
          {"gid_source", row.gid_source},
          {"mac", row.mac},
          {"pnet", row.pnet},
          {"pnet_source", row.pnet_source},
          {"mtu_bytes", row.mtu_bytes},
          {"reason", row.reason},
          {"detail", row.detail}};
}

Json to_json(const DecisionRow& row) {
  Json json = {{"id", row.id},
               {"time", row.time},
               {"direction", to_string(row.direction)},
               {"side", to_string(row.side)},
               {"transport", to_string(row.transport)},
               {"local", row.local},
               {"peer", row.peer},
               {"reason", row.reason},
               {"reason_code", row.reason_code == 0 ? "" : code_text(row.reason_code)},
               {"peer_code", row.peer_code == 0 ? "" : code_text(row.peer_code)},
               {"elapsed_seconds", row.elapsed_seconds},
               {"sentence", ""},
               {"hint", ""},
               {"steps", row.steps}};
  if (const FallbackInfo* info = find_fallback(row.reason)) {
    json["sentence"] = info->sentence;
    json["hint"] = info->hint;
  }
  return json;
}

Json to_json(const DestinationRow& row) {
  return {{"destination", row.destination},
          {"reason", row.reason},
          {"reason_code", code_text(row.reason_code)},
          {"learned_seconds", row.learned_seconds},
          {"left_seconds", row.left_seconds}};
}

Json to_json(const Fact& fact) {
  return {{"name", fact.name},
          {"status", to_string(fact.status)},
          {"finding", fact.text},
          {"fix", fact.fix}};
}

Json to_json(const BuildInfo& build) {
  return {{"version", build.version}, {"revision", build.revision}, {"backend", build.backend}};
}

Json fallbacks_json(StatsSpan workers, bool all) {
  Json list = Json::array();
  for (const FallbackInfo& info : fallback_table()) {
    for (Direction direction : {Direction::kOutbound, Direction::kInbound}) {
      for (Side side : {Side::kLocal, Side::kPeer}) {
        const std::uint64_t count =
            sum_of(workers, [&](const WorkerStats& worker) -> const Counter& {
              return worker.fallback[direction][side][info.reason];
            });
        if (count == 0 && !all) continue;
        list.push_back({{"reason", info.name},
                        {"code", code_text(info.code)},
                        {"direction", to_string(direction)},
                        {"side", to_string(side)},
                        {"count", count},
                        {"expected", info.expected},
                        {"sentence", info.sentence},
                        {"hint", info.hint}});
      }
    }
  }
  return list;
}

std::string flat_text(const Json& json) {
  std::string text;
  append_flat(text, "", json);
  return text;
}

event::HttpResponse json_response(int status, const Json& json) {
  return {.status = status, .content_type = "application/json", .body = dump(json)};
}

event::HttpResponse error_response(int status, std::string_view text) {
  return json_response(status, {{"error", text}});
}

}  // namespace fairlead::admin
