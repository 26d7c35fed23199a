// Input of fairlead-node: records of sidecars, its own file, the API server's pods and DaemonSets,
// the plugin's questions, and the agent's token. Properties: a refusal has a text; an accepted
// record is equal after encoding and decoding; an id of the file belongs to one pod; the plugin can
// read every answer; the name of a node needs no escape in a path.
#include <cstdint>
#include <string_view>

#include "base/assert.h"
#include "broker/message.h"
#include "cni/json_text.h"
#include "cni/node/broker_file.h"
#include "cni/node/node_pods.h"
#include "cni/node/pod_answers.h"
#include "cni/node/status_report.h"
#include "cni/node/token_claims.h"
#include "cni/node/withdraw.h"

namespace {

using namespace fairlead;
using namespace fairlead::cni::node;

void refused(std::string_view why) { SMC_ASSERT(!why.empty()); }

void check_record(std::span<const std::byte> input) {
  const auto message = broker::decode(input);
  if (!message) return refused(message.error().what);
  const auto again = broker::decode(broker::encode(*message));
  SMC_ASSERT(again.has_value() && *again == *message);
}

void check_file(std::string_view text) {
  const auto record = parse_broker_record(text);
  if (!record) return refused(record.error().message);
  BrokerBook book;
  book.restore(record->owners);
  SMC_ASSERT(book.ownerships().size() <= record->owners.size());
  const auto again = parse_broker_record(to_json_text({record->fabric, book.ownerships()}));
  SMC_ASSERT(again.has_value() && again->fabric == record->fabric);
  SMC_ASSERT(again->owners.size() == book.ownerships().size());
}

void check_pods(std::string_view text) {
  const auto page = parse_pod_page(text);
  if (!page) return refused(page.error());
  for (const NodePod& pod : page->pods) SMC_ASSERT(!pod.name.empty() && !pod.uid.empty());
  const std::string path = pod_page_path(text, 1, page->next);
  for (const char c : path) SMC_ASSERT(c > ' ' && c <= '~', c);
}

void check_answers(std::string_view text) {
  (void)read_rollout(text).complete();
  const auto question = cni::parse_question(text);
  if (!question) refused(question.error());
  const std::string answer =
      answer_about(question.value_or(cni::PodQuestion{}), parse_pod(text), "/x");
  const auto read = cni::parse_json(answer);
  SMC_ASSERT(read.has_value() && read->contains("annotations") != read->contains("error"));
}

void check_token(std::string_view text) {
  const auto node = node_claim(text);
  if (!node) return;
  SMC_ASSERT(!node->name.empty() && !node->uid.empty());
  for (const char c : report_path("fl", node->name)) SMC_ASSERT(c > ' ' && c <= '~', c);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check_record(std::as_bytes(std::span(data, size)));
  check_file(text);
  check_pods(text);
  check_answers(text);
  check_token(text);
  return 0;
}
