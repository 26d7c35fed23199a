// What queue pairs do and what CLC messages say in a simulation, one event a line, for
// tests/model/traces.py. Numbers are decimal, bytes are hexadecimal.
//
//   seed <seed>                              a run begins; all numbers below start again
//   connect <qp> <peer GID> <peer number>    of the queue pair `qp`, which has this GID and number:
//           <GID> <number>
//   post <qp> <work id> <message>            SEND, as handed to the device, which may refuse it
//   write <qp> <work id> <rkey> <address> <length>
//   take <qp>                                the owner polls the next message that has arrived
//   deliver <qp> <to qp>                     a message arrives at the other end, not yet polled
//   done <qp> <work id> <status>             the owner polls a completion; 0 is success
//   fault <qp>                               the owner polls the event that tells of the failure
//   broken <qp>                              the queue pair fails; its owner does not know yet
//   fail <qp>                                the owner gives it up: it failed, or its link is deleted
//   gone <qp>                                the owner destroys it
//   clc <connection> <side> <bytes>          a write that begins with a CLC message
//
// `qp` is the id of the queue pair, which is never used again. Writing draws no random numbers and
// changes nothing in the simulation.
#pragma once

#include <cstdint>
#include <cstdio>
#include <span>

#include "rdma/device.h"

namespace fairlead::sim {

class SimQueuePair;

class EventFile {
 public:
  // Not owned; outlives this object.
  explicit EventFile(std::FILE* out) : out_(out) {}

  void seed(std::uint64_t seed);
  void connect(const SimQueuePair& queue_pair);
  void post(const SimQueuePair& queue_pair, const rdma::WorkRequest& request);
  void take(std::uint64_t queue_pair);
  void deliver(std::uint64_t from, std::uint64_t to);
  void done(std::uint64_t queue_pair, const rdma::Completion& completion);
  void fault(std::uint64_t queue_pair);
  void broken(std::uint64_t queue_pair);
  void fail(std::uint64_t queue_pair);
  void gone(std::uint64_t queue_pair);
  // Writes nothing unless `bytes` begin with a CLC message.
  void tcp(std::uint64_t connection, unsigned side, std::span<const std::byte> bytes);

 private:
  void hex(std::span<const std::byte> bytes);
  void line(const char* what, std::uint64_t queue_pair);

  std::FILE* out_;
};

}  // namespace fairlead::sim
