// How one connection ends: what the application wants, what was sent, and what the peer has said.
// The states are those of close_state.h.
#pragma once

#include "smc/connection/close_state.h"
#include "wire/cdc.h"

namespace fairlead::smc {

class Closing {
 public:
  CloseState state() const { return state_; }

  void end_data() { data_ended_ = true; }
  void close() { data_ended_ = close_wanted_ = true; }
  // `behind_data`: after the bytes that were produced.
  void abort(bool behind_data) {
    abort_wanted_ = true;
    abort_behind_data_ = behind_data;
  }
  // The link group is gone; nothing can be sent any more.
  void lose() {
    lost_ = true;
    state_ = CloseState::kClosed;
  }

  bool data_ended() const { return data_ended_; }
  bool abort_wanted() const { return abort_wanted_; }
  bool lost() const { return lost_; }
  // Aborted by either side, or lost.
  bool reset() const { return peer_aborted_ || lost_ || abort_wanted_; }
  // The peer's data ended in order, although its connection may have been reset afterwards.
  bool peer_ended() const { return peer_done_ || peer_closed_; }
  // The peer's application has closed: nothing reads the bytes that this side still sends.
  bool peer_closed() const { return peer_closed_; }
  // True if the peer may still write into our element, so that no other connection may use it: the
  // peer has closed while it waits for room, and may learn of room before it learns of our abort.
  bool peer_writes_on(bool write_blocked) const {
    return sent_.aborted && peer_closed_ && !peer_aborted_ && write_blocked;
  }

  // What the peer has still to be told. `drained`: no byte is left that the peer could still read.
  bool done_writing_due(bool drained) const {
    return data_ended_ && drained && !sent_.done_writing && !sent_.closed && !sent_.aborted;
  }
  bool close_due() const { return close_wanted_ && !sent_.closed && !sent_.aborted; }
  bool abort_due(bool drained) const {
    return abort_wanted_ && !sent_.aborted && (!abort_behind_data_ || drained);
  }
  bool said_closed() const { return sent_.closed; }
  bool said_aborted() const { return sent_.aborted; }

  // Puts what is due into the message, and notes it as sent.
  void fill(wire::CdcMessage& cdc, bool drained);
  // True if the peer has aborted by this message.
  bool take(const wire::ConnectionStateFlags& flags);

 private:
  void apply(CloseEvent event) {
    state_ = next(state_, event, {sent_.closed || sent_.aborted, peer_closed_ || peer_aborted_});
  }

  CloseState state_ = CloseState::kActive;
  wire::ConnectionStateFlags sent_;
  bool data_ended_ = false;
  bool close_wanted_ = false;
  bool abort_wanted_ = false;
  bool abort_behind_data_ = false;
  bool peer_done_ = false;
  bool peer_closed_ = false;
  bool peer_aborted_ = false;
  bool lost_ = false;
};

inline void Closing::fill(wire::CdcMessage& cdc, bool drained) {
  if (abort_due(drained)) {
    // A FIN that was handed over before the reset is said too: the peer tells the two apart.
    if (done_writing_due(drained)) sent_.done_writing = true;
    apply(CloseEvent::kSentAbort);
    sent_.aborted = true;
  } else if (!sent_.aborted) {
    if (done_writing_due(drained)) {
      sent_.done_writing = true;
      apply(CloseEvent::kSentDoneWriting);
    }
    if (close_due() && drained) {
      apply(CloseEvent::kSentClosed);
      sent_.closed = true;
    }
  }
  cdc.state = sent_;
  // Behind an abort nothing is written again. If bytes died with a link, the FIN behind them must
  // not be said over the next one: the peer would take the stream for whole.
  if (sent_.aborted && !drained) cdc.state.done_writing = false;
}

inline bool Closing::take(const wire::ConnectionStateFlags& flags) {
  if (flags.aborted && !peer_aborted_) {
    apply(CloseEvent::kGotAbort);
    peer_aborted_ = true;
    // A FIN before the reset is passed on before it.
    peer_done_ = peer_done_ || flags.done_writing;
    return true;
  }
  if (flags.done_writing && !peer_done_) {
    peer_done_ = true;
    apply(CloseEvent::kGotDoneWriting);
  }
  if (flags.closed && !peer_closed_) {
    apply(CloseEvent::kGotClosed);
    peer_closed_ = true;
  }
  return false;
}

}  // namespace fairlead::smc
