// The log's queue: order and completeness of lines, a standard error without a reader, the end of a
// process. Each test replaces standard error by a pipe.
#include "base/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "base/assert.h"
#include "base/linux/handle.h"
#include "base/paced_lines.h"

namespace fairlead {
namespace {

constexpr std::chrono::milliseconds kLongWait = std::chrono::minutes(1);
constexpr std::chrono::milliseconds kShortWait{10};
// More lines than the pipe and the queue hold.
constexpr std::size_t kManyLines = 2 * kLogQueueLines;

class LogToPipe : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(log_flush(kLongWait));
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    reader_.reset(ends[0]);
    saved_.reset(::dup(STDERR_FILENO));
    ASSERT_EQ(::dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
    ::close(ends[1]);
  }
  void TearDown() override {
    std::thread drain([this] { (void)read_until("\n\n"); });  // never comes
    while (!log_flush(kLongWait)) {
    }
    ::dup2(saved_.get(), STDERR_FILENO);  // the pipe's last writer goes
    drain.join();
  }

  // Reads until a complete line with `word`, or until the pipe has no writer.
  std::string read_until(const std::string& word) {
    std::string text;
    std::array<char, 65536> part;
    while (text.find(word) == std::string::npos || text.back() != '\n') {
      const ssize_t n = ::read(reader_.get(), part.data(), part.size());
      if (n <= 0) break;
      text.append(part.data(), static_cast<std::size_t>(n));
    }
    return text;
  }
  static void log_numbers(std::size_t count, const char* event = "number") {
    for (std::size_t i = 0; i < count; ++i)
      LogEvent(LogLevel::kInfo, "test", event).field("at", std::uint64_t{i});
  }

  const LogQueue queue_;
  FileDescriptor reader_;
  FileDescriptor saved_;
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    lines.push_back(text.substr(at, end - at));
    at = end == std::string::npos ? text.size() : end + 1;
  }
  return lines;
}

TEST_F(LogToPipe, KeepsOrderAndWholeLinesForAReaderWhoKeepsUp) {
  const std::uint64_t before = log_dropped_lines();
  constexpr std::size_t kLines = 100;
  log_numbers(kLines);
  LogEvent(LogLevel::kInfo, "test", "last");
  ASSERT_TRUE(log_flush(kLongWait));
  const std::vector<std::string> lines = lines_of(read_until("event=last"));
  ASSERT_EQ(lines.size(), kLines + 1);
  for (std::size_t i = 0; i < kLines; ++i)
    EXPECT_TRUE(lines[i].ends_with(" INFO test event=number at=" + std::to_string(i))) << lines[i];
  EXPECT_EQ(log_dropped_lines(), before);
}

TEST_F(LogToPipe, LinesOfOneKindHaveARateAndTheirNumberIsTold) {
  PacedLines paced(2, std::chrono::seconds(10));
  const auto write = [&](const char* event, int count, TimePoint now) {
    for (int i = 0; i < count; ++i)
      paced.write(LogLevel::kInfo, "test", event, now,
                  [&](LogEvent& line) { line.field("at", std::uint64_t(i)); });
  };
  const TimePoint begin{std::chrono::seconds(100)};
  write("many", 50, begin);
  write("other", 1, begin);  // is not hidden by the first kind
  write("many", 1, begin + std::chrono::seconds(11));
  ASSERT_TRUE(log_flush(kLongWait));
  const std::vector<std::string> lines = lines_of(read_until("left_out"));
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_TRUE(lines[1].ends_with("event=many at=1")) << lines[1];
  EXPECT_TRUE(lines[2].ends_with("event=other at=0")) << lines[2];
  EXPECT_TRUE(lines[3].ends_with("event=many at=0 left_out=48")) << lines[3];
}

TEST_F(LogToPipe, ALineThatIsNotLoggedTakesNoTurn) {
  LinePace pace(1, std::chrono::seconds(10));
  const TimePoint now{std::chrono::seconds(100)};
  write_paced(pace, LogLevel::kDebug, "test", "hidden", now, [](LogEvent&) {});
  write_paced(pace, LogLevel::kInfo, "test", "shown", now, [](LogEvent&) {});
  ASSERT_TRUE(log_flush(kLongWait));
  EXPECT_NE(read_until("shown").find("event=shown"), std::string::npos);
}

