// Goal: the capture tests cannot silently decode nothing. Method: frames, packets and messages are
// counted by their first bytes and compared with other programs' counts for the same files.
#include <gtest/gtest.h>

#include "unit/wire/pcap_reader.h"

namespace fairlead::wire::test {
namespace {

struct Counts {
  std::size_t frames = 0;
  std::size_t writes = 0;
  std::size_t acknowledgements = 0;
  std::size_t clc = 0;
  std::size_t confirm_link = 0;  // LLC: requests and responses together
  std::size_t add_link = 0;
  std::size_t delete_link = 0;
  std::size_t req_add_link = 0;
  std::size_t confirm_rkey = 0;
  std::size_t delete_rkey = 0;
  std::size_t cdc = 0;
  std::size_t other = 0;
  friend bool operator==(const Counts&, const Counts&) = default;
};

std::size_t& slot_of(Counts& counts, const CapturedMessage& message) {
  if (message.channel == Channel::kTcp) return counts.clc;
  switch (std::to_integer<unsigned>(message.bytes.at(0))) {
    case 0x21:
      return counts.confirm_link;
    case 0x22:
      return counts.add_link;
    case 0x24:
      return counts.delete_link;
    case 0x25:
      return counts.req_add_link;
    case 0x26:
      return counts.confirm_rkey;
    case 0x29:
      return counts.delete_rkey;
    case 0xfe:
      return counts.cdc;
    default:
      return counts.other;
  }
}

Counts count(const std::string& name) {
  const Capture capture = read_capture(name);
  EXPECT_EQ(capture.error, "");
  Counts counts;
  counts.frames = capture.frames;
  counts.writes = capture.roce_writes;
  counts.acknowledgements = capture.roce_acknowledgements;
  for (const CapturedMessage& message : capture.messages) ++slot_of(counts, message);
  return counts;
}

}  // namespace

TEST(CaptureCounts, FirstContact) {
  EXPECT_EQ(count("first-contact-two-rnics.pcap"), (Counts{.frames = 53,
                                                           .writes = 2,
                                                           .acknowledgements = 17,
                                                           .clc = 3,
                                                           .confirm_link = 4,
                                                           .add_link = 2,
                                                           .delete_rkey = 4,
                                                           .cdc = 5}));
}

TEST(CaptureCounts, Reuse) {
  EXPECT_EQ(count("second-connection-reuse.pcap"), (Counts{.frames = 49,
                                                           .writes = 6,
                                                           .acknowledgements = 14,
                                                           .clc = 3,
                                                           .confirm_rkey = 4,
                                                           .delete_rkey = 4,
                                                           .cdc = 4}));
}

TEST(CaptureCounts, Abort) {
  EXPECT_EQ(count("two-connections-abort.pcap"), (Counts{.frames = 40,
                                                         .writes = 2,
                                                         .acknowledgements = 14,
                                                         .clc = 3,
                                                         .confirm_rkey = 4,
                                                         .delete_rkey = 4,
                                                         .cdc = 4}));
}

TEST(CaptureCounts, Bulk) {
  EXPECT_EQ(count("bulk-200k.pcap"), (Counts{.frames = 246,
                                             .writes = 196,
                                             .acknowledgements = 21,
                                             .clc = 3,
                                             .confirm_rkey = 4,
                                             .delete_rkey = 4,
                                             .cdc = 9}));
}

TEST(CaptureCounts, Failover) {
  EXPECT_EQ(count("link-failover.pcap"), (Counts{.frames = 99,
                                                 .writes = 6,
                                                 .acknowledgements = 36,
                                                 .clc = 3,
                                                 .confirm_link = 4,
                                                 .add_link = 4,
                                                 .delete_link = 5,
                                                 .req_add_link = 1,
                                                 .confirm_rkey = 4,
                                                 .delete_rkey = 4,
                                                 .cdc = 8}));
}

}  // namespace fairlead::wire::test
