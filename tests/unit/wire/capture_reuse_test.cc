// Goal: the codecs read the messages of connections that join an existing link group, up to a bulk
// transfer whose cursors wrap. Method: see capture_expectations.h.
#include <gtest/gtest.h>

#include "unit/wire/capture_expectations.h"

namespace fairlead::wire::test {
namespace {

constexpr Origin kClient = Origin::kClient;
constexpr Origin kServer = Origin::kServer;
constexpr LlcKind kRequest = LlcKind::kRequest;
constexpr LlcKind kResponse = LlcKind::kResponse;

}  // namespace

TEST(CaptureReuse, EveryMessageIsUnderstoodAndWrittenBack) {
  const AlertToken token(2);
  const CdcCursor end{0, 3005};
  expect_messages(
      "second-connection-reuse.pcap",
      {
          proposal(9),
          server_rkey(11, kRequest),
          server_rkey(13, kResponse),
          accept_reuse(15, 2),
          client_rkey(17, kRequest),
          client_rkey(19, kResponse),
          confirm_reuse(21, 2),
          cdc(26, kClient, {.sequence = 1, .token = token, .producer = end}),
          cdc(32, kServer, {.sequence = 1, .token = token, .producer = end, .consumer = end}),
          cdc(35, kClient,
              {.sequence = 2,
               .token = token,
               .producer = end,
               .consumer = end,
               .state = {.closed = true}}),
          cdc(39, kServer,
              {.sequence = 2,
               .token = token,
               .producer = end,
               .consumer = end,
               .state = {.closed = true}}),
          delete_rkey(42, kClient, kClientRkey),
          delete_rkey(43, kServer, kServerRkey),
          rkey_deleted(45, kClient),
          rkey_deleted(47, kServer),
      });
}

TEST(CaptureAbort, EveryMessageIsUnderstoodAndWrittenBack) {
  const AlertToken token(3);
  const CdcCursor end{0, 10};
  expect_messages(
      "two-connections-abort.pcap",
      {
          proposal(4),
          server_rkey(6, kRequest),
          server_rkey(8, kResponse),
          accept_reuse(10, 3),
          client_rkey(12, kRequest),
          client_rkey(14, kResponse),
          confirm_reuse(16, 3),
          cdc(18, kClient, {.sequence = 1, .token = token, .producer = end}),
          cdc(23, kServer, {.sequence = 1, .token = token, .producer = end, .consumer = end}),
          cdc(27, kClient,
              {.sequence = 2,
               .token = token,
               .producer = end,
               .consumer = end,
               .state = {.closed = true}}),
          cdc(30, kServer,
              {.sequence = 2,
               .token = token,
               .producer = end,
               .consumer = end,
               .state = {.closed = true}}),
          delete_rkey(33, kClient, kClientRkey),
          rkey_deleted(35, kServer),
          delete_rkey(36, kServer, kServerRkey),
          rkey_deleted(39, kClient),
      });
}

TEST(CaptureBulk, EveryMessageIsUnderstoodAndWrittenBack) {
  const AlertToken token(4);
  const ProducerFlags blocked{.write_blocked = true};
  // Three full elements of 64 KiB, then the rest of 200,000 bytes.
  const CdcCursor full1{1, 0};
  const CdcCursor full2{2, 0};
  const CdcCursor full3{3, 0};
  const CdcCursor end{3, 3392};
  expect_messages(
      "bulk-200k.pcap",
      {
          proposal(4),
          server_rkey(6, kRequest),
          server_rkey(8, kResponse),
          accept_reuse(10, 4),
          client_rkey(12, kRequest),
          client_rkey(14, kResponse),
          confirm_reuse(16, 4),
          cdc(82, kClient,
              {.sequence = 1, .token = token, .producer = full1, .producer_flags = blocked}),
          cdc(85, kServer, {.sequence = 1, .token = token, .consumer = full1}),
          cdc(151, kClient,
              {.sequence = 2, .token = token, .producer = full2, .producer_flags = blocked}),
          cdc(154, kServer, {.sequence = 2, .token = token, .consumer = full2}),
          cdc(220, kClient,
              {.sequence = 3, .token = token, .producer = full3, .producer_flags = blocked}),
          cdc(223, kServer, {.sequence = 3, .token = token, .consumer = full3}),
          cdc(230, kClient, {.sequence = 4, .token = token, .producer = end}),
          cdc(231, kClient,
              {.sequence = 5, .token = token, .producer = end, .state = {.closed = true}}),
          cdc(236, kServer,
              {.sequence = 4, .token = token, .consumer = end, .state = {.closed = true}}),
          delete_rkey(239, kClient, kClientRkey),
          delete_rkey(240, kServer, kServerRkey),
          rkey_deleted(243, kServer),
          rkey_deleted(244, kClient),
      });
}

}  // namespace fairlead::wire::test
