// Goal: no input makes a decoder crash, read out of bounds, or accept a value that it cannot
// encode. Method: every valid message, truncated at every length and with every byte set to every
// value, goes to its decoder at the end of readable memory; tests/fuzz/properties.h has the
// required properties.
#include <gtest/gtest.h>

#include "fuzz/properties.h"
#include "unit/wire/clc_samples.h"
#include "unit/wire/guarded_bytes.h"
#include "unit/wire/hex.h"
#include "unit/wire/llc_samples.h"
#include "unit/wire/pcap_reader.h"

namespace fairlead::wire::test {
namespace {

using Check = bool (*)(fuzz::Input);

constexpr std::size_t kGuardedBytes = 8192;
constexpr std::size_t kEyecatcherBytes = 4;

struct Subject {
  Bytes message;
  Check check;
};

const Check kAllChecks[] = {
    fuzz::check_clc_header, fuzz::check_proposal, fuzz::check_accept_confirm,
    fuzz::check_decline,    fuzz::check_llc,      fuzz::check_cdc};

Check check_of(const CapturedMessage& captured) {
  if (captured.channel == Channel::kRoce)
    return is_cdc(captured.bytes) ? fuzz::check_cdc : fuzz::check_llc;
  return captured.bytes[4] == std::byte{1} ? fuzz::check_proposal : fuzz::check_accept_confirm;
}

std::vector<Subject> subjects() {
  std::vector<Subject> out;
  for (const LlcSample& sample : kLlcSamples)
    out.push_back({from_hex(sample.hex), fuzz::check_llc});
  for (const std::string* proposal :
       {&kProposalLinux, &kProposalEverything, &kProposalV1, &kProposalV1Both, &kProposalWithSmcd})
    out.push_back({from_hex(*proposal), fuzz::check_proposal});
  out.push_back({from_hex("e2d4c3d9 04 001c 10 z8 03030000 z4 e2d4c3d9"), fuzz::check_decline});
  out.push_back({from_hex("e2d4c3d9 04 002c 28 z8 04000000 20 z19 e2d4c3d9"), fuzz::check_decline});
  for (const char* name : {"first-contact-two-rnics.pcap", "link-failover.pcap"})
    for (const CapturedMessage& captured : read_capture(name).messages)
      out.push_back({captured.bytes, check_of(captured)});
  return out;
}

}  // namespace

TEST(Robustness, TruncatedMessages) {
  GuardedBytes memory(kGuardedBytes);
  for (const Subject& subject : subjects()) {
    for (std::size_t size = 0; size < subject.message.size(); ++size) {
      const auto prefix = memory.hold(std::span(subject.message).first(size));
      for (Check check : kAllChecks) {
        const bool accepted = check(prefix);
        if (check == subject.check && check != fuzz::check_cdc) {
          EXPECT_FALSE(accepted) << to_hex(prefix);
        }
      }
    }
  }
}

TEST(Robustness, MutatedMessages) {
  GuardedBytes memory(kGuardedBytes);
  for (const Subject& subject : subjects()) {
    const auto bytes = memory.hold(subject.message);
    std::size_t accepted = 0;
    for (std::byte& byte : bytes) {
      const std::byte original = byte;
      for (unsigned value = 0; value < 256; ++value) {
        byte = static_cast<std::byte>(value);
        accepted += subject.check(bytes) ? 1U : 0U;
      }
      byte = original;
    }
    // Most bytes may have any value. All mutations could pass only if nothing were checked.
    EXPECT_GT(accepted, bytes.size());
    EXPECT_LT(accepted, bytes.size() * 256);
  }
}

TEST(Robustness, EveryDecoderAcceptsItsOwnAndTakesEveryOthersMessages) {
  GuardedBytes memory(kGuardedBytes);
  const std::vector<Subject> all = subjects();
  EXPECT_EQ(all.size(), std::size(kLlcSamples) + 5 + 2 + 18 + 33);
  for (const Subject& subject : all) {
    const auto bytes = memory.hold(subject.message);
    for (Check check : kAllChecks) {
      const bool clc = subject.check != fuzz::check_llc && subject.check != fuzz::check_cdc;
      const bool expected = check == subject.check || (check == fuzz::check_clc_header && clc);
      EXPECT_EQ(check(bytes), expected) << to_hex(bytes);
    }
  }
}

TEST(Robustness, MessagesOfOneRepeatedByte) {
  GuardedBytes memory(kGuardedBytes);
  for (unsigned value = 0; value < 256; ++value) {
    for (std::size_t size : {0U, 1U, 8U, 44U, 68U, 160U, 652U, 653U, 4152U, 8192U}) {
      const auto bytes = memory.hold(Bytes(size, static_cast<std::byte>(value)));
      for (Check check : kAllChecks) {
        check(bytes);
        if (size < 2 * kEyecatcherBytes) {
          EXPECT_FALSE(check(bytes));
        }
      }
    }
  }
}

}  // namespace fairlead::wire::test
