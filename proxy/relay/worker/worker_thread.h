// A worker with its thread, loop, listeners and clock. It blocks in the event loop. Two device
// calls may block it as well, for a bounded time: QueuePair::connect() and opening an RNIC.
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
  // Runs on the caller's thread; nothing else runs before start(). All workers share
  // `frames_offer`, which outlives them.
  static Result<std::unique_ptr<WorkerThread>> create(WorkerSettings settings, OptionSource source,
                                                      const bpf::OptionProgram* program,
                                                      FramesOffer& frames_offer);
  ~WorkerThread();  // stops

  Worker& worker() { return *worker_; }  // before start() only
  const WorkerStats& stats() const { return *stats_; }

  // Before start(). `listener` outlives this object. Returns the address with the actual port,
  // which the caller writes into `listener`.
  Result<SocketAddress> listen(const config::Listener& listener);

  // As above, with a socket on which an earlier process has listened already.
  Result<SocketAddress> listen(const config::Listener& listener, FileDescriptor parked);
  // Before start(). Takes connections that another process parked at `parked_at`. `lost` is the
  // number of further ones that it had.
  void take_back(std::vector<ParkedSockets> connections, TimePoint parked_at, std::uint64_t lost) {
    neighbours_.taken_back = std::move(connections);
    neighbours_.parked_at = parked_at;
    stats_->taken_back_lost.add(lost);
  }

  // Before start(), or on the worker's thread. Applications see clients' addresses, through the
  // programs that read this map.
  Result<void> show_client_addresses(int map_fd);
  // Before start(). Applications do not see clients' addresses: kOff or kUnavailable (the default).
  void hide_client_addresses(ClientAddress why) { network_.set_client_address(why); }

  void start();
  // Queues a task that runs on the worker's thread, in a turn of its own. False, and the task is
  // dropped, if the mailbox is full. Any thread.
  bool post(std::function<void(Worker&)> task);
  // An external program writes the SMC option from now on, or no longer. It knows only sockets that
  // were created while it was attached, so the listeners for peers are opened again. False if the
  // mailbox is full. Any thread.
  bool set_external_option(bool attached);
  // Replaces the map of client addresses; the descriptor stays open while the worker runs. Without
  // a map, applications do not see the addresses for now. False if the mailbox is full. Any thread.
  bool set_client_address_map(std::optional<int> map_fd);
  // From now on new connections are TCP. Any thread.
  void start_drain();
  // As start_drain(), and the thread ends when no session is left, or at `deadline`. Any thread.
  void finish(TimePoint deadline);
  // What a worker leaves to the next process.
  struct Parked {
    std::vector<ParkedListener> listeners;
    std::vector<ParkedSockets> connections;
    std::size_t ended = 0;  // connections that could not be parked
  };
  // Stops accepting connections and beginning handshakes. When every connection can be parked, or
  // at `deadline`, calls `parked` on the worker's thread. The other connections, and the thread,
  // continue until finish(). Any thread.
  void park(TimePoint deadline, std::function<void(Parked)> parked);
  // Continues here with what was parked after all; new connections are TCP. False if the mailbox is
  // full: the connections are then reset. Any thread.
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
    bool copied = false;      // a keeper may hold a descriptor of the socket
    bool translated = false;  // the last redirected connection came by NAT
  };
  Result<std::unique_ptr<event::Listener>> open(const config::Listener& listener);
  Result<SocketAddress> enter(const config::Listener& listener,
                              std::unique_ptr<event::Listener> opened);
  event::ListenerHandlers handlers_of(const config::Listener& listener);
  bool holds(const config::Listener& listener) const;
  void resume_connections();
  void resume(ParkedSockets sockets);
  void listen_again(std::vector<ParkedListener> listeners);
  void park_when_due();
  void reopen_for_peers();
  // The actual port of the listener.
  Entrance* entrance_of(const config::Listener& listener);
  void run();
  void run_mailbox();
  bool drain_finished();
  bool spin();
  void poll_sockets(TimePoint now);
  void sleep();
  void accepted(const config::Listener& listener, std::unique_ptr<event::Stream> stream);
  void choose_sizes();
  void offer_frames();
  bool announce_frames(bool announce);  // by all listeners for peers

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
  PacedLines lines_;  // log lines that strangers can cause
  TimePoint polled_;  // when the sockets were last asked for news

  std::mutex mailbox_mutex_;  // control only, never on the data path
  std::deque<std::function<void(Worker&)>> mailbox_;
  std::atomic<bool> mailbox_full_{false};
  std::atomic<bool> running_{false};
  struct Parking {
    std::function<void(Parked)> parked;
    std::vector<ParkedListener> listeners;
  };

  // State for the hand-over from the previous process and to the next one.
  struct Neighbours {
    std::vector<ParkedSockets> taken_back;                  // until the thread starts
    std::optional<TimePoint> parked_at;                     // the same
    std::optional<Parking> parking;                         // worker's thread
    std::vector<const config::Listener*> parked_listeners;  // the same
    Parked given_again;  // by unpark(); guarded by mailbox_mutex_
  } neighbours_;
  // Used on the worker's thread only.
  struct End {
    std::optional<TimePoint> drain_deadline;
    std::optional<TimePoint> shutdown_deadline;
  } end_;
  std::thread thread_;
};

}  // namespace fairlead::relay
