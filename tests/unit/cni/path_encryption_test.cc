// Goal: no encrypted destination is missing, and no length in an answer of the kernel leads outside
// of it. Method: tables as CNI plugins create them; messages that are built, and cut.
#include "cni/rnics/path_encryption.h"

#include <gtest/gtest.h>
#include <linux/genetlink.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/wireguard.h>
#include <linux/xfrm.h>
#include <netinet/in.h>

#include <string>
#include <string_view>
#include <vector>

namespace fairlead::cni {
namespace {

using netlink::Bytes;
using netlink::Writer;

Cidr block(std::string_view text) { return Cidr::parse(text).value(); }
SocketAddress address(const std::string& text) { return SocketAddress::parse(text + ":0").value(); }

std::string told(const PathFacts& pod, const PathFacts& node) {
  return to_text(encrypted_paths(pod, node), 200);
}

PathFacts pod_facts() {
  PathFacts pod;
  pod.links = {{1, "lo", ""}, {2, "eth0", "veth"}};
  pod.addresses = {address("10.244.1.5")};
  pod.routes = {{block("0.0.0.0/0"), {2}}};
  return pod;
}

PathFacts node_facts() {
  PathFacts node;
  node.links = {{1, "lo", ""}, {2, "eth0", ""}, {3, "cali1", "veth"}};
  node.addresses = {address("192.0.2.1")};
  node.routes = {{block("0.0.0.0/0"), {2}}, {block("10.244.1.5/32"), {3}}};
  return node;
}

IpsecPolicy policy(std::string_view from, std::string_view to, std::uint8_t protocol = 0,
                   std::uint16_t port = 0) {
  return {block(from), block(to), protocol, 0, port};
}

TEST(PathEncryption, RoutesToLinksThatEncryptAreToldAndNoPlainPathsUnlessThereIsMore) {
  EXPECT_EQ(told(pod_facts(), node_facts()), "");
  PathFacts unread = node_facts();
  unread.incomplete = true;
  EXPECT_EQ(told(pod_facts(), unread), "all");
  for (const char* kind : {"wireguard", "xfrm", "vti", "vti6"}) {
    PathFacts node = node_facts();
    node.links.push_back({7, "wireguard.cali", kind});
    node.routes.push_back({block("10.244.2.0/24"), {7}});
    node.routes.push_back({block("10.244.4.0/24"), {2, 7}});
    node.routes.push_back({block("10.244.8.0/24"), {kAnyLink}});
    EXPECT_EQ(told(pod_facts(), node), "10.244.2.0/24,10.244.4.0/24,10.244.8.0/24") << kind;
  }
  PathFacts pod = pod_facts();
  pod.links.push_back({9, "wg0", "wireguard"});
  pod.routes.push_back({block("198.51.100.0/24"), {9}});
  EXPECT_EQ(told(pod, node_facts()), "198.51.100.0/24");
}

TEST(PathEncryption, NetworksBehindAWireGuardLinkWithoutRoutesAreTold) {
  PathFacts node = node_facts();
  node.behind_wireguard = {block("10.244.2.0/24"), block("192.0.2.2/32")};
  EXPECT_EQ(told(pod_facts(), node), "10.244.2.0/24,192.0.2.2/32");
}

TEST(PathEncryption, PoliciesForPacketsOfThePodAreTold) {
  PathFacts node = node_facts();
  node.policies = {policy("0.0.0.0/0", "10.244.2.0/24"),
                   policy("10.244.1.0/24", "10.244.3.0/24", IPPROTO_TCP),
                   policy("10.244.9.0/24", "10.244.4.0/24"),
                   policy("10.244.1.0/24", "10.244.5.0/24", IPPROTO_UDP)};
  EXPECT_EQ(told(pod_facts(), node), "10.244.2.0/23");
  // A pod with unknown addresses may have any.
  PathFacts nameless = pod_facts();
  nameless.addresses.clear();
  EXPECT_EQ(told(nameless, node), "10.244.2.0/23,10.244.4.0/24");
}

TEST(PathEncryption, EncryptedTunnelsBetweenNodesMeanEveryDestination) {
  PathFacts node = node_facts();
  node.links.push_back({8, "genev_sys_6081", "geneve"});
  const auto all_with = [&](const IpsecPolicy& one) {
    node.policies = {one};
    return told(pod_facts(), node) == "all";
  };
  EXPECT_TRUE(all_with(policy("192.0.2.1/32", "192.0.2.2/32", IPPROTO_UDP, 6081)));
  EXPECT_TRUE(all_with(policy("192.0.2.1/32", "192.0.2.0/24", IPPROTO_UDP, 4789)));
  EXPECT_TRUE(all_with(policy("192.0.2.1/32", "192.0.2.2/32", IPPROTO_GRE)));
  EXPECT_TRUE(all_with(policy("192.0.2.1/32", "192.0.2.2/32")));
  // A network behind a gateway, time servers, another node's policy.
  EXPECT_FALSE(all_with(policy("192.0.2.1/32", "203.0.113.0/24")));
  EXPECT_FALSE(all_with(policy("192.0.2.1/32", "192.0.2.2/32", IPPROTO_UDP, 123)));
  EXPECT_FALSE(all_with(policy("192.0.2.7/32", "192.0.2.2/32", IPPROTO_UDP, 6081)));
  // Without a tunnel, packets of pods are not inside of packets of nodes.
  node.links.pop_back();
  EXPECT_FALSE(all_with(policy("192.0.2.1/32", "192.0.2.2/32")));
}

std::vector<std::byte> bytes_of(const Writer& writer) {
  return {writer.bytes().begin(), writer.bytes().end()};
}

std::vector<std::byte> policy_message(std::uint8_t protocol, std::uint32_t interface = 0) {
  xfrm_userpolicy_info info{};
  info.sel.family = AF_INET;
  info.sel.daddr.a4 = netlink::network_order(std::uint32_t{0x0af40200});
  info.sel.prefixlen_d = 24;
  info.sel.proto = IPPROTO_UDP;
  info.sel.dport = netlink::network_order(std::uint16_t{6081});
  info.dir = XFRM_POLICY_OUT;
  info.action = XFRM_POLICY_ALLOW;
  xfrm_user_tmpl one{};
  one.id.proto = protocol;
  Writer writer;
  writer.begin(XFRM_MSG_NEWPOLICY, NLM_F_MULTI, 1, info);
  writer.attribute(XFRMA_TMPL, netlink::bytes_of(one));
  if (interface != 0) writer.u32(XFRMA_IF_ID, interface);
  writer.end();
  return bytes_of(writer);
}

TEST(PathFacts, ReadsPoliciesThatProtect) {
  const IpsecPolicy expected{block("0.0.0.0/0"), block("10.244.2.0/24"), IPPROTO_UDP, 0, 6081};
  EXPECT_EQ(policies_in(policy_message(IPPROTO_ESP)), std::vector{expected});
  EXPECT_EQ(policies_in(policy_message(IPPROTO_AH)), std::vector{expected});
  EXPECT_TRUE(policies_in(policy_message(IPPROTO_COMP)).empty());
  EXPECT_TRUE(policies_in(policy_message(IPPROTO_ESP, 42)).empty());
}

std::vector<std::byte> route_message() {
  rtmsg fixed{};
  fixed.rtm_family = AF_INET;
  fixed.rtm_dst_len = 24;
  fixed.rtm_table = RT_TABLE_MAIN;
  fixed.rtm_type = RTN_UNICAST;
  std::array<rtnexthop, 2> hops{};
  for (std::size_t i = 0; i < hops.size(); ++i) {
    hops[i].rtnh_len = sizeof(rtnexthop);
    hops[i].rtnh_ifindex = static_cast<int>(i + 5);
  }
  const std::array<std::uint8_t, 4> to = {10, 244, 2, 0};
  Writer writer;
  writer.begin(RTM_NEWROUTE, NLM_F_MULTI, 1, fixed);
  writer.attribute(RTA_DST, std::as_bytes(std::span(to)));
  writer.attribute(RTA_MULTIPATH, std::as_bytes(std::span(hops)));
  writer.end();
  return bytes_of(writer);
}

std::vector<std::byte> wireguard_message() {
  const std::array<std::uint8_t, 4> network = {10, 244, 2, 0};
  const std::uint16_t family = AF_INET;
  Writer writer;
  writer.begin(30, NLM_F_MULTI, 1, genlmsghdr{});
  writer.nest(WGDEVICE_A_PEERS, [&] {
    writer.nest(0, [&] {
      writer.nest(WGPEER_A_ALLOWEDIPS, [&] {
        writer.nest(0, [&] {
          writer.attribute(WGALLOWEDIP_A_FAMILY, netlink::bytes_of(family));
          writer.attribute(WGALLOWEDIP_A_IPADDR, std::as_bytes(std::span(network)));
          writer.u8(WGALLOWEDIP_A_CIDR_MASK, 24);
        });
      });
    });
  });
  writer.end();
  return bytes_of(writer);
}

TEST(PathFacts, ReadsRoutesOfSeveralHopsAndAllowedIps) {
  EXPECT_EQ(routes_in(route_message()), (std::vector{PathRoute{block("10.244.2.0/24"), {5, 6}}}));
  EXPECT_EQ(allowed_ips_in(wireguard_message()), std::vector{block("10.244.2.0/24")});
}

void read_all(Bytes bytes) {
  (void)links_in(bytes);
  (void)addresses_in(bytes);
  (void)routes_in(bytes);
  (void)policies_in(bytes);
  (void)allowed_ips_in(bytes);
}

// AddressSanitizer reports errors.
TEST(PathFacts, SurviveEveryCutAndEveryDamage) {
  for (const std::vector<std::byte>& whole :
       {policy_message(IPPROTO_ESP), route_message(), wireguard_message()}) {
    for (std::size_t size = 0; size <= whole.size(); ++size) {
      const std::vector<std::byte> cut(whole.begin(),
                                       whole.begin() + static_cast<std::ptrdiff_t>(size));
      read_all(cut);
    }
    for (std::size_t at = 0; at < whole.size(); ++at)
      for (const std::byte value : {std::byte{0}, std::byte{1}, std::byte{8}, std::byte{0xff}}) {
        std::vector<std::byte> damaged = whole;
        damaged[at] = value;
        read_all(damaged);
      }
  }
}

TEST(PathFacts, OfThisNamespaceAreRead) {
  const Result<PathFacts> facts = read_path_facts(look_at_node());
  ASSERT_TRUE(facts) << to_string(facts.error());
  EXPECT_FALSE(facts->links.empty());
}

TEST(PathFacts, OfANamespaceWithMoreThanIsReadAreIncomplete) {
  const Result<PathFacts> facts = read_path_facts({.bytes_max = 0});
  ASSERT_TRUE(facts) << to_string(facts.error());
  EXPECT_TRUE(facts->incomplete);
  EXPECT_EQ(told(pod_facts(), *facts), "all");
}

TEST(PathFacts, OfAPodAreThoseThatTheNodeMakesMatter) {
  PathFacts node = node_facts();
  EXPECT_TRUE(look_at_pod(node).ipsec);
  EXPECT_FALSE(look_at_pod(node).addresses);
  node.policies = {policy("10.244.1.0/24", "10.244.3.0/24")};
  EXPECT_TRUE(look_at_pod(node).addresses);
  node.without_ipsec = true;
  EXPECT_FALSE(look_at_pod(node).ipsec);
}

}  // namespace
}  // namespace fairlead::cni
