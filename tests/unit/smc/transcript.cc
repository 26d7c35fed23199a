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

// The first lines of a long transcript, and a hash over the rest.
constexpr std::size_t kLinesMax = 120;

std::string shortened(const std::string& text) {
  std::size_t end = 0;
  for (std::size_t lines = 0; lines < kLinesMax; ++lines) {
    end = text.find('\n', end) + 1;
    if (end == 0 || end == text.size()) return text;
  }
  std::uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a
  for (const char c : text.substr(end))
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return text.substr(0, end) +
         fmt::format("and {} lines with hash {:016x}\n",
                     std::count(text.begin() + static_cast<std::ptrdiff_t>(end), text.end(), '\n'),
                     hash);
}

using Sections = std::map<std::string, std::string>;

Sections parse(const std::string& text) {
  Sections sections;
  std::istringstream lines(text);
  std::string line;
  std::string* section = nullptr;
  while (std::getline(lines, line)) {
    if (line.starts_with('[')) {
      section = &sections[line.substr(1, line.size() - 2)];
    } else if (section != nullptr) {
      *section += line + '\n';
    }
  }
  return sections;
}

// Compares the transcript of each test with its section, or writes the sections of the tests that
// ran.
class Transcripts final : public testing::EmptyTestEventListener {
  void OnTestSuiteStart(const testing::TestSuite& suite) override {
    std::string name = suite.name();
    for (char& c : name) c = c == '/' ? '_' : c;
    path_ = FAIRLEAD_SOURCE_DIR "/tests/unit/smc/transcripts/" + name + ".txt";
    golden_ = parse(golden::read(path_));
    current_.clear();
  }
  void OnTestStart(const testing::TestInfo&) override { transcript().clear(); }
  void OnTestEnd(const testing::TestInfo& test) override {
    const std::string name = test.name();
    const std::string actual = shortened(transcript());
    if (!actual.empty()) current_[name] = actual;
    if (golden::updates()) return;
    const std::string expected = golden_.contains(name) ? golden_[name] : "";
    EXPECT_EQ(actual, expected) << path_ << ", section " << name
                                << "; FAIRLEAD_UPDATE_GOLDEN=1 accepts the change";
  }
  void OnTestSuiteEnd(const testing::TestSuite& suite) override {
    const bool all = suite.test_to_run_count() == suite.total_test_count();
    if (golden::updates()) {
      Sections sections = all ? Sections{} : golden_;
      for (const auto& [name, text] : current_) sections[name] = text;
      if (sections.empty()) return;
      std::string text;
      for (const auto& [name, section] : sections) text += "[" + name + "]\n" + section;
      golden::write(path_, text);
    } else if (all) {
      for (const auto& [name, text] : golden_)
        EXPECT_TRUE(current_.contains(name)) << path_ << ": no test for the section " << name;
    }
  }

  std::string path_;
  Sections golden_, current_;
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
