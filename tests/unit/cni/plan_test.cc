// Goal: the PNET of a pod, its note, and the path of its cgroup; and the plugin accepts exactly the
// values that the injection accepts. Method: tables of cases for the pure functions; the same
// values as in the tests of the injection and of the chart's admission policy.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "base/kubernetes_names.h"
#include "base/node_annotations.h"
#include "cni/plugin/json_text.h"
#include "cni/plugin/pod_cgroup.h"
#include "cni/plugin/pod_plan.h"
#include "cni/plugin/wishes.h"
#include "cni/redirect/packet_filter_plan.h"
#include "cni/redirect/redirect.h"
#include "cni/rnics/rnics.h"

namespace fairlead::cni {
namespace {

const RnicPort kFirst{{"mlx5_0", PortNumber{1}}, "ens1f0", "0a1b2c3d4e5f", {}};
const RnicPort kSecond{{"mlx5_1", PortNumber{1}}, "ens1f1", "0a1b2c3d4e60", {}};
const RnicPort kThird{{"rxe0", PortNumber{1}}, "eth0", "525400000001", {}};
const RnicPortName kThirdName{"mlx5_2", PortNumber{1}};

NodeConfig configured() {
  NodeConfig config;
  config.pnets = {{"NETA", {kFirst.name}, {}, {}}, {"NETB", {kSecond.name, kThirdName}, {}, {}}};
  return config;
}

TEST(Pnet, AnnotationChoosesAmongThoseOfTheNode) {
  Wishes wishes;
  wishes.pnet_id = "NETB";
  const PnetChoice choice = choose_pnet(configured(), wishes, "shop", {kFirst, kSecond});
  EXPECT_EQ(choice.note, (HandOver{"NETB", configured().pnets[1].rnics}));
  EXPECT_EQ(choice.source, "annotation");
  EXPECT_EQ(choose_pnet(configured(), wishes, "shop", {kFirst}).hint,
            "no RNIC of PNET NETB is on this node");
  wishes.pnet_id = "NETC";
  EXPECT_EQ(choose_pnet(configured(), wishes, "shop", {kFirst}).hint,
            "PNET NETC is not one of this node's");
}

TEST(Pnet, FirstConfiguredWithAnRnicElseAndNoneWhenTheNodeUsesNoRnics) {
  EXPECT_EQ(choose_pnet(configured(), {}, "shop", {kSecond}).note,
            (HandOver{"NETB", configured().pnets[1].rnics}));
  EXPECT_EQ(choose_pnet(configured(), {}, "shop", {}).hint, "no configured RNIC is on this node");
  NodeConfig config = configured();
  config.pnets = {{"NETA", {kFirst.name, kThirdName}, {}, {}}};
  EXPECT_EQ(choose_pnet(config, {}, "shop", {kFirst}).note,
            (HandOver{"NETA", {kFirst.name, kThirdName}}))
      << "with the port that may come up later";
  config.use_rnics = false;
  EXPECT_EQ(choose_pnet(config, {}, "shop", {kFirst}).source, "none");
}

TEST(Pnet, NamedAfterTheRnicWhereNothingIsConfigured) {
  const PnetChoice choice = choose_pnet({}, {}, "shop", {kFirst, kSecond});
  EXPECT_EQ(choice.note, (HandOver{"0A1B2C3D4E5F", {}}));
  EXPECT_EQ(choice.source, "rnic");
  EXPECT_EQ(choose_pnet({}, {}, "shop", {}).hint, "this node has no RNIC");
  EXPECT_EQ(choose_pnet({}, {}, "shop", {{kFirst.name, "", ""}}).source, "none");
}

TEST(Pnet, IsForPodsOfItsNamespaces) {
  NodeConfig config = configured();
  config.pnets[0].namespaces = {"prod", "stage"};
  Wishes wishes;
  wishes.pnet_id = "NETA";
  const auto chosen = [&](std::string_view pod_namespace, const std::vector<RnicPort>& present) {
    return choose_pnet(config, wishes, pod_namespace, present);
  };
  EXPECT_EQ(chosen("stage", {kFirst}).note.pnet, "NETA");
  const PnetChoice denied = chosen("shop", {kFirst, kSecond});
  EXPECT_EQ(denied.note.pnet, "");
  EXPECT_EQ(denied.source, "none");
  EXPECT_EQ(denied.hint, "PNET NETA is not for pods of namespace shop");
  EXPECT_EQ(to_alias(denied.note), "smc1;mode=none;access=pnet_namespace");
  EXPECT_TRUE(denied.not_for_namespace);
  // Also while no RNIC of it is there.
  EXPECT_EQ(chosen("shop", {}).hint, denied.hint);
  EXPECT_EQ(chosen("", {kFirst}).hint, "PNET NETA is not for pods of an unknown namespace");
  EXPECT_EQ(chosen("prod2", {kFirst}).note.pnet, "");
  wishes.pnet_id.clear();
  EXPECT_EQ(chosen("prod", {kFirst, kSecond}).note.pnet, "NETA");
  EXPECT_EQ(chosen("shop", {kFirst, kSecond}).note.pnet, "NETB");
  EXPECT_EQ(chosen("", {kFirst, kSecond}).note.pnet, "NETB");
  EXPECT_EQ(chosen("shop", {kFirst}).hint,
            "the PNETs with an RNIC on this node are not for pods of namespace shop");
  EXPECT_EQ(chosen("shop", {}).hint, "no configured RNIC is on this node");
}

TEST(Pnet, NamesNamespacesThatExist) {
  const auto read = [](const char* namespaces) {
    return read_node_config(
        Json{{"pnet", Json::parse(std::string(R"([{"id":"A","rnics":["x/1"],)") +
                                  R"("namespaces":)" + namespaces + "}]")}});
  };
  const auto good = read(R"(["prod","a-1"])").value();
  EXPECT_EQ(good.config.pnets[0].namespaces, (std::vector<std::string>{"prod", "a-1"}));
  ASSERT_TRUE(read("[]"));
  const std::string allowed =
      " is not allowed; allowed: at most 256 names of namespaces, each 1 to 63 of a-z, 0-9 and '-'";
  const auto message = [&](const char* namespaces) {
    const auto bad = read(namespaces);
    return bad ? "" : bad.error().message;
  };
  EXPECT_EQ(message("\"prod\""), "pnet[0].namespaces: \"prod\"" + allowed);
  EXPECT_EQ(message("null"), "pnet[0].namespaces: null" + allowed);
  EXPECT_EQ(message("[\"a\",7]"), "pnet[0].namespaces[1]: 7" + allowed);
  const std::vector<std::string> wrong = {"",    "Prod", "-a",  "a-",
                                          "a.b", "*",    "a b", std::string(64, 'a')};
  for (const std::string& name : wrong)
    EXPECT_EQ(message(("[\"" + name + "\"]").c_str()),
              "pnet[0].namespaces[0]: \"" + name + "\"" + allowed);
  EXPECT_TRUE(read(("[\"" + std::string(63, 'a') + "\"]").c_str()));
  std::string many = "[\"a\"";
  for (int i = 0; i < 256; ++i) many += ",\"a\"";
  EXPECT_FALSE(read((many + "]").c_str()));
}

Gid address(const char* text) {
  Gid gid;
  EXPECT_EQ(inet_pton(AF_INET6, text, gid.bytes.data()), 1) << text;
  return gid;
}

TEST(Pnet, NamesAddressesOfTheNode) {
  RnicPort first = kFirst, second = kSecond;
  first.gids = {address("::ffff:10.9.0.1"), address("2001:db8::1")};
  second.gids = {address("::ffff:10.9.1.1")};
  EXPECT_EQ(choose_pnet(configured(), {}, "shop", {first, second}).note.gids,
            std::vector<Gid>{first.gids[0]});
  // Ports without a list in the configuration are all of one network.
  EXPECT_EQ(choose_pnet({}, {}, "shop", {first, kThird, second}).note.gids,
            (std::vector<Gid>{first.gids[0], second.gids[0]}));
}

TEST(Pnet, AddressesAreTheNodesOwnByAddress) {
  const std::vector<NodeAddress> addresses = {{"lo", address("::1")},
                                              {"ens1f0", address("::ffff:10.9.0.1")},
                                              {"ens1f0", address("2001:db8::1")},
                                              {"ens1f0", address("fe80::1")},
                                              {"ens1f0.7", address("::ffff:10.7.0.1")},
                                              {"eth0", address("::ffff:192.0.2.1")}};
  const std::vector<TableGid> table = {
      {address("fe80::1"), "RoCE v2"},
      {address("2001:db8::1"), "RoCE v2"},
      {address("::ffff:10.9.0.77"), "RoCE v2"},  // of a pod's macvlan
      {address("::ffff:10.7.0.1"), "RoCE v2"},   // of a VLAN of the node
      {address("::ffff:10.9.0.1"), "IB/RoCE v1"},
      {address("::ffff:10.9.0.1"), "RoCE v2"}};
  EXPECT_EQ(own_gids(table, "ens1f0", addresses),
            (std::vector<Gid>{address("::ffff:10.9.0.1"), address("2001:db8::1")}));
  EXPECT_EQ(own_gids(table, "ens1f0.7", addresses), std::vector<Gid>{address("::ffff:10.7.0.1")});
  EXPECT_EQ(own_gids(table, "eth0", addresses), std::vector<Gid>());
  EXPECT_EQ(own_gids({}, "ens1f0", addresses), std::vector<Gid>());
}

TEST(Pnet, TwoNetworksThatNameOneRnic) {
  const auto read = [](const char* pnets) {
    const auto found = read_node_config(Json{{"pnet", Json::parse(pnets)}});
    EXPECT_TRUE(found) << pnets;
    return found.value_or(NodeConfigRead{});
  };
  const NodeConfigRead partly =
      read(R"([{"id":"NETA","rnics":["mlx5_0/1"]},{"id":"NETB","rnics":["mlx5_1/1","mlx5_0/1"]}])");
  ASSERT_EQ(partly.warnings.size(), 1U);
  EXPECT_EQ(partly.warnings[0],
            "pnet[1].rnics: \"mlx5_0/1\" is in pnet[0] (NETA), which keeps it; allowed: each port "
            "in one PNET");
  ASSERT_EQ(partly.config.pnets.size(), 2U);
  EXPECT_EQ(partly.config.pnets[1].rnics, std::vector<RnicPortName>{kSecond.name});
  const NodeConfigRead wholly =
      read(R"([{"id":"NETA","rnics":["mlx5_0/1"]},{"id":"NETB","rnics":["mlx5_0/1"]}])");
  EXPECT_EQ(wholly.warnings.size(), 1U);
  EXPECT_EQ(wholly.config.pnets.size(), 1U);
  EXPECT_TRUE(read(R"([{"id":"NETA","rnics":["mlx5_0/1"]},{"id":"NETB","rnics":["mlx5_0/2"]}])")
                  .warnings.empty());
}

TEST(Cgroup, IsFoundBelowTheMount) {
  constexpr const char* kMounts =
      "31 23 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
      "32 23 0:28 / /sys/fs/cgroup/unified rw,nosuid - cgroup2 cgroup2 rw\n";
  const auto at = [&](const char* path) {
    const Result<std::string> found = pod_cgroup(path, kMounts);
    return found ? *found : std::string(found.error().what);
  };
  EXPECT_EQ(at("/kubepods/pod1"), "/sys/fs/cgroup/unified/kubepods/pod1");
  EXPECT_EQ(at("kubepods/pod1"), "/sys/fs/cgroup/unified/kubepods/pod1");
  EXPECT_EQ(at("kubepods-burstable-pod1.slice"),
            "/sys/fs/cgroup/unified/kubepods.slice/kubepods-burstable.slice/"
            "kubepods-burstable-pod1.slice");
  for (const char* path : {"/../x", "a/../../b", ".."})
    EXPECT_EQ(at(path), "runtimeConfig.cgroupPath") << path;
  EXPECT_EQ(at(""), "the runtime names no cgroup of the pod");
  EXPECT_FALSE(pod_cgroup("/x", "31 23 0:27 / /sys/fs/cgroup rw - cgroup cgroup rw\n"));
}

TEST(Redirect, AddressesOfThePodComeFromTheResultOfThePreviousPlugins) {
  const auto found = [](const char* text) {
    std::string all;
    for (const SocketAddress& address : addresses_of(*parse_json(text)))
      all += to_string_without_port(address) + " ";
    return all;
  };
  EXPECT_EQ(found(R"({"ips":[{"address":"10.1.2.3/24"},{"address":"fd00::3/64"}]})"),
            "10.1.2.3 fd00::3 ");
  EXPECT_EQ(found(R"({"ips":[7,{},{"address":1},{"address":"eth0"},{"address":"10.1.2.3"}]})"),
            "10.1.2.3 ");
  EXPECT_EQ(found("{}"), "");
  EXPECT_EQ(found(R"({"ips":7})"), "");
  std::string many;
  for (int i = 0; i < 20; ++i)
    many += std::string(i == 0 ? "" : ",") + R"({"address":"10.0.0.1/8"})";
  EXPECT_EQ(addresses_of(*parse_json(R"({"ips":[)" + many + "]}")).size(), kPodAddressesMax);
}

TEST(Redirect, DigestChangesWithThePlan) {
  bpf::RedirectRules rules;
  rules.proxy_uid = 2201;
  const std::string before = digest(rules);
  EXPECT_EQ(digest(rules), before);
  rules.skip_outbound = {{80, 80}};
  EXPECT_NE(digest(rules), before);
}

TEST(Redirect, DifferenceNamesObjects) {
  const bpf::RedirectReading before = {"chain inbound 1", "rule inbound 1 a", "rule inbound 2 b"};
  const bpf::RedirectReading after = {"chain inbound 1", "rule inbound 1 c", "set x 5"};
  EXPECT_EQ(difference(before, after),
            "rule inbound 1 has changed, rule inbound 2 is missing, set x was added");
  EXPECT_EQ(difference(before, before), "");
}

TEST(Wishes, AgreeWithTheInjectionAboutEachValue) {
  std::ifstream file(FAIRLEAD_SOURCE_DIR "/tests/injection/values.txt");
  std::set<std::string> tried;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line.front() == '#') continue;
    const std::size_t name = line.find(' ') + 1;
    const std::size_t value = line.find(' ', name) + 1;
    const std::string key = line.substr(name, value - name - 1);
    if (std::none_of(kubernetes::kNodeAnnotations.begin(), kubernetes::kNodeAnnotations.end(),
                     [&key](const auto& info) { return info.name == key; }))
      continue;
    const std::string full = std::string(kubernetes::kAnnotationPrefix) + key;
    const std::string text = Json::parse(line.substr(value)).get<std::string>();
    const auto wishes = read_wishes({{full, text}});
    EXPECT_EQ(wishes.has_value(), line.starts_with("good ")) << line;
    EXPECT_TRUE(wishes || wishes.error().message.starts_with(full + ": ")) << line;
    tried.insert((wishes ? "good " : "bad ") + key);
  }
  EXPECT_EQ(tried.size(), 2 * kubernetes::kNodeAnnotations.size());
}

