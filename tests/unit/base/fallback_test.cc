#include "base/fallback.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <set>

#include "base/stats.h"

namespace fairlead {
namespace {

TEST(FallbackTable, RowsAreUniqueExplainedAndFoundByTheirNames) {
  std::set<std::string_view> names;
  std::set<std::uint32_t> codes;
  for (const FallbackInfo& info : fallback_table()) {
    SCOPED_TRACE(info.name);
    EXPECT_TRUE(names.insert(info.name).second);
    EXPECT_TRUE(codes.insert(info.code).second);
    EXPECT_FALSE(info.sentence.empty());
    EXPECT_FALSE(info.hint.empty());
    EXPECT_EQ(find_fallback(info.name), &info);
  }
  EXPECT_LE(fallback_reason_count(), kFallbackReasonsMax);
  EXPECT_EQ(find_fallback(""), nullptr);
  EXPECT_EQ(find_fallback("vlans"), nullptr);
}

TEST(FallbackTable, OurOwnCodesNeverLeaveTheHost) {
  for (const FallbackInfo& info : fallback_table())
    EXPECT_LT(info.wire_code, 0x0f000000U) << info.name;
}

TEST(FallbackTable, UnknownWireCodeMeansThePeerDeclined) {
  EXPECT_EQ(fallback_from_wire(0x03030002), FallbackReason::kNoRdmaDevice);
  EXPECT_EQ(fallback_from_wire(0x12345678), FallbackReason::kPeerDeclined);
}

TEST(FallbackFromConnect, KnowsTheRefusalOfForeignNamespaces) {
  EXPECT_EQ(fallback_from_connect(system_error("ibv_modify_qp to RTR", ENODEV)),
            FallbackReason::kNoUsableGid);
  for (const int number : {EINVAL, ETIMEDOUT, EHOSTUNREACH, EIO})
    EXPECT_EQ(fallback_from_connect(system_error("ibv_modify_qp to RTR", number)),
              FallbackReason::kQueuePairNotReady);
  EXPECT_EQ(fallback_from_connect(Error{Errc::kWrongState, "the port is down"}),
            FallbackReason::kQueuePairNotReady);
}

TEST(FallbackFromOpen, TellsWhatIsToBeRaisedOrGranted) {
  const auto reason = [](int error) {
    return fallback_from_open(system_error("ibv_open_device", error));
  };
  EXPECT_EQ(reason(EACCES), FallbackReason::kDeviceOpenEperm);
  EXPECT_EQ(reason(ENOMEM), FallbackReason::kMemlockLimit);
  EXPECT_EQ(reason(EMFILE), FallbackReason::kConnectionLimit);
  EXPECT_EQ(reason(ENFILE), FallbackReason::kConnectionLimit);
  EXPECT_EQ(reason(ENODEV), FallbackReason::kNoRdmaDevice);
  EXPECT_EQ(fallback_from_open({Errc::kExhausted, "locked memory"}), FallbackReason::kMemlockLimit);
  EXPECT_EQ(fallback_from_open({Errc::kMemoryLimit, "memory.limit"}), FallbackReason::kMemory);
}

}  // namespace
}  // namespace fairlead
