// Goal: the error about an unusable kubeconfig names file and field. Method: files in a folder of
// the test, read without a connection; tests/kubernetes/check_test.py covers certificates.
#include "ctl/cluster/kubeconfig.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace fairlead::ctl {
namespace {

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
  Kubeconfig() {
    std::string pattern = testing::TempDir() + "fairlead-kubeconfig-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~Kubeconfig() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
    return path.string();
  }

  static tl::expected<ClusterAccess, std::string> read(const std::vector<std::string>& files,
                                                       const std::string& context = "") {
    return read_kubeconfig(files, context, std::chrono::system_clock::now());
  }

  // The error of kGood with `from` replaced by `to`.
  std::string trouble(const std::string& from, const std::string& to) const {
    std::string text = kGood;
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    const auto access = read({write("config", text)});
    return access ? "accepted" : access.error().substr(folder_.string().size());
  }

  void expect_refused(const std::string& from, const std::string& to,
                      const std::vector<std::string>& words) const {
    const std::string error = trouble(from, to);
    for (const std::string& word : words)
      EXPECT_NE(error.find(word), std::string::npos) << to << "\n" << error << "\n" << word;
  }

  std::filesystem::path folder_;
};

TEST_F(Kubeconfig, GivesTheAccessOfItsCurrentContext) {
  const auto access = read({write("config", kGood)});
  ASSERT_TRUE(access) << access.error();
  EXPECT_EQ(access->context, "here");
  EXPECT_EQ(access->host, "h");
  EXPECT_EQ(access->target.port, 6443);
  EXPECT_EQ(access->base_path, "/base");
  EXPECT_EQ(access->token, "secret");
  EXPECT_EQ(access->name_space, "shop");
  EXPECT_FALSE(access->target.verify);
}

TEST_F(Kubeconfig, GivesTheAccessOfANamedContext) {
  const auto access = read({write("config", kGood)}, "bare");
  ASSERT_TRUE(access) << access.error();
  EXPECT_EQ(access->token, "");
  EXPECT_EQ(access->name_space, "default");
}

TEST_F(Kubeconfig, RefusesTextThatIsNoKubeconfig) {
  for (const char* text :
       {"", "a: [", "- 1", "kind: Pod", "clusters: 5", "\x01\x02", "%",
        "clusters: []\n---\nclusters: []", "{clusters: [], clusters: &a [*a]}"}) {
    const std::string file = write("config", text);
    const auto access = read({file});
    ASSERT_FALSE(access) << text;
    EXPECT_EQ(access.error().rfind("kubeconfig " + file + ": ", 0), 0U) << access.error();
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

TEST_F(Kubeconfig, RefusesServersThatCannotBeInARequest) {
  for (const char* server :
       {"5", "\"http://h\"", "\"https://h/a b\"", "\"https://h/\\r\\nX: y\"", "\"https://h:70000\"",
        "\"https://u:p@h\"", "\"https://\\x1b[31m\"", "\"https://[::1]x\""})
    expect_refused("\"https://h:6443/base/\"", server,
                   {"clusters[c].cluster.server: ", "allowed: https://HOST"});
}

TEST_F(Kubeconfig, RefusesServerNamesThatCannotBeInARequest) {
  for (const char* name : {"\"a\\r\\nX: y\"", "\"a b\"", "\"a\\0\"", "\u00fc"})
    expect_refused("insecure-skip-tls-verify: true", std::string("tls-server-name: ") + name,
                   {"clusters[c].cluster.tls-server-name: holds blanks or other than ASCII"});
}

TEST_F(Kubeconfig, RefusesNamespacesThatAreNoNames) {
  for (const char* name : {"../nodes", "a b", "Shop", "\"a?dryRun=All\"", "\"a\\r\\nX: y\""})
    expect_refused("namespace: shop", std::string("namespace: ") + name,
                   {"contexts[here].context.namespace: ", "is no name of a namespace; allowed: "});
}

TEST_F(Kubeconfig, RefusesASwitchThatIsNeitherTrueNorFalse) {
  for (const char* value : {"\"yes\"", "1", "[]"})
    expect_refused("insecure-skip-tls-verify: true",
                   std::string("insecure-skip-tls-verify: ") + value,
                   {"clusters[c].cluster.insecure-skip-tls-verify: ", "allowed: true and false"});
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

TEST_F(Kubeconfig, RefusesTokensThatAreNoText) {
  expect_refused("token: secret", "token: 12345", {"users[u].user.token: is no text"});
  expect_refused("token: secret", "token: [a]", {"users[u].user.token: is no text"});
  expect_refused("token: secret", "tokenFile: 1", {"users[u].user.tokenFile: is no text"});
  expect_refused("namespace: shop", "namespace: 2026",
                 {"contexts[here].context.namespace: is no text; put it in quotes"});
  expect_refused("user: u,", "user: 1,", {"contexts[here].context.user: is no text"});
  expect_refused("{cluster: c, user", "{cluster: 1, user",
                 {"contexts[here].context.cluster: is no text"});
  expect_refused("current-context: here", "current-context: 1",
                 {"current-context: is no text; put it in quotes"});
  expect_refused("name: here", "name: 1", {"there are: 1 (is no text; put it in quotes), bare"});
  expect_refused("\"https://h:6443/base/\"", "7", {"clusters[c].cluster.server: is no text"});
  expect_refused("insecure-skip-tls-verify: true", "tls-server-name: 7",
                 {"clusters[c].cluster.tls-server-name: is no text"});
  expect_refused("token: secret", "token: \"a\\r\\nb\"", {"users[u].user.token: holds blanks"});
}

TEST_F(Kubeconfig, RefusesFilesThatAreNone) {
  expect_refused("token: secret", "tokenFile: none",
                 {"users[u].user.tokenFile: ", "none cannot be read"});
  expect_refused("token: secret", "client-certificate: 5",
                 {"users[u].user.client-certificate: is no text; allowed: the path"});
  expect_refused("insecure-skip-tls-verify: true", "certificate-authority: [a]",
                 {"clusters[c].cluster.certificate-authority: is no text"});
  expect_refused("insecure-skip-tls-verify: true", "certificate-authority-data: 5",
                 {"clusters[c].cluster.certificate-authority-data: is not base64"});
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
  const auto access = read({folder_ / "x", folder_ / "y"});
  ASSERT_FALSE(access);
  EXPECT_NE(access.error().find("there is no file " + (folder_ / "x").string() + ", " +
                                (folder_ / "y").string()),
            std::string::npos);
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
