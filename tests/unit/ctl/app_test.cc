// fairleadctl as a whole, against an admin server with a canned proxy.
#include "ctl/app.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "golden.h"
#include "unit/ctl/with_proxy.h"

namespace fairlead::ctl {
namespace {

using testing::HasSubstr;

TEST_F(Fairleadctl, ShortNamesOfTheSmcToolsWork) {
  EXPECT_EQ(ask({"ss"}).out, ask({"connections"}).out);
  EXPECT_EQ(ask({"linkgroup"}).out, ask({"linkgroups"}).out);
  EXPECT_EQ(ask({"link"}).out, ask({"links"}).out);
}

TEST_F(Fairleadctl, JsonIsTheAnswerOfTheProxy) {
  for (const char* command : {"connections", "linkgroups", "links", "devices", "fallbacks",
                              "destinations", "why", "stats", "version", "doctor", "log-level"}) {
    const Outcome outcome = ask({command, "-o", "json"});
    EXPECT_TRUE(nlohmann::json::accept(outcome.out)) << command << ": " << outcome.out;
    EXPECT_EQ(outcome.err, "") << command;
  }
}

TEST_F(Fairleadctl, WhyFindsAPeerOrWarns) {
  const Outcome found = ask({"why", "10.1.2.7:9090"});
  EXPECT_EQ(found.exit_code, 0);
  EXPECT_THAT(found.out, HasSubstr("10.1.2.7:9090: TCP, not SMC-R"));
  EXPECT_THAT(ask({"why", "[fd00::7]:80"}).out, HasSubstr("[fd00::7]:80"));
  const Outcome none = ask({"why", "192.0.2.1"});
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_EQ(none.out, "");
}

TEST_F(Fairleadctl, LimitsAndFiltersReachTheProxy) {
  const Outcome limited = ask({"connections", "--limit", "1"});
  EXPECT_EQ(limited.exit_code, 0);
  EXPECT_THAT(limited.err, HasSubstr("showing 1 of 2"));
  EXPECT_EQ(ask({"connections", "--state", "hand shake"}).out, "no connections\n");
}

TEST_F(Fairleadctl, DoctorReturnsTheWorstFinding) {
  proxy_.stats[0]->fallback[Direction::kInbound][Side::kLocal][FallbackReason::kNoRoute].add();
  const Outcome warned = ask({"doctor"});
  EXPECT_EQ(warned.exit_code, 1) << warned.out;
  EXPECT_THAT(warned.out, HasSubstr("ok    option_program  attached\n"));
  proxy_.facts.push_back({"broken", admin::FactStatus::kFail, "is broken", "mend it"});
  const Outcome failed = ask({"doctor"});
  EXPECT_EQ(failed.exit_code, 2);
  EXPECT_THAT(failed.out, HasSubstr("is broken  -> mend it\n"));
}

TEST_F(Fairleadctl, DoctorWithoutAProxyStillChecksTheHost) {
  server_.reset();
  const Outcome outcome = ask({"doctor"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_TRUE(outcome.out.starts_with("fail  proxy ")) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("  kernel "));
}

TEST_F(Fairleadctl, DrainAndLogLevelChangeTheProxy) {
  const LogLevel before = log_level();
  const Outcome drained = ask({"drain"}), ordered = ask({"port", "shm0", "2", "down"});
  EXPECT_EQ(drained.exit_code, 0);
  EXPECT_EQ(drained.out, "draining: new connections are TCP, open ones go on\n");
  EXPECT_TRUE(proxy_.draining);
  EXPECT_EQ(ordered.exit_code, 0);
  EXPECT_EQ(ordered.out, "told to go down; see fairleadctl devices\n");
  EXPECT_EQ(proxy_.port_order, "shm0 2 down");
  EXPECT_EQ(ask({"log-level", "error"}).out, "error\n");
  EXPECT_EQ(log_level(), LogLevel::kError);
  EXPECT_EQ(ask({"log-level"}).out, "error\n");
  log_set_level(before);
}

TEST_F(Fairleadctl, StatsAreRepeatedAsOftenAsAsked) {
  const Outcome outcome = ask({"stats", "--watch", "0.1", "--times", "2"});
  EXPECT_EQ(outcome.exit_code, 0);
  const std::size_t first = outcome.out.find("fairlead-proxy 1.2.3");
  EXPECT_NE(outcome.out.find("fairlead-proxy 1.2.3", first + 1), std::string::npos);
}

TEST_F(Fairleadctl, EndpointComesFromTheEnvironmentToo) {
  ::setenv("FAIRLEAD_ADMIN", address_.c_str(), 1);
  EXPECT_EQ(run_with({"devices"}).exit_code, 0);
  ::setenv("FAIRLEAD_ADMIN", "@fairlead-nobody-here", 1);
  EXPECT_EQ(run_with({"devices"}).exit_code, 2);
  EXPECT_EQ(ask({"devices"}).exit_code, 0);
}

TEST_F(Fairleadctl, UnreachableProxyIsAFailureThatNamesTheEndpoint) {
  const Outcome outcome = run_with({"connections", "--admin", "@fairlead-nobody-here"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("@fairlead-nobody-here: connect: "));
  EXPECT_EQ(run_with({"connections", "--admin", "nonsense"}).exit_code, 2);
}

TEST_F(Fairleadctl, VersionNeedsNoProxy) {
  EXPECT_EQ(ask({"version"}).out,
            "fairleadctl     " + run_with({"--version"}).out + "fairlead-proxy  1.2.3 (abc123)\n");
  server_.reset();
  const Outcome outcome = ask({"version"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("not reached"));
  const Outcome flag = run_with({"--version"});
  EXPECT_EQ(flag.exit_code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("fairleadctl     " + flag.out));
}

TEST(FairleadctlUsage, MistakesReturnTwoAndHelpReturnsZero) {
  EXPECT_EQ(run_with({}).exit_code, 2);
  EXPECT_EQ(run_with({"bogus"}).exit_code, 2);
  EXPECT_EQ(run_with({"connections", "--limit", "0"}).exit_code, 2);
  EXPECT_EQ(run_with({"connections", "-o", "xml"}).exit_code, 2);
  EXPECT_EQ(run_with({"log-level", "loud"}).exit_code, 2);
  EXPECT_EQ(run_with({"--help"}).exit_code, 0);
}

TEST(FairleadctlUsage, EveryCommandHasHelpWithAnExample) {
  for (const char* command :
       {"connections", "linkgroups", "links", "devices", "fallbacks", "destinations", "why",
        "stats", "doctor", "drain", "port", "log-level", "version", "completion"}) {
    const Outcome outcome = run_with({command, "--help"});
    EXPECT_EQ(outcome.exit_code, 0) << command;
    EXPECT_THAT(outcome.out, testing::AllOf(HasSubstr(std::string("fairleadctl ") + command),
                                            HasSubstr("Examples:\n")));
  }
}

TEST(FairleadctlUsage, CompletionIsAScriptThatBashTakes) {
  const Outcome outcome = run_with({"completion", "bash"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out.find("docs"), std::string::npos);
  const std::string path = testing::TempDir() + "fairlead-completion-" + std::to_string(::getpid());
  std::ofstream(path) << outcome.out
                      << "COMP_WORDS=(fairleadctl why --a)\nCOMP_CWORD=2\n_fairleadctl\n"
                         "[ \"${COMPREPLY[*]}\" = \"--all --admin\" ]\n";
  EXPECT_EQ(std::system(("bash -eu " + path).c_str()), 0);
  std::remove(path.c_str());
}

TEST(GeneratedDocs, AreWhatTheCodeSays) {
  for (const char* page : {"annotations", "metrics", "reasons", "runbook"}) {
    const std::string path = std::string(FAIRLEAD_SOURCE_DIR "/docs/") + page + ".md";
    EXPECT_EQ(run_with({"docs", page}).out, golden::read(path))
        << "regenerate " << path << ": fairleadctl docs " << page << " >docs/" << page << ".md";
  }
}

}  // namespace
}  // namespace fairlead::ctl