TEST_F(LogToPipe, ALongValueIsCutAndMarked) {
  constexpr std::size_t kMegabyte = 1 << 20;
  constexpr std::size_t kValueBytesMax = 2048;
  std::string characters = "x";
  while (characters.size() < kMegabyte) characters += "\xe2\x82\xac";
  LogEvent(LogLevel::kInfo, "test", "long")
      .field("exact", std::string(kValueBytesMax, 'e'))
      .field("long", std::string(kMegabyte, 'l'))
      .field("characters", characters)
      .field("after", "seen");
  ASSERT_TRUE(log_flush(kLongWait));
  const std::string line = read_until("after=seen");
  EXPECT_LT(line.size(), 3 * kValueBytesMax + 200);
  EXPECT_NE(line.find(" exact=" + std::string(kValueBytesMax, 'e') + " "), std::string::npos);
  EXPECT_NE(line.find(" long=" + std::string(kValueBytesMax, 'l') + "...(cut) "),
            std::string::npos);
  EXPECT_NE(line.find("\xe2\x82\xac...(cut)\" "), std::string::npos);
}

TEST_F(LogToPipe, ALineOfAnotherProgramGoesTheSameWay) {
  log_foreign_line("{\"event\":\"added\"}");
  ASSERT_TRUE(log_flush(kLongWait));
  EXPECT_EQ(read_until("added"), "{\"event\":\"added\"}\n");
}

TEST_F(LogToPipe, WithoutAReaderDropsTheOldestCountsThemAndSaysSoAfterwards) {
  const std::uint64_t before = log_dropped_lines();
  // Only what waits is dropped. This line is in the pipe before the queue fills up.
  LogEvent(LogLevel::kInfo, "test", "first");
  ASSERT_TRUE(log_flush(kLongWait));
  log_numbers(kManyLines);  // would never return if it waited
  LogEvent(LogLevel::kInfo, "test", "newest");
  EXPECT_FALSE(log_flush(kShortWait));
  EXPECT_GT(log_dropped_lines(), before);

  const std::vector<std::string> lines = lines_of(read_until("event=dropped"));
  EXPECT_TRUE(lines.front().ends_with("event=first")) << lines.front();
  std::size_t numbers = 0;
  bool newest = false;
  for (const std::string& line : lines) {
    numbers += line.find(" event=number at=") != std::string::npos;
    newest = newest || line.ends_with("event=newest");
  }
  EXPECT_LT(numbers, kManyLines);
  EXPECT_TRUE(newest || read_until("event=newest").find("event=newest") != std::string::npos);
}

TEST_F(LogToPipe, TheEndOfTheProcessDoesNotWaitForAReader) {
  log_numbers(kManyLines);
  { const LogQueue leaves; }
  EXPECT_FALSE(log_flush(kShortWait));
}

[[noreturn]] void fail_with(bool reader) {
  const LogQueue queue;
  if (!reader) {
    int ends[2];
    if (::pipe(ends) != 0 || ::dup2(ends[1], STDERR_FILENO) < 0) ::_exit(2);
    for (std::size_t i = 0; i < kManyLines; ++i) LogEvent(LogLevel::kInfo, "test", "number");
  }
  LogEvent(LogLevel::kInfo, "test", "before");
  const int answer = reader ? 41 : 43;
  SMC_ASSERT(answer == 42, answer);
  ::_exit(3);
}

TEST(LogDeath, AFailedAssertionComesAfterTheLinesBeforeItAndEndsTheProcessAlthoughNobodyReads) {
  // The child has the thread of the log only if it begins from main().
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(fail_with(true), testing::KilledBySignal(SIGABRT),
              "event=before\n.*assertion failed: answer == 42; \\(answer\\) are 41 \\(0x29\\)");
  EXPECT_EXIT(fail_with(false), testing::KilledBySignal(SIGABRT), "");
}

}  // namespace
}  // namespace fairlead