std::string shown(const std::vector<kubernetes::PortRange>& ranges) {
  std::string text;
  for (const kubernetes::PortRange& range : ranges)
    text += std::to_string(range.first) + "-" + std::to_string(range.last) + " ";
  return text;
}

TEST(Wishes, GoWhereTheyBelong) {
  const auto wishes = read_wishes({{"fairlead.io/pnet-id", "neta"},
                                   {"fairlead.io/skip-inbound-ports", "1"},
                                   {"fairlead.io/skip-outbound-ports", "2-3"},
                                   {"fairlead.io/include-inbound-ports", "4"},
                                   {"fairlead.io/skip-subnets", "10.1.0.0/16"},
                                   {"fairlead.io/include-cidrs", "10.0.0.0/8,fd00::/8"}});
  ASSERT_TRUE(wishes);
  EXPECT_EQ(wishes->pnet_id, "NETA");
  EXPECT_EQ(shown(wishes->skip_inbound), "1-1 ");
  EXPECT_EQ(shown(wishes->include_inbound), "4-4 ");
  EXPECT_EQ(shown(wishes->skip_outbound), "2-3 ");
  EXPECT_EQ(wishes->skip_subnets.size(), 1U);
  EXPECT_EQ(wishes->include_cidrs->size(), 2U);
}

}  // namespace
}  // namespace fairlead::cni
