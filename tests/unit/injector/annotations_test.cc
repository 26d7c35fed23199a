// Goal: every annotation takes what its reference says and refuses the rest, naming key, value and
// what is allowed. Method: tables of values at both sides of each border.
#include "injector/annotations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fairlead::injector {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Values {
  const char* name;
  std::vector<std::string> good;
  std::vector<std::string> bad;
};

const std::string kImageTooLong(256, 'a');
std::string ports(std::size_t count) {
  std::string list = "1";
  for (std::size_t i = 1; i < count; ++i) list += ",1";
  return list;
}

const std::vector<Values>& values() {
  static const std::vector<Values> kValues = {
      {"inject", {"enabled", "disabled"}, {"", "true", "yes", "Enabled", "enabled "}},
      {"allow-mesh", {"true", "false"}, {"", "yes", "1"}},
      {"image",
       {"a", "registry.example:5000/fairlead:0.1", "x@sha256:00"},
       {"", " a", "-a", "a b", "a\nb", kImageTooLong}},
      {"rnic-resource",
       {"none", "rdma/hca_shared_devices_a", "a.example/b"},
       {"", "rdma", "rdma/", "/a", "Rdma/a", "rdma/a b", "rdma/-a", "rdma/a/b"}},
      {"proxy-cpu-request",
       {"1", "50m", "0.5", "1.125"},
       {"", "0", "0m", "-1", "1.", "1.1234", "1k"}},
      {"proxy-cpu-limit", {"2"}, {"two"}},
      {"proxy-memory-request",
       {"1Ki", "64Mi", "2Gi"},
       {"", "64", "64M", "64MiB", "0Mi", "-1Mi", "1.5Gi", "99999999999Gi"}},
      {"proxy-memory-limit", {"32Mi", "1Gi"}, {"31Mi", "1Ki"}},
      {"admin-port",
       {"1024", "65535"},
       {"", "80", "1023", "65536", "4540", "4543", "04590", "+4590"}},
      {"fallback", {"allow", "deny"}, {"", "Allow", "none"}},
      {"log-level",
       {"trace", "debug", "info", "warn", "error", "off"},
       {"", "loud", "warning", "INFO"}},
      {"log-format", {"logfmt", "json"}, {"", "text"}},
      {"pnet-id", {"NETA", "0123456789abcdef"}, {"", "NET-A", "0123456789abcdefg"}},
      {"buffer-size",
       {"16KiB", "512KiB", "1MiB", "512MiB"},
       {"", "8KiB", "24KiB", "1024MiB", "1GiB", "512", "KiB"}},
      {"max-conns-per-group", {"16", "255"}, {"", "15", "256", "1e2"}},
      {"shutdown-grace-period",
       {"0s", "30s", "3600s", "60m"},
       {"", "s", "30", "-1s", "3601s", "61m", "1h", "30 s"}},
      {"skip-inbound-ports",
       {"1", "65535", "80,443", "8000-8010", ports(64)},
       {"", "0", "65536", "80,", ",80", "80, 443", "http", "90-80", "80-", "-80", ports(65)}},
      {"skip-outbound-ports", {"5432"}, {"5432;6379"}},
      {"skip-subnets",
       {"10.0.0.0/8", "fd00::/8,10.1.0.0/16"},
       {"", "10.0.0.1/8", "10.0.0.0", "10.0.0.0/33", "example.com/8", "10.0.0.0/8,"}},
      {"include-inbound-ports", {"8080"}, {"8080/tcp"}},
      {"include-cidrs", {"0.0.0.0/0"}, {"all"}}};
  return kValues;
}

AnnotationReport read(const std::string& name, const std::string& value) {
  return read_annotations({{"fairlead.io/" + name, value}});
}

TEST(Annotations, TheTableOfThisTestIsComplete) {
  std::vector<std::string_view> known, tried;
  for (const AnnotationInfo& info : annotation_table()) known.push_back(info.name);
  for (const Values& row : values()) tried.emplace_back(row.name);
  EXPECT_THAT(tried, testing::UnorderedElementsAreArray(known));
}

TEST(Annotations, TakesWhatIsAllowed) {
  for (const Values& row : values())
    for (const std::string& value : row.good) {
      const AnnotationReport report = read(row.name, value);
      EXPECT_THAT(report.errors, IsEmpty()) << row.name << " " << value;
      EXPECT_EQ(report.wishes.at(row.name), value);
    }
}

TEST(Annotations, EveryErrorNamesKeyValueAndWhatIsAllowed) {
  for (const Values& row : values())
    for (const std::string& value : row.bad) {
      const AnnotationReport report = read(row.name, value);
      const std::string allowed(find_annotation(row.name)->allowed);
      const std::string shown = value.find('\n') == std::string::npos ? value.substr(0, 64) : "a?b";
      EXPECT_THAT(report.errors,
                  ElementsAre(AllOf(HasSubstr("fairlead.io/" + std::string(row.name)),
                                    HasSubstr("\"" + shown), HasSubstr("allowed: " + allowed))))
          << row.name << " " << value;
      EXPECT_THAT(report.wishes, IsEmpty());
    }
}

TEST(Annotations, ExamplesOfTheReferenceAreAllowed) {
  for (const AnnotationInfo& info : annotation_table())
    EXPECT_TRUE(info.is_allowed(info.example)) << info.name;
}

TEST(Annotations, UnknownKeysAreWarnedAbout) {
  EXPECT_THAT(read("log-levle", "debug").warnings,
              ElementsAre("fairlead.io/log-levle is no annotation of Fairlead and has no effect; "
                          "did you mean fairlead.io/log-level?"));
  EXPECT_THAT(read("colour", "red").warnings,
              ElementsAre("fairlead.io/colour is no annotation of Fairlead and has no effect"));
}

TEST(Annotations, OthersAndTheStatusAreLeftAlone) {
  const AnnotationReport report = read_annotations(
      {{"fairlead.io/status", "{}"}, {"linkerd.io/inject", "x"}, {"fairlead.iox/y", "z"}});
  EXPECT_THAT(report.errors, IsEmpty());
  EXPECT_THAT(report.warnings, IsEmpty());
}

TEST(Annotations, ManyFindingsAreCut) {
  std::map<std::string, std::string, std::less<>> many;
  for (int i = 0; i < 1000; ++i) many["fairlead.io/a" + std::to_string(i)] = "";
  EXPECT_EQ(read_annotations(many).warnings.size(), kFindingsMax);
}

TEST(Annotations, QuantitiesHaveTheirValue) {
  EXPECT_EQ(cpu_millis("1.25"), 1250U);
  EXPECT_EQ(cpu_millis("0.05"), 50U);
  EXPECT_EQ(memory_bytes("2Gi"), 2ULL << 30);
  EXPECT_EQ(memory_bytes("1048576Gi"), 1ULL << 50);
  EXPECT_EQ(memory_bytes("1073741824Gi"), std::nullopt);
}

}  // namespace
}  // namespace fairlead::injector
