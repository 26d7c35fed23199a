// Goal: the error about an unusable kubeconfig names file and field. Method: files in a folder of
// the test, read without a connection; tests/kubernetes/check_test.py covers certificates.
#include "ctl/cluster/kubeconfig.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "own_folder.h"

namespace fairlead::ctl {
namespace {

using testing::HasSubstr;

constexpr const char* kGood = R"(
apiVersion: v1
kind: Config
current-context: here
clusters:
- {name: c, cluster: {server: "https://h:6443/base/", insecure-skip-tls-verify: true}}
users:
- {name: u, user: {token: secret}}
contexts:
- {name: here, context: {cluster: c, user: u, namespace: shop}}
- {name: bare, context: {cluster: c}}
)";

class Kubeconfig : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) const {
    own_.write(name, text);
    return folder_ / name;
  }

  static tl::expected<ClusterAccess, std::string> read(const std::vector<std::string>& files,
                                                       const std::string& context = "") {
    return read_kubeconfig(files, context, std::chrono::system_clock::now());
  }

  // The error about kGood with `from` replaced by `to` has these words.
  void expect_refused(const std::string& from, const std::string& to,
                      const std::vector<std::string>& words) const {
    std::string text = kGood;
    const std::size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    const auto access = read({write("config", text)});
    ASSERT_FALSE(access) << to;
    const std::string error = access.error().substr(folder_.string().size());
    for (const std::string& word : words) EXPECT_THAT(error, HasSubstr(word)) << to;
  }

  const OwnFolder own_;
  const std::filesystem::path folder_ = own_.path();
};

TEST_F(Kubeconfig, GivesTheAccessOfItsCurrentOrOfANamedContext) {
  const auto access = read({write("config", kGood)});
  ASSERT_TRUE(access) << access.error();
  EXPECT_EQ(access->context, "here");
  EXPECT_EQ(access->host, "h");
  EXPECT_EQ(access->target.port, 6443);
  EXPECT_EQ(access->base_path, "/base");
  EXPECT_EQ(access->token, "secret");
  EXPECT_EQ(access->name_space, "shop");
  EXPECT_FALSE(access->target.verify);
  const auto named = read({write("config", kGood)}, "bare");
  ASSERT_TRUE(named) << named.error();
  EXPECT_EQ(named->token, "");
  EXPECT_EQ(named->name_space, "default");
}

TEST_F(Kubeconfig, RefusesTextThatIsNoKubeconfig) {
  for (const char* text :
       {"", "a: [", "- 1", "kind: Pod", "clusters: 5", "\x01\x02", "%",
        "clusters: []\n---\nclusters: []", "{clusters: [], clusters: &a [*a]}"}) {
    const std::string file = write("config", text);
    const auto access = read({file});
    ASSERT_FALSE(access) << text;
    EXPECT_THAT(access.error(), testing::StartsWith("kubeconfig " + file + ": "));
  }
}

TEST_F(Kubeconfig, RefusesEntriesThatAreNone) {
  for (const char* entry : {"5", "null", "[]", "{}", "{name: 5}", "{name: c}",
                            "{name: c, cluster: 7}", "{name: c, cluster: [a]}"}) {
    expect_refused(
        "{name: c, cluster: {server: \"https://h:6443/base/\", insecure-skip-tls-verify: true}}",
        entry, {"config: c"});  // contexts[here].context.cluster, or clusters[c].cluster.server
  }
  expect_refused("context: {cluster: c, user: u, namespace: shop}", "context: 5",
                 {"contexts[here].context.cluster: \"\" is no cluster", "there are: c"});
}

TEST_F(Kubeconfig, RefusesValuesThatCannotBeUsed) {
  struct Row {
    const char* from;
    std::vector<const char*> values;
    const char* field;
    const char* error;
  };
  for (const Row& row : std::initializer_list<Row>{
           {"\"https://h:6443/base/\"",
            {"5", "\"http://h\"", "\"https://h/a b\"", "\"https://h/\\r\\nX: y\"",
             "\"https://h:70000\"", "\"https://u:p@h\"", "\"https://\\x1b[31m\"",
             "\"https://[::1]x\""},
            "clusters[c].cluster.server: ",
            "allowed: https://HOST"},
           {"insecure-skip-tls-verify: true",
            {"tls-server-name: \"a\\r\\nX: y\"", "tls-server-name: \"a b\"",
             "tls-server-name: \"a\\0\"", "tls-server-name: \u00fc"},
            "clusters[c].cluster.tls-server-name: holds blanks or other than ASCII",
            ""},
           {"shop",
            {"../nodes", "a b", "Shop", "\"a?dryRun=All\"", "\"a\\r\\nX: y\""},
            "contexts[here].context.namespace: ",
            "is no name of a namespace; allowed: "},
           {"true",
            {"\"yes\"", "1", "[]"},
            "clusters[c].cluster.insecure-skip-tls-verify: ",
            "allowed: true and false"}})
    for (const char* value : row.values) expect_refused(row.from, value, {row.field, row.error});
}

