// Input of fairlead-node: records and counts of sidecars, its own file, the API server's pods and
// DaemonSets, the plugin's questions, the runtime's network configuration, aliases of links, and
// the agent's token. Properties: a refusal has a text; an accepted record is equal after encoding
// and decoding; an id of the file belongs to one pod; the plugin can read every answer; the name of
// a node needs no escape in a path; Fairlead's entry in a configuration can be removed again;
// reasons of a sidecar are bounded in number and length.
#include <cstdint>
#include <string_view>

#include "base/assert.h"
#include "base/hand_over.h"
#include "broker/message.h"
#include "cni/node/agent/conflist.h"
#include "cni/node/agent/withdraw.h"
#include "cni/node/broker/broker_file.h"
#include "cni/node/cluster/token_claims.h"
#include "cni/node/pods/node_pods.h"
#include "cni/node/pods/pod_answers.h"
#include "cni/node/pods/sidecar_counts.h"
#include "cni/node/reports/status_report.h"
#include "cni/plugin/json_text.h"
#include "fuzz/reached.h"

namespace {

using namespace fairlead;
using namespace fairlead::cni::node;

void refused(const char* what, std::string_view why) {
  SMC_ASSERT(!why.empty());
  fuzz::reached(std::string(what) + " refused: " + fuzz::shape_of(why));
}

void check_record(std::span<const std::byte> input) {
  const auto message = broker::decode(input);
  if (!message) return refused("record", message.error().what);
  const auto again = broker::decode(broker::encode(*message));
  SMC_ASSERT(again.has_value() && *again == *message);
  fuzz::reached("record");
}

void check_file(std::string_view text) {
  const auto record = parse_broker_record(text);
  if (!record) {
    // The place in the text is the JSON library's.
    const std::string& why = record.error().message;
    return refused("file", why.substr(0, why.find(':')));
  }
  BrokerShares shares(0, [] { return 0.0; });
  BrokerUnread unread;
  BrokerBook book(shares, unread);
  book.restore(record->owners);
  SMC_ASSERT(book.ownerships().size() <= record->owners.size());
  const auto again = parse_broker_record(to_json_text({record->fabric, book.ownerships()}));
  SMC_ASSERT(again.has_value() && again->fabric == record->fabric);
  SMC_ASSERT(again->owners.size() == book.ownerships().size());
  fuzz::reached(record->owners.empty() ? "file" : "file with owners");
}

void check_pods(std::string_view text) {
  const auto page = parse_pod_page(text);
  if (!page) return refused("page", page.error());
  for (const NodePod& pod : page->pods) SMC_ASSERT(!pod.name.empty() && !pod.uid.empty());
  fuzz::reached(page->pods.empty() ? "page" : "page with pods");
  if (!page->next.empty()) fuzz::reached("page with a next one");
  const std::string path = pod_page_path(text, 1, page->next);
  for (const char c : path) SMC_ASSERT(c > ' ' && c <= '~', c);
}

void check_answers(std::string_view text) {
  if (read_rollout(text).complete()) fuzz::reached("rollout is complete");
  const auto question = cni::parse_question(text);
  if (question)
    fuzz::reached("question");
  else
    refused("question", question.error());
  const std::string answer =
      answer_about(question.value_or(cni::PodQuestion{}), parse_pod(text), "/x");
  const auto read = cni::parse_json(answer);
  SMC_ASSERT(read.has_value() && read->contains("annotations") != read->contains("error"));
  fuzz::reached(read->contains("error") ? "answer with an error" : "answer with annotations");
}

void check_token(std::string_view text) {
  const auto node = node_claim(text);
  if (!node) return;
  fuzz::reached("token");
  SMC_ASSERT(!node->name.empty() && !node->uid.empty());
  for (const char c : report_path("fl", node->name)) SMC_ASSERT(c > ' ' && c <= '~', c);
}

// The answers of a sidecar to two questions; the first line is the one to the first.
void check_counts(std::string_view text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const auto counts = parse_sidecar_counts(
      std::string(text.substr(0, end)), std::string(text.substr(std::min(end + 1, text.size()))));
  if (!counts) return refused("counts", counts.error().what);
  SMC_ASSERT(counts->reasons.size() <= kSidecarReasonsMax, counts->reasons.size());
  fuzz::reached(counts->reasons.empty() ? "counts" : "counts with reasons");
}

void check_configuration(std::string_view text) {
  const auto parsed = parse_configuration(text);
  if (!parsed) {
    fuzz::check_printable(parsed.error().message, 1024);
    const std::string& why = parsed.error().message;
    return refused("configuration", why.substr(0, why.find(':')));
  }
  OrderedJson list = *parsed;
  const Shape shape = cni::node::shape_of(list);
  fuzz::reached("configuration of shape " + std::to_string(static_cast<int>(shape)));
  if (shape == Shape::kElsewhere) return (void)cluster_network(list);
  if (shape == Shape::kSingle) list = as_list(list);
  const OrderedJson without = without_entry(list);
  SMC_ASSERT(!has_entry(without));
  const OrderedJson with = with_entry(list, {{"type", kPluginType}});
  SMC_ASSERT(has_entry(with) && without_entry(with) == without);
}

void check_entry(std::string_view text) {
  const auto entry = make_entry(text);
  if (entry) return fuzz::reached("entry");
  fuzz::check_printable(entry.error().message, 1024);
}

void check_alias(std::string_view text) {
  const auto note = parse_alias(text);
  if (!note) return;
  const std::string alias = to_alias(*note);
  SMC_ASSERT(alias.size() <= kAliasBytesMax, alias.size());
  const auto again = parse_alias(alias);
  SMC_ASSERT(again.has_value() && to_alias(*again) == alias);
  fuzz::reached("alias");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check_record(std::as_bytes(std::span(data, size)));
  check_file(text);
  check_pods(text);
  check_answers(text);
  check_token(text);
  check_counts(text);
  check_configuration(text);
  check_entry(text);
  check_alias(text);
  return 0;
}
