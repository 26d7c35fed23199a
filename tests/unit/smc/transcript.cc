#include "unit/smc/transcript.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "golden.h"

namespace fairlead::smc {
namespace {

// In the order of the enumerations; these texts are independent of names in the code.
constexpr std::array kTasks = {"create_queue_pair", "connect", "move_connections", "release"};
constexpr std::array kEvents = {"link_confirmed", "link_refused",   "link_tested", "link_dead",
                                "link_added",     "link_not_added", "link_lost",   "link_deleted",
                                "rmb_told",       "rmb_refused",    "terminated",  "rkey_deleted"};

std::string& transcript() {
  static std::string text;
  return text;
}

// Zeros at the end as their count.
std::string hex(std::span<const std::byte> bytes) {
  std::size_t used = bytes.size();
  while (used != 0 && bytes[used - 1] == std::byte{0}) --used;
  std::string text;
  for (const std::byte byte : bytes.first(used))
    text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return used == bytes.size() ? text : text + fmt::format("+{}", bytes.size() - used);
}

// Nothing for a value of 0.
std::string field(const char* name, std::uint64_t value) {
  return value == 0 ? "" : fmt::format(" {}={}", name, value);
}

void record(const LinkGroup& group, const std::string& line) {
  transcript() += group.role() == GroupRole::kServer ? "server " : "client ";
  transcript() += line;
  transcript() += '\n';
}

// Of a test without a section.
std::string brief(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return fmt::format("{} lines, {:016x}", std::count(text.begin(), text.end(), '\n'), hash);
}

constexpr const char* kPath = FAIRLEAD_SOURCE_DIR "/tests/unit/smc/transcripts.txt";
constexpr const char* kAccepts = "; FAIRLEAD_UPDATE_GOLDEN=1 accepts the change";

// By the names of the tests: a hash, or a line break and the whole transcript.
using Golden = std::map<std::string, std::string>;

bool is_whole(const std::string& text) { return text.starts_with('\n'); }

Golden parse(const std::string& text) {
  Golden golden;
  std::istringstream lines(text);
  std::string* section = nullptr;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('[')) {
      section = &(golden[line.substr(1, line.size() - 2)] = "\n");
    } else if (section != nullptr) {
      *section += line + '\n';
    } else if (const std::size_t end = line.find(": "); end != std::string::npos) {
      golden[line.substr(0, end)] = line.substr(end + 2);
    }
  }
  return golden;
}

std::string print(const Golden& golden) {
  std::string hashes, sections;
  for (const auto& [name, text] : golden)
    is_whole(text) ? sections += "[" + name + "]" + text : hashes += name + ": " + text + "\n";
  return hashes + sections;
}

// Compares the transcript of each test, or writes those of the tests that ran.
class Transcripts final : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo&) override { transcript().clear(); }
  void OnTestEnd(const testing::TestInfo& test) override {
    const std::string name = std::string(test.test_suite_name()) + "." + test.name();
    const std::string& actual = transcript();
    if (actual.empty() && !golden_.contains(name)) return;
    const std::string& expected = golden_[name];
    current_[name] = is_whole(expected) ? "\n" + actual : brief(actual);
    if (golden::updates()) return;
    EXPECT_EQ(current_[name], expected)
        << kPath << ", " << name << kAccepts << "; the transcript is\n"
        << actual;
  }
  void OnTestIterationEnd(const testing::UnitTest& program, int) override {
    const bool all = program.test_to_run_count() == program.total_test_count();
    if (golden::updates()) {
      if (!all) current_.merge(golden_);
      golden::write(kPath, print(current_));
    } else if (all) {
      for (const auto& [name, text] : golden_)
        EXPECT_TRUE(current_.contains(name)) << kPath << ": no test " << name;
    }
  }

  Golden golden_ = parse(golden::read(kPath));
  Golden current_;
};

[[maybe_unused]] const bool kListens = [] {
  testing::UnitTest::GetInstance()->listeners().Append(new Transcripts);
  return true;
}();

}  // namespace

RecordedGroup::~RecordedGroup() {
  while (output().poll_llc()) continue;
  while (output().poll_event()) continue;
}

std::optional<LinkTask> RecordedGroup::poll_task(TimePoint now) {
  std::optional<LinkTask> task = LinkGroup::poll_task(now);
  if (task) {
    const LinkPeer& peer = task->peer;
    record(*this, fmt::format("action {} link={}", kTasks.at(static_cast<std::size_t>(task->kind)),
                              task->link) +
                      field("to", task->to) +
                      " gid=" + hex(std::as_bytes(std::span(peer.identity.gid.bytes))) +
                      " mac=" + hex(std::as_bytes(std::span(peer.identity.mac.bytes))) +
                      field("qpn", peer.identity.queue_pair.value) +
                      field("psn", peer.first_psn.value) +
                      field("mtu", static_cast<std::uint64_t>(peer.mtu)));
  }
  return task;
}

std::optional<LlcToSend> RecordedGroup::Output::poll_llc() {
  std::optional<LlcToSend> out = group.LinkGroup::output().poll_llc();
  if (out) record(group, fmt::format("llc link={} {}", out->link, hex(out->bytes)));
  return out;
}

std::optional<GroupEvent> RecordedGroup::Output::poll_event() {
  std::optional<GroupEvent> event = group.LinkGroup::output().poll_event();
  if (event) {
    const bool refused = event->kind == GroupEvent::Kind::kLinkRefused;
    record(group,
           fmt::format("event {} link={}", kEvents.at(static_cast<std::size_t>(event->kind)),
                       event->link) +
               field("number", event->number.value) +
               (refused ? fmt::format(" reason={}", fallback_info(event->reason).name) : "") +
               field("round_trip_ns", static_cast<std::uint64_t>(event->round_trip.count())) +
               field("rkey", event->rkey.value) + field("rmb", event->rmb));
  }
  return event;
}

}  // namespace fairlead::smc