TEST_F(Kubeconfig, RefusesCredentialsThatItDoesNotSupport) {
  for (const char* field :
       {"exec: {command: aws}", "exec: {}", "auth-provider: {name: gcp}", "username: u",
        "password: p", "as: admin", "as-uid: a", "as-groups: [g]", "as-user-extra: {a: [b]}"}) {
    const std::string text(field);
    expect_refused("token: secret", text,
                   {"users[u].user." + text.substr(0, text.find(':')) + ": is not supported",
                    "kubectl create token"});
  }
}

TEST_F(Kubeconfig, RefusesWhatIsNoTextOrNoFile) {
  for (const auto& [from, to, error] : std::initializer_list<std::array<const char*, 3>>{
           {"token: secret", "token: 12345", "users[u].user.token: is no text"},
           {"token: secret", "token: [a]", "users[u].user.token: is no text"},
           {"token: secret", "tokenFile: 1", "users[u].user.tokenFile: is no text"},
           {"namespace: shop", "namespace: 2026",
            "contexts[here].context.namespace: is no text; put it in quotes"},
           {"user: u,", "user: 1,", "contexts[here].context.user: is no text"},
           {"{cluster: c, user", "{cluster: 1, user", "contexts[here].context.cluster: is no text"},
           {"current-context: here", "current-context: 1",
            "current-context: is no text; put it in quotes"},
           {"name: here", "name: 1", "there are: 1 (is no text; put it in quotes), bare"},
           {"\"https://h:6443/base/\"", "7", "clusters[c].cluster.server: is no text"},
           {"insecure-skip-tls-verify: true", "tls-server-name: 7",
            "clusters[c].cluster.tls-server-name: is no text"},
           {"token: secret", "token: \"a\\r\\nb\"", "users[u].user.token: holds blanks"},
           {"token: secret", "tokenFile: none", "users[u].user.tokenFile: "},
           {"token: secret", "tokenFile: none", "none cannot be read"},
           {"token: secret", "client-certificate: 5",
            "users[u].user.client-certificate: is no text; allowed: the path"},
           {"insecure-skip-tls-verify: true", "certificate-authority: [a]",
            "clusters[c].cluster.certificate-authority: is no text"},
           {"insecure-skip-tls-verify: true", "certificate-authority-data: 5",
            "clusters[c].cluster.certificate-authority-data: is not base64"}})
    expect_refused(from, to, {error});
}

TEST_F(Kubeconfig, TakesPathsRelativeToTheFileThatNamesThem) {
  write("deep/secrets/token", "from-a-file\n");
  std::string text = kGood;
  text.replace(text.find("token: secret"), 13, "tokenFile: secrets/token");
  const auto access = read({write("deep/config", text)});
  ASSERT_TRUE(access) << access.error();
  EXPECT_EQ(access->token, "from-a-file");
}

TEST_F(Kubeconfig, TakesOfSeveralFilesTheFirstThatHasAName) {
  const std::string first = write("a/config", "users: [{name: u, user: {tokenFile: token}}]");
  write("a/token", "first");
  const auto access = read({folder_ / "none", first, write("b/config", kGood)});
  ASSERT_TRUE(access) << access.error();
  EXPECT_EQ(access->token, "first");
  EXPECT_EQ(access->file, folder_ / "b/config");
}

TEST_F(Kubeconfig, NamesTheFilesThatAreMissing) {
  const std::string folder = folder_.string();
  const auto access = read({folder + "/x", folder + "/y"});
  ASSERT_FALSE(access);
  EXPECT_THAT(access.error(), HasSubstr("there is no file " + folder + "/x, " + folder + "/y"));
}

TEST_F(Kubeconfig, FindsItsFilesInOptionVariableAndHome) {
  const char* before = ::getenv("KUBECONFIG");
  const std::string kept = before == nullptr ? "" : before;
  ::setenv("KUBECONFIG", ":a::b:", 1);
  EXPECT_EQ(kubeconfig_files(""), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(kubeconfig_files("c"), (std::vector<std::string>{"c"}));
  ::setenv("KUBECONFIG", "", 1);
  EXPECT_EQ(kubeconfig_files("").size(), ::getenv("HOME") == nullptr ? 0U : 1U);
  if (before == nullptr)
    ::unsetenv("KUBECONFIG");
  else
    ::setenv("KUBECONFIG", kept.c_str(), 1);
}

}  // namespace
}  // namespace fairlead::ctl
