// Goal: written messages can be read, and no length in an answer leads outside of it. Method:
// messages are built, cut at every byte, and their lengths overwritten.
#include "cni/netlink/message.h"

#include <gtest/gtest.h>
#include <linux/netfilter/nfnetlink.h>

#include <vector>

#include "cni/redirect/packet_filter_plan.h"

namespace fairlead::cni::netlink {
namespace {

std::vector<std::byte> message() {
  Writer writer;
  writer.begin(7, NLM_F_ACK, 42, nfgenmsg{});
  writer.text(1, "fairlead");
  writer.nest(2, [&] { writer.u32(3, 77); });
  writer.end();
  return {writer.bytes().begin(), writer.bytes().end()};
}

TEST(Netlink, ReadsWhatItWrote) {
  const std::vector<std::byte> bytes = message();
  Bytes rest = bytes;
  Message read;
  ASSERT_TRUE(next(rest, read));
  EXPECT_TRUE(rest.empty());
  EXPECT_EQ(read.header.nlmsg_type, 7);
  EXPECT_EQ(read.header.nlmsg_flags, NLM_F_ACK | NLM_F_REQUEST);
  EXPECT_EQ(read.header.nlmsg_seq, 42U);
  const Bytes attributes = attributes_of(read, sizeof(nfgenmsg));
  EXPECT_EQ(text_of(find(attributes, 1)), "fairlead");
  EXPECT_EQ(u32_of(find(find(attributes, 2), 3)), 77U);
  EXPECT_TRUE(find(attributes, 9).empty());
}

// Visits everything; AddressSanitizer reports errors.
void walk(Bytes bytes) {
  Message read;
  while (next(bytes, read)) {
    Bytes attributes = attributes_of(read, sizeof(nfgenmsg));
    Attribute attribute;
    while (next(attributes, attribute)) (void)text_of(attribute.value);
  }
}

TEST(Netlink, SurvivesEveryCutAndEveryLength) {
  const std::vector<std::byte> whole = message();
  for (std::size_t size = 0; size <= whole.size(); ++size) {
    const std::vector<std::byte> cut(whole.begin(),
                                     whole.begin() + static_cast<std::ptrdiff_t>(size));
    walk(cut);
  }
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const std::byte value : {std::byte{0}, std::byte{1}, std::byte{3}, std::byte{0xff}}) {
      std::vector<std::byte> damaged = whole;
      damaged[at] = value;
      walk(damaged);
    }
  }
}

TEST(Netlink, BatchIsAListOfWellFormedMessages) {
  bpf::RedirectRules rules;
  rules.addresses = {SocketAddress()};
  rules.skip = *kubernetes::parse_cidr_list("10.0.0.0/8,192.168.0.0/16");
  const Batch batch = install_batch(rules);
  Bytes rest = batch.request.bytes();
  Message read;
  std::size_t count = 0;
  while (next(rest, read)) EXPECT_EQ(read.header.nlmsg_seq, count++);
  EXPECT_TRUE(rest.empty());
  EXPECT_EQ(count, batch.names.size());
  EXPECT_EQ(count, batch.acknowledged + 2U);  // begin and end are not acknowledged
}

}  // namespace
}  // namespace fairlead::cni::netlink
