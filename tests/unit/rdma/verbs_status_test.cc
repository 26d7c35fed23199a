// Translation of libibverbs' status codes, and the account of locked memory.
#include "rdma/verbs/verbs_status.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "rdma/verbs/memlock.h"

namespace fairlead::rdma::verbs {
namespace {

using Kind = Completion::Kind;

TEST(VerbsStatus, TellsWhoseFaultAFailureIs) {
  EXPECT_EQ(status_of(IBV_WC_SUCCESS, Kind::kSend), CompletionStatus::kSuccess);
  EXPECT_EQ(status_of(IBV_WC_WR_FLUSH_ERR, Kind::kSend), CompletionStatus::kFlushed);
  EXPECT_EQ(status_of(IBV_WC_REM_ACCESS_ERR, Kind::kSend), CompletionStatus::kRemoteAccessError);
  EXPECT_EQ(status_of(IBV_WC_RETRY_EXC_ERR, Kind::kSend), CompletionStatus::kRetryExceeded);
  EXPECT_EQ(status_of(IBV_WC_RNR_RETRY_EXC_ERR, Kind::kSend), CompletionStatus::kRetryExceeded);
  EXPECT_EQ(status_of(IBV_WC_LOC_PROT_ERR, Kind::kSend), CompletionStatus::kLocalError);
  EXPECT_EQ(status_of(IBV_WC_WR_FLUSH_ERR, Kind::kReceive), CompletionStatus::kFlushed);
  // For any error of a receive, the failed memory is local.
  EXPECT_EQ(status_of(IBV_WC_REM_INV_REQ_ERR, Kind::kReceive), CompletionStatus::kLocalError);
}

TEST(VerbsStatus, KnowsEveryStatusThatThereIs) {
  for (int status = IBV_WC_SUCCESS + 1; status <= IBV_WC_GENERAL_ERR; ++status)
    EXPECT_NE(status_of(static_cast<ibv_wc_status>(status), Kind::kSend),
              CompletionStatus::kSuccess)
        << status;
}

TEST(VerbsStatus, MapsEventsToTheirSubjects) {
  const auto kind = [](ibv_event_type type) { return meaning_of(type)->kind; };
  EXPECT_EQ(kind(IBV_EVENT_PORT_ACTIVE), AsyncEvent::Kind::kPortUp);
  EXPECT_EQ(kind(IBV_EVENT_PORT_ERR), AsyncEvent::Kind::kPortDown);
  EXPECT_EQ(kind(IBV_EVENT_GID_CHANGE), AsyncEvent::Kind::kGidChange);
  EXPECT_EQ(kind(IBV_EVENT_PKEY_CHANGE), AsyncEvent::Kind::kGidChange);
  EXPECT_EQ(kind(IBV_EVENT_SRQ_LIMIT_REACHED), AsyncEvent::Kind::kReceiveLimit);
  EXPECT_EQ(kind(IBV_EVENT_QP_ACCESS_ERR), AsyncEvent::Kind::kQueuePairError);
  EXPECT_EQ(kind(IBV_EVENT_QP_LAST_WQE_REACHED), AsyncEvent::Kind::kQueuePairError);
  EXPECT_EQ(kind(IBV_EVENT_DEVICE_FATAL), AsyncEvent::Kind::kDeviceFatal);
  EXPECT_EQ(meaning_of(IBV_EVENT_CQ_ERR)->subject, EventSubject::kDevice);
  EXPECT_EQ(meaning_of(IBV_EVENT_QP_FATAL)->subject, EventSubject::kQueuePair);
  EXPECT_FALSE(meaning_of(IBV_EVENT_COMM_EST));
}

TEST(VerbsStatus, MtuCodesAreThoseOfTheWire) {
  EXPECT_EQ(mtu_from(IBV_MTU_1024), Mtu::k1024);
  EXPECT_EQ(ibv_mtu_of(Mtu::k4096), IBV_MTU_4096);
}

TEST(VerbsStatus, AnAddressWithoutAnswerIsAPeerThatHasGone) {
  EXPECT_EQ(connect_error("connect", ETIMEDOUT).code, Errc::kPeerGone);
  EXPECT_EQ(connect_error("connect", ENETUNREACH).code, Errc::kPeerGone);
  EXPECT_EQ(connect_error("connect", EINVAL).code, Errc::kSystem);
}

TEST(MemlockAccount, GivesWholePagesUntilTheLimit) {
  MemlockAccount account(3 * 4096);
  EXPECT_TRUE(account.take(1));
  EXPECT_TRUE(account.take(4097));
  EXPECT_EQ(account.used_bytes(), 3u * 4096);
  EXPECT_FALSE(account.take(1));
  account.give_back(1);
  EXPECT_TRUE(account.take(4096));
}

TEST(MemlockAccount, KeepsAQuarterFromData) {
  MemlockAccount account(8 << 20);
  EXPECT_EQ(account.left_for_data_bytes(), 6U << 20);
  EXPECT_TRUE(account.take(5 << 20));
  EXPECT_EQ(account.left_for_data_bytes(), 1U << 20);
  EXPECT_TRUE(account.take(2 << 20));
  EXPECT_EQ(account.left_for_data_bytes(), 0U);
  EXPECT_TRUE(account.take(1 << 20)) << "queue pairs may";
  EXPECT_EQ(MemlockAccount(0).left_for_data_bytes(), std::numeric_limits<std::size_t>::max());
}

TEST(MemlockAccount, HugeSizesDoNotWrapAround) {
  MemlockAccount account(1 << 20);
  EXPECT_TRUE(account.take(4096));
  EXPECT_FALSE(account.take(std::size_t(0) - 8192));
  EXPECT_EQ(account.used_bytes(), 4096u);
}

TEST(MemlockAccount, ZeroIsNoLimit) {
  MemlockAccount account(0);
  EXPECT_TRUE(account.take(std::size_t{1} << 40));
}

TEST(MemlockAccount, SharesGoBackOnce) {
  MemlockAccount account(8192);
  {
    MemlockShare first(account, 8192);
    ASSERT_TRUE(first);
    EXPECT_FALSE(MemlockShare(account, 1));
    const MemlockShare moved(std::move(first));
    EXPECT_TRUE(moved);
    EXPECT_EQ(account.used_bytes(), 8192u);
  }
  EXPECT_EQ(account.used_bytes(), 0u);
}

TEST(MemlockAccount, WorkersTogetherStayWithinTheLimit) {
  constexpr int kThreads = 4, kRounds = 2000;
  MemlockAccount account(3 * 4096);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&] {
      for (int round = 0; round < kRounds; ++round) {
        if (!account.take(4096)) continue;
        EXPECT_LE(account.used_bytes(), account.limit_bytes());
        account.give_back(4096);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(account.used_bytes(), 0u);
}

}  // namespace
}  // namespace fairlead::rdma::verbs
