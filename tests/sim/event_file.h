// What queue pairs and TCP streams do and what CLC messages say in a simulation, one event a line,
// for tests/model/recorded.py. Numbers are decimal, bytes are hexadecimal.
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
//   fail <qp>                                the owner gives it up: it or its link is of no use
//   gone <qp>                                the owner destroys it
//   clc <tcp> <side> <bytes>                 a write that begins with a CLC message
//   tcp <tcp> <from> <to> <port>             a connection from a pod to a port of a pod is dialled.
//           The first to a port is the application's; that with `from` = `to` leads to the server
//   read <tcp> <side> <bytes>                the owner of this end reads
//   fin <tcp> <side>                         ... reads the end
//   sent <tcp> <side> <bytes>                ... writes
//   shut <tcp> <side>                        ... sends its own end
//   error <tcp> <side> <what>                ... meets an error: 0 reading, 1 writing, 2 asking
//   close <tcp> <side> <reset> <idle>        ... closes, so many milliseconds after it wrote last;
//           1: and asks for a reset
//   framed <tcp> <side> <bytes>              a write to a connection that began in frames
//   proxy <pod> <what>                       0 it ends its connections, 1 its process is gone
//
// `qp` is the id of the queue pair, which is never used again. Side 0 of a TCP connection is
// the one that dialled it. Writing draws no random numbers and changes nothing in the simulation.
#pragma once

#include <cstdint>
#include <cstdio>
#include <set>
#include <span>

#include "base/time.h"
#include "event/stream.h"
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
  void clc(std::uint64_t tcp, unsigned side, std::span<const std::byte> bytes);
  // Writes nothing unless the connection has begun with the preface of frames.
  void framed(std::uint64_t tcp, unsigned side, std::span<const std::byte> bytes);
  void dialled(std::uint64_t tcp, unsigned from, unsigned to, unsigned port);
  void read(std::uint64_t tcp, unsigned side, const event::IoResult& result);
  void written(std::uint64_t tcp, unsigned side, const event::IoResult& result);
  void asked(std::uint64_t tcp, unsigned side);
  void shut(std::uint64_t tcp, unsigned side);
  void close(std::uint64_t tcp, unsigned side, bool reset, Duration idle);
  enum class ProxyEnd : std::uint8_t { kBegins, kGone };
  void proxy(unsigned pod, ProxyEnd what);

 private:
  enum class Met : std::uint8_t { kReading, kWriting, kAsking };
  void hex(std::span<const std::byte> bytes);
  void line(const char* what, std::uint64_t key);
  void line(const char* what, std::uint64_t key, std::uint64_t value);
  void line(const char* what, std::uint64_t key, std::uint64_t value, std::uint64_t more);
  void error(std::uint64_t tcp, unsigned side, Met what) {
    line("error", tcp, side, static_cast<std::uint64_t>(what));
  }

  std::FILE* out_;
  std::set<std::uint64_t> framed_;  // TCP connections of this run
};

}  // namespace fairlead::sim
