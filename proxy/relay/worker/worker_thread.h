// A worker with its thread, loop, listeners and clock. It blocks in the event loop. Two calls of
// devices may block it for a bounded time: QueuePair::connect() and opening an RNIC.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/paced_lines.h"
#include "base/result.h"
#include "event/event_loop.h"
#include "event/listener.h"
#include "relay/worker/frames_offer.h"
#include "relay/worker/socket_network.h"
#include "relay/worker/spin.h"
#include "relay/worker/worker.h"

namespace fairlead::relay {

inline constexpr std::size_t kMailboxMax = 256;

class WorkerThread {
 public:
  // Built on the caller's thread; nothing runs before start().
  // `frames_offer` is that of all workers, and outlives them.
  static Result<std::unique_ptr<WorkerThread>> create(WorkerSettings settings, OptionSource source,
                                                      const bpf::OptionProgram* program,
                                                      FramesOffer& frames_offer);
  ~WorkerThread();  // stops

  Worker& worker() { return *worker_; }  // before start() only
  const WorkerStats& stats() const { return *stats_; }

  // Before start(). `listener` says where and how, and outlives us; returns the address with its
  // port, which the caller puts into it.
  Result<SocketAddress> listen(const config::Listener& listener);

  // The same with a socket that listens already, for a process before.
  Result<SocketAddress> listen(const config::Listener& listener, FileDescriptor parked);
  // Before start(): connections that another process has parked at that time, and how many more it
  // had.
  void take_back(std::vector<ParkedSockets> connections, TimePoint parked_at, std::uint64_t lost) {
    neighbours_.taken_back = std::move(connections);
    neighbours_.parked_at = parked_at;
    stats_->taken_back_lost.add(lost);
  }

  // Before start(), or on the worker's thread. Applications see clients' addresses, by the programs
  // that read this map.
  Result<void> show_client_addresses(int map_fd);
  // Before start(). They do not: kOff or kUnavailable, which is the default.
  void hide_client_addresses(ClientAddress why) { network_.set_client_address(why); }

  void start();
  // Runs on the worker's thread, in a turn of its own; dropped when the mailbox is full. Any
  // thread.
  bool post(std::function<void(Worker&)> task);
  // A program of somebody else's writes the SMC option from now on, or does no more. It answers for
  // sockets only that it saw being made, so the listeners for peers are opened again. False when
  // the mailbox is full. Any thread.
  bool set_external_option(bool attached);
  // Another map of client addresses, which stays open as long as we run; none: applications do not
  // see them for now. False when the mailbox is full. Any thread.
  bool set_client_address_map(std::optional<int> map_fd);
  // From now on new connections are TCP. Any thread.
  void start_drain();
  // The same, and the thread ends when no session is left, or at `deadline`. Any thread.
  void finish(TimePoint deadline);
  // What leaves a worker for the next process.
  struct Parked {
    std::vector<ParkedListener> listeners;
    std::vector<ParkedSockets> connections;
    std::size_t ended = 0;  // that could not be parked
  };
  // From now on nothing is accepted, and no handshake begins. When every connection can be parked,
  // or at `deadline`, `parked` is called on the worker's thread. The rest, and the thread, go on
  // until finish(). Any thread.
  void park(TimePoint deadline, std::function<void(Parked)> parked);
  // What was parked goes on here after all, and new connections are TCP. False when the mailbox is
  // full: the connections are reset. Any thread.
  bool unpark(Parked parked);
  void join();
  // True while sessions exist. Any thread.
  bool running() const { return running_.load(std::memory_order_acquire); }

 private:
  WorkerThread(WorkerSettings settings, std::unique_ptr<event::EventLoop> loop, OptionSource source,
               const bpf::OptionProgram* program, FramesOffer& frames_offer);
  struct Entrance {
    const config::Listener* configured;
    std::unique_ptr<event::Listener> listener;
    bool copied = false;  // a keeper may have a descriptor of the socket
  };
  Result<std::unique_ptr<event::Listener>> open(const config::Listener& listener);
  Result<SocketAddress> enter(const config::Listener& listener,
                              std::unique_ptr<event::Listener> opened);
  event::ListenerHandlers handlers_of(const config::Listener& listener);
  void resume_connections();
  void resume(ParkedSockets sockets);
  void listen_again(std::vector<ParkedListener> listeners);
  void park_when_due();
  void reopen_for_peers();
  // That the listener has got.
  std::uint16_t port_of(const config::Listener& listener) const;
  void run();
  void run_mailbox();
  bool drain_finished();
  bool spin();
  void poll_sockets(TimePoint now);
  void sleep();
  void accepted(const config::Listener& listener, std::unique_ptr<event::Stream> stream);
  void choose_sizes();
  void offer_frames();
  bool announce_frames(bool announce);  // of all listeners for peers

  const config::Config& config_;
  const unsigned index_;
  const unsigned workers_;
  const std::uint64_t seed_;
  std::unique_ptr<WorkerStats> stats_;
  std::unique_ptr<event::EventLoop> loop_;
  SocketNetwork network_;
  std::unique_ptr<Worker> worker_;
  std::vector<Entrance> entrances_;
  FramesOfferOfWorker frames_offer_;
  SpinBudget spin_;
  PacedLines lines_;  // that strangers can cause
  TimePoint polled_;  // when the sockets were last asked for news

  std::mutex mailbox_mutex_;  // control only, never on the data path
  std::deque<std::function<void(Worker&)>> mailbox_;
  std::atomic<bool> mailbox_full_{false};
  std::atomic<bool> running_{false};
  struct Parking {
    std::function<void(Parked)> parked;
    std::vector<ParkedListener> listeners;
  };

  // The process before, and the next one.
  struct Neighbours {
    std::vector<ParkedSockets> taken_back;                  // until the thread starts
    std::optional<TimePoint> parked_at;                     // the same
    std::optional<Parking> parking;                         // worker's thread
    std::vector<const config::Listener*> parked_listeners;  // the same
    Parked given_again;  // of unpark(); guarded by mailbox_mutex_
  } neighbours_;
  // Worker's thread.
  struct End {
    std::optional<TimePoint> drain_deadline;
    std::optional<TimePoint> shutdown_deadline;
  } end_;
  std::thread thread_;
};

}  // namespace fairlead::relay
