/* How one SMC-R connection ends. Each side has a Connection with its rings, and an application that may at any moment
 * write a byte, write an urgent byte, end its data, close, or abort.
 *
 * Modelled are proxy/smc/connection/closing.h, close_state.h, and of connection.cc, tx_ring.cc and rx_ring.cc what a CDC message
 * says, when one is due, and what one does. Of proxy/relay/pipes/smc_relay.cc it has the rules by which the application gets
 * a FIN or a reset. Cursors are positions that never wrap; failures of links are in failover.pml.
 *
 * Bounds: N bytes each way, or N and one; one of them may be urgent; elements of one or two bytes; DEPTH messages under
 * way each way. Chosen at the start, and the same until the end:
 *   - direct: the application's bytes go into the peer's element at once. Otherwise a send ring stands between.
 *   - hasty: side 1 is as Linux. It says "done writing" or "closed" after two seconds even if data is left, and sends
 *     the rest afterwards. "Closed" comes without "done writing". Write blocked stays as the last write has left it.
 *   - patient, of each application: it writes all, ends its data, reads until it gets a FIN, and closes then. It does
 *     nothing else, so that a wait without end is seen.
 *   - losing: the link group may be lost at any moment, at one side after the other.
 *   - watched: a side that has closed may still abort, as the relay does when the peer's process is gone.
 *
 * Assumed of the fabric: messages of a link arrive in order and once, and the bytes that they announce before them. The
 * grace for a blocked writer (kCloseGrace) is over only when nothing is under way and nothing is due on either side. It
 * is long enough to see that a group is lost.
 *
 * An application that closes reads nothing any more; if bytes are unread it aborts instead, as in Linux. What comes for
 * one that is gone behind its FIN is dropped while its own bytes are still under way.
 *
 * Checked: a reader gets a FIN only after all bytes that were written before it, and only if the other application has
 * ended its data; a reset only if the other one has aborted, or the group is lost; after an abort behind the data it
 * has all bytes first. The urgent byte keeps its mark, and no other byte gets one. No cursor goes where it cannot be.
 * No side writes into an element that may be used again. Each side comes to CLOSED, or loses its group; none waits
 * without end. The cells of the table in close_state.h that the program can never need are not used.
 *
 * What a trace shows (trace.inc), by kind, with three values each:
 *   0 begin     bytes of the side's own element; 1 direct + 2 hasty; bytes of it that the peer leaves free
 *   1 write     bytes of the application; 1 if the last one is urgent; 0
 *   2 finish    the application's FIN
 *   3 close     the application, or the relay behind both FINs
 *   4 abort     1 behind the data, 0 at once
 *   5 post      a CDC message: producer cursor, consumer cursor, flags
 *   6 take      the same at the receiver
 *   7 read      bytes given to the application; 1 if it is the urgent one
 *   8 end       given to the application: 1 FIN, 2 reset; 1 if it has taken nothing for a second, and bytes are left
 *   9 lost      the link group is gone
 *   10 over     both sides have ended it and said so: the element may be used again
 *   11 drop     bytes of the peer that the application, gone behind its FIN, does not read
 * Both sides begin with kind 0, side 0 first. Cursors are positions from the beginning. Flags of a message: 1 write
 * blocked, 2 urgent pending, 4 urgent present, 8 done writing, 16 closed, 32 aborted. */
#include "trace.inc"

#ifdef TRACE
#define COUNT int
#define N 1000000000
#define AMOUNT t_a
#define DEPTH 200
#else
#define COUNT byte
#ifndef N
#define N 2
#endif
#define AMOUNT 1
#define DEPTH 2
#endif
#ifndef RING_MAX
#define RING_MAX 2
#endif

#define BEGIN 0
#define WRITE 1
#define FINISH 2
#define CLOSE 3
#define ABORT 4
#define POST 5
#define TAKE 6
#define READ 7
#define END 8
#define LOST 9
#define OVER 10
#define DROP 11

/* The states and events of close_state.h, in their order there. */
#define ACTIVE 0
#define PEER_CLOSE_WAIT_1 1
#define PEER_CLOSE_WAIT_2 2
#define APP_CLOSE_WAIT_1 3
#define APP_CLOSE_WAIT_2 4
#define APP_FIN_CLOSE_WAIT 5
#define PEER_FIN_CLOSE_WAIT 6
#define PEER_ABORT_WAIT 7
#define PROCESS_ABORT 8
#define CLOSED 9

#define SENT_DONE 0
#define SENT_CLOSED 1
#define SENT_ABORT 2
#define GOT_DONE 3
#define GOT_CLOSED 4
#define GOT_ABORT 5

#define BLOCKED 1
#define PENDING 2
#define PRESENT 4
#define DONE_WRITING 8
#define SAYS_CLOSED 16
#define ABORTED 32

typedef Side {
  /* Towards the peer. */
  COUNT taken;         /* from the application */
  COUNT produced;      /* in the peer's element */
  COUNT announced;     /* by a message */
  COUNT peer_consumed;
  COUNT urgent_at;     /* behind the urgent byte; 0 = none that matters */
  COUNT urgent_byte;   /* the same, for the assertions: it stays */
  bit urgent_due;
  bit was_blocked;     /* hasty: what the last write has left of write blocked */
  bit hurried;         /* hasty: the two seconds are over */
  /* From the peer. */
  COUNT arrived;
  COUNT consumed;
  COUNT confirmed;
  COUNT mark_at;       /* behind the peer's urgent byte; 0 = none */
  bit write_blocked;
  bit grace;
  bit update_requested;
  /* Closing. */
  unsigned state : 4;
  bit data_ended;
  bit close_wanted;
  bit abort_wanted;
  bit behind_data;
  bit said_done;
  bit said_closed;
  bit said_aborted;
  bit peer_done;
  bit peer_closed;
  bit peer_aborted;
  bit lost;
  bit over;
  /* The application. */
  bit patient;
  bit aborted;         /* it has aborted */
  bit cut;             /* it did not wait for its data */
  bit got_fin;
  bit gone;            /* it has closed, aborted, or got a reset */
  bit dropped;         /* something that the peer sent, for nobody */
}

Side S[2];
COUNT element[2];
COUNT reserve[2];
COUNT bytes[2]; /* that each application may write */
bit ready = 0, direct = 0, hasty = 0, losing = 0, group_lost = 0, watched = 0;
/* To each side: producer cursor, consumer cursor, flags. */
chan wire[2] = [DEPTH] of { COUNT, COUNT, byte };

#ifdef TRACE
#define LIMIT(x) (element[x] / 10 > 2304 -> element[x] / 10 : 2304)
#else
#define LIMIT(x) (element[x] / 2)
#endif

#define HASTY(x) (hasty && x == 1)
#define ALL(x) (S[x].peer_consumed + element[1 - x])
#define ROOM(x) (ALL(x) - reserve[1 - x] > S[x].produced -> ALL(x) - reserve[1 - x] - S[x].produced : 0)
#define RESET(x) (S[x].peer_aborted || S[x].lost || S[x].abort_wanted)
#define PEER_ENDED(x) (S[x].peer_done || S[x].peer_closed)
#ifdef MUTANT_WAITS_FOR_A_CLOSED_PEER
#define DRAINED(x) (S[x].taken == S[x].produced)
#else
#define DRAINED(x) (S[x].taken == S[x].produced || S[x].peer_closed)
#endif
#ifdef MUTANT_END_BEFORE_DATA
#define SAID_ALL(x) true
#else
#define SAID_ALL(x) (DRAINED(x) || S[x].hurried)
#endif
#ifdef MUTANT_ABORT_BEFORE_DATA
#define ABORT_DUE(x) (S[x].abort_wanted && !S[x].said_aborted)
#else
#define ABORT_DUE(x) (S[x].abort_wanted && !S[x].said_aborted && (!S[x].behind_data || DRAINED(x)))
#endif
#define DONE_DUE(x) (S[x].data_ended && SAID_ALL(x) && !S[x].said_done && !S[x].said_closed && !S[x].said_aborted && \
                     !(HASTY(x) && S[x].close_wanted))
#define CLOSE_DUE(x) (S[x].close_wanted && !S[x].said_closed && !S[x].said_aborted)
#define UNCONFIRMED(x) (S[x].consumed - S[x].confirmed)
#ifdef MUTANT_SILENT_READER
#define NEEDS_NO_ROOM(x) PEER_ENDED(x)
#else
#define NEEDS_NO_ROOM(x) (PEER_ENDED(x) && !S[x].write_blocked)
#endif
#ifdef MUTANT_SILENT_AFTER_URGENT
#define URGENT_PASSED(x) false
#else
#define URGENT_PASSED(x) (S[x].mark_at != 0 && S[x].consumed >= S[x].mark_at)
#endif
#define UPDATE_DUE(x) (UNCONFIRMED(x) > 0 && !NEEDS_NO_ROOM(x) && \
  (S[x].update_requested || URGENT_PASSED(x) || \
   (S[x].write_blocked && (UNCONFIRMED(x) > LIMIT(x) || PEER_ENDED(x))) || \
   (UNCONFIRMED(x) > LIMIT(x) && element[x] - (S[x].arrived - S[x].confirmed) <= element[x] / 2)))
#define DATA_DUE(x) (direct -> S[x].produced != S[x].announced : \
                     S[x].taken > S[x].produced && ROOM(x) > 0 && !S[x].peer_closed && !S[x].peer_aborted)
#define TRANSMIT_DUE(x) (!S[x].lost && !S[x].over && !S[x].said_aborted && \
  (ABORT_DUE(x) || UPDATE_DUE(x) || (S[x].said_closed && HASTY(x) && DATA_DUE(x)) || \
   (!S[x].said_closed && (DATA_DUE(x) || DONE_DUE(x) || (CLOSE_DUE(x) && SAID_ALL(x))))))

#ifdef MUTANT_WRITES_BEHIND_URGENT
#define BEHIND_URGENT(x) false
#else
#define BEHIND_URGENT(x) (S[x].urgent_at != 0)
#endif
#define MAY_WRITE(x) (!S[x].data_ended && !S[x].lost && !S[x].abort_wanted && !S[x].peer_closed && \
                      !BEHIND_URGENT(x) && S[x].taken < bytes[x] && (!direct || ROOM(x) >= AMOUNT))
#define ALL_READ(x) (S[x].consumed == S[x].arrived)
/* SmcRelay::pump_to_app(). A writer that was blocked has more to say: its end does not precede a reset. */
#ifdef MUTANT_NO_GRACE
#define FIN_DUE(x) (ALL_READ(x) && PEER_ENDED(x))
#else
#ifdef MUTANT_FIN_OF_A_BLOCKED_WRITER
#define FIN_DUE(x) (ALL_READ(x) && PEER_ENDED(x) && (RESET(x) || !S[x].write_blocked))
#else
#define FIN_DUE(x) (ALL_READ(x) && PEER_ENDED(x) && !S[x].write_blocked)
#endif
#endif
/* An element whose peer may have more to write is not used again. */
#ifdef MUTANT_BLOCKED_WRITER_LOSES_ITS_ELEMENT
#define REUSED(x) (S[x].over && !S[x].lost)
#else
#define REUSED(x) (S[x].over && !S[x].lost && !S[x].write_blocked)
#endif
#ifdef TRACE
/* Time has passed where the trace says so. As Linux, a side may say at any moment how it stands, and write a part. */
#define QUIET true
#define CLOSES_ALONE(x) false
/* The proxy sees the reset before it has read what the application said. */
#define MAY_DROP(x) true
#define MAY_POST(x) (TRANSMIT_DUE(x) || (HASTY(x) && !S[x].lost && !S[x].over))
#define PART(x, all) (HASTY(x) && t_a - S[x].produced < all && t_a >= S[x].produced -> t_a - S[x].produced : all)
#else
#define CLOSES_ALONE(x) (!S[x].patient)
#define MAY_DROP(x) (S[x].gone && S[x].data_ended && S[x].abort_wanted && S[x].behind_data)
#define MAY_POST(x) TRANSMIT_DUE(x)
#define PART(x, all) all
/* Nothing is under way, and nothing is due. */
#define QUIET (empty(wire[0]) && empty(wire[1]) && !TRANSMIT_DUE(0) && !TRANSMIT_DUE(1))
#endif

/* The cells of the table in which something can happen. */
#define USED(x, event) \
  ((event == SENT_DONE -> S[x].state == ACTIVE || S[x].state == APP_CLOSE_WAIT_1 : \
   (event == SENT_CLOSED -> S[x].state <= APP_FIN_CLOSE_WAIT : \
   (event == SENT_ABORT -> S[x].state != PEER_ABORT_WAIT : \
   (event == GOT_DONE -> S[x].state <= PEER_CLOSE_WAIT_1 || S[x].state == PEER_ABORT_WAIT : \
   (event == GOT_CLOSED -> S[x].state <= PEER_ABORT_WAIT && S[x].state != APP_FIN_CLOSE_WAIT : \
    S[x].state <= PEER_ABORT_WAIT))))))

/* The table of close_state.h. `met`: the other side had closed or aborted before. */
inline apply(x, event) {
  met = (event <= SENT_ABORT -> S[x].peer_closed || S[x].peer_aborted : S[x].said_closed || S[x].said_aborted);
  assert(USED(x, event));
  if
  :: S[x].state == CLOSED -> skip
  :: S[x].state == ACTIVE ->
       if
       :: event <= SENT_CLOSED -> S[x].state = PEER_CLOSE_WAIT_1
       :: event == SENT_ABORT -> S[x].state = (met -> CLOSED : PEER_ABORT_WAIT)
       :: event == GOT_DONE || event == GOT_CLOSED -> S[x].state = APP_CLOSE_WAIT_1
       :: event == GOT_ABORT -> S[x].state = PROCESS_ABORT
       fi
  :: S[x].state == PEER_CLOSE_WAIT_1 || S[x].state == PEER_CLOSE_WAIT_2 ->
       if
       :: event <= SENT_CLOSED -> skip
       :: event == SENT_ABORT -> S[x].state = (met -> CLOSED : PEER_ABORT_WAIT)
       :: event == GOT_DONE -> S[x].state = PEER_CLOSE_WAIT_2
       :: event == GOT_CLOSED -> S[x].state = (met -> CLOSED : APP_FIN_CLOSE_WAIT)
       :: event == GOT_ABORT -> S[x].state = (met -> CLOSED : PROCESS_ABORT)
       fi
  :: S[x].state == APP_CLOSE_WAIT_1 || S[x].state == APP_CLOSE_WAIT_2 ->
       if
       :: event == SENT_DONE -> S[x].state = APP_CLOSE_WAIT_2
       :: event == SENT_CLOSED -> S[x].state = (met -> CLOSED : PEER_FIN_CLOSE_WAIT)
       :: event == SENT_ABORT -> S[x].state = (met -> CLOSED : PEER_ABORT_WAIT)
       :: event == GOT_DONE || event == GOT_CLOSED -> skip
       :: event == GOT_ABORT -> S[x].state = PROCESS_ABORT
       fi
  :: S[x].state == APP_FIN_CLOSE_WAIT ->
       if
       :: event == SENT_CLOSED || event == SENT_ABORT -> S[x].state = CLOSED
       :: event == GOT_ABORT -> S[x].state = PROCESS_ABORT
       :: else -> skip
       fi
  :: S[x].state == PEER_FIN_CLOSE_WAIT || S[x].state == PEER_ABORT_WAIT ->
       if
       :: event == SENT_ABORT -> S[x].state = (met -> CLOSED : PEER_ABORT_WAIT)
       :: event == GOT_CLOSED || event == GOT_ABORT -> S[x].state = CLOSED
       :: else -> skip
       fi
  :: S[x].state == PROCESS_ABORT ->
       if
       :: event == SENT_CLOSED || event == SENT_ABORT -> S[x].state = CLOSED
       :: else -> skip
       fi
  fi;
  met = 0
}

/* Connection::abort() */
inline abort(x, behind) {
  if
  :: behind && S[x].abort_wanted -> skip
  :: else -> S[x].abort_wanted = 1; S[x].behind_data = behind; S[x].grace = 0
  fi
}

/* Connection::begin_grace() */
inline begin_grace(x) {
  if
  :: PEER_ENDED(x) && S[x].write_blocked && ALL_READ(x) && !RESET(x) -> S[x].grace = 1
  :: else -> skip
  fi
}

/* TxRing::fill_writes(): as much as there is room for. */
inline fill_writes(x) {
  if
  :: !direct && !ABORT_DUE(x) && !S[x].peer_closed ->
       count = (S[x].taken - S[x].produced < ROOM(x) -> S[x].taken - S[x].produced : ROOM(x));
       count = PART(x, count);
       if
       :: count > 0 ->
            assert(!REUSED(1 - x));
            S[x].was_blocked = (S[x].taken - S[x].produced >= ROOM(x));
            S[x].produced = S[x].produced + count
       :: else -> skip
       fi;
       count = 0
  :: else -> skip
  fi
}

/* Closing::fill() */
inline fill(x) {
  if
  :: ABORT_DUE(x) ->
#ifdef MUTANT_ABORT_ENDS
       S[x].said_done = 1;
#else
       if
       :: DONE_DUE(x) && DRAINED(x) -> S[x].said_done = 1
       :: else -> skip
       fi;
#endif
       apply(x, SENT_ABORT);
       S[x].said_aborted = 1
  :: else ->
       if
       :: !S[x].said_aborted && DONE_DUE(x) -> S[x].said_done = 1; apply(x, SENT_DONE)
       :: else -> skip
       fi;
       if
       :: CLOSE_DUE(x) && SAID_ALL(x) -> apply(x, SENT_CLOSED); S[x].said_closed = 1
       :: else -> skip
       fi
  fi
}

/* TxRing::fill_flags() */
inline fill_flags(x) {
  flags = 0;
  if
  :: HASTY(x) -> flags = (S[x].was_blocked -> BLOCKED : 0)
  :: else -> flags = (ROOM(x) == 0 && !(S[x].data_ended && S[x].taken == S[x].produced) -> BLOCKED : 0)
  fi;
  if
  :: S[x].urgent_due ->
       flags = flags + PENDING;
       if
       :: S[x].produced == S[x].urgent_at -> flags = flags + PRESENT; S[x].urgent_due = 0
       :: else -> skip
       fi
  :: else -> skip
  fi;
  flags = flags + (S[x].said_done -> DONE_WRITING : 0) + (S[x].said_closed -> SAYS_CLOSED : 0) +
          (S[x].said_aborted -> ABORTED : 0)
}

/* Closing::take(), and the answer to an abort. */
inline take_state(x) {
  if
  :: (flags & ABORTED) && !S[x].peer_aborted ->
       apply(x, GOT_ABORT);
       S[x].peer_aborted = 1;
#ifndef MUTANT_FORGETS_THE_END
       S[x].peer_done = S[x].peer_done || (flags & DONE_WRITING) != 0;
#endif
       S[x].grace = 0;
#ifndef MUTANT_UNANSWERED_ABORT
       if
       :: S[x].state != CLOSED -> abort(x, 0)
       :: else -> skip
       fi
#endif
  :: else ->
       if
       :: (flags & DONE_WRITING) && !S[x].peer_done -> S[x].peer_done = 1; apply(x, GOT_DONE)
       :: else -> skip
       fi;
       if
       :: (flags & SAYS_CLOSED) && !S[x].peer_closed -> apply(x, GOT_CLOSED); S[x].peer_closed = 1
       :: else -> skip
       fi;
       if
       :: !S[x].grace -> begin_grace(x)
       :: else -> skip
       fi
  fi
}

/* No byte that was written before is missing. */
inline nothing_is_missing(x) { assert(S[x].consumed == S[1 - x].taken) }

/* What no assertion asks for. */
inline forget(x) {
  S[x].produced = 0; S[x].announced = 0; S[x].peer_consumed = 0; S[x].urgent_at = 0; S[x].urgent_due = 0;
  S[x].was_blocked = 0; S[x].hurried = 0; S[x].arrived = 0; S[x].consumed = 0; S[x].confirmed = 0; S[x].mark_at = 0;
  S[x].grace = 0; S[x].close_wanted = 0; S[x].abort_wanted = 0; S[x].behind_data = 0; S[x].said_done = 0;
  S[x].said_closed = 0; S[x].said_aborted = 0; S[x].peer_done = 0; S[x].peer_closed = 0; S[x].peer_aborted = 0;
  S[x].patient = 0; S[x].got_fin = 0; S[x].dropped = 0
}

inline choose() {
#ifdef TRACE
  bytes[0] = N; bytes[1] = N; losing = 1; watched = 1;
  element[0] = t_a; direct = t_b & 1; reserve[0] = t_c; NEXT;
  SEEN(BEGIN, 1, t_a, t_b, t_c);
  element[1] = t_a; hasty = (t_b & 2) != 0; reserve[1] = t_c; NEXT
#else
  element[0] = 1; bytes[0] = N; bytes[1] = N;
  if
  :: S[0].patient = 1; S[1].patient = 1; if :: losing = 1 :: element[0] = 2 fi
  :: S[1].patient = 1; if :: bytes[0] = 1; losing = 1 :: skip fi
  :: S[1].patient = 1; direct = 1; element[0] = 2
  :: S[1].patient = 1; hasty = 1; bytes[0] = 1; if :: losing = 1 :: skip fi
  :: S[0].patient = 1; hasty = 1; bytes[0] = 1
  :: bytes[1] = 1; if :: direct = 1; watched = 1 :: skip fi
  fi;
  element[1] = element[0]
#endif
}

active [2] proctype side() {
  COUNT producer = 0, consumer = 0, count = 0;
  byte flags = 0;
  bit met = 0, mark = 0;
#define me _pid
#define other (1 - _pid)
  if
  :: atomic { me == 0 -> TRACE_BEGIN; SEEN(BEGIN, 0, t_a, t_b, t_c) -> choose(); ready = 1 }
  :: ready
  fi;
  do
  /* The application. */
  :: atomic { !S[me].gone && MAY_WRITE(me) && SEEN(WRITE, me, t_a, 0, 0) ->
       S[me].taken = S[me].taken + AMOUNT;
       if
       :: direct -> assert(!REUSED(other)); S[me].produced = S[me].taken
       :: else -> skip
       fi;
       NEXT }
  :: atomic { !S[me].gone && MAY_WRITE(me) && (S[me].urgent_byte == 0 || N > 2) && SEEN(WRITE, me, t_a, 1, 0) ->
       S[me].taken = S[me].taken + AMOUNT;
       S[me].urgent_at = S[me].taken;
       S[me].urgent_byte = S[me].taken;
       S[me].urgent_due = 1;
       if
       :: direct -> assert(!REUSED(other)); S[me].produced = S[me].taken
       :: else -> skip
       fi;
       NEXT }
  :: atomic { !S[me].gone && !S[me].data_ended &&
         (!S[me].patient || S[me].taken == bytes[me] || S[me].peer_closed || RESET(me)) && SEEN(FINISH, me, 0, 0, 0) ->
       S[me].data_ended = 1; NEXT }
  :: atomic { !S[me].gone && ((S[me].data_ended && S[me].got_fin) || (CLOSES_ALONE(me) && ALL_READ(me))) &&
         SEEN(CLOSE, me, 0, 0, 0) ->
       S[me].data_ended = 1; S[me].close_wanted = 1; S[me].gone = 1; NEXT }
  :: atomic { !S[me].gone && !S[me].patient && SEEN(ABORT, me, 1, 0, 0) ->
       S[me].aborted = 1; abort(me, 1); S[me].gone = 1; NEXT }
  /* Also the end of a wait for the data. */
  :: atomic { !S[me].patient && !S[me].said_aborted && S[me].state != CLOSED &&
         (!S[me].gone || (watched && S[me].close_wanted) || (S[me].abort_wanted && S[me].behind_data)) &&
         !(S[me].abort_wanted && !S[me].behind_data) &&
         SEEN(ABORT, me, 0, 0, 0) ->
       S[me].aborted = 1; S[me].cut = 1; abort(me, 0); S[me].gone = 1; NEXT }
  :: atomic { !S[me].gone && !S[me].dropped && !ALL_READ(me) && SEEN(READ, me, t_a, t_b, 0) ->
       mark = (S[me].mark_at != 0 && S[me].consumed + 1 == S[me].mark_at);
       SEEN(READ, me, t_a, mark, 0);
       count = AMOUNT;
       assert(S[me].consumed + count <= S[me].arrived);
       assert(mark == (S[me].consumed + 1 == S[other].urgent_byte));
#ifdef TRACE
       /* The urgent byte is read alone. */
       count == 1 || S[me].mark_at <= S[me].consumed || S[me].mark_at > S[me].consumed + count;
#endif
       S[me].consumed = S[me].consumed + count;
       begin_grace(me);
       count = 0; mark = 0;
       NEXT }
  :: atomic { !S[me].gone && !S[me].dropped && !S[me].got_fin && FIN_DUE(me) && SEEN(END, me, 1, 0, 0) ->
       assert(S[other].data_ended);
       nothing_is_missing(me);
       S[me].got_fin = 1;
       NEXT }
  :: atomic { !S[me].gone && !S[me].dropped && RESET(me) && ALL_READ(me) && (S[me].got_fin || !FIN_DUE(me)) && SEEN(END, me, 2, 0, 0) ->
       assert(S[other].aborted || group_lost);
       if
       :: !S[other].cut && !group_lost ->
            nothing_is_missing(me);
            assert(S[me].got_fin == S[other].data_ended || hasty)
       :: else -> skip
       fi;
       S[me].gone = 1;
       NEXT }
  /* SmcRelay::drop_from_peer(): what an application that is gone behind its FIN does not read makes room for its peer. */
  :: atomic { MAY_DROP(me) && S[me].state != CLOSED && !S[me].lost && !ALL_READ(me) && SEEN(DROP, me, t_a, 0, 0) ->
       S[me].dropped = 1;
#ifdef TRACE
       S[me].consumed + t_a <= S[me].arrived;
       S[me].consumed = S[me].consumed + t_a;
#else
       S[me].consumed = S[me].arrived;
#endif
       begin_grace(me);
       NEXT }
  /* The connection. */
  :: atomic { MAY_POST(me) && nfull(wire[other]) && SEEN(POST, me, t_a, t_b, t_c) ->
       fill_writes(me);
       fill(me);
       fill_flags(me);
       SEEN(POST, me, S[me].produced, S[me].consumed, flags);
       wire[other] ! S[me].produced, S[me].consumed, flags;
       S[me].announced = S[me].produced;
       S[me].confirmed = S[me].consumed;
       S[me].update_requested = 0;
       if
       :: S[me].mark_at != 0 && S[me].consumed >= S[me].mark_at -> S[me].mark_at = 0
       :: else -> skip
       fi;
       flags = 0;
       NEXT }
  :: atomic { nempty(wire[me]) && SEEN(TAKE, me, t_a, t_b, t_c) ->
       wire[me] ? producer, consumer, flags;
       SEEN(TAKE, me, producer, consumer, flags);
       if
       :: S[me].lost || S[me].state == CLOSED -> skip
       :: else ->
            assert(producer >= S[me].arrived && producer - S[me].confirmed <= element[me]);
            assert(consumer >= S[me].peer_consumed && consumer <= S[me].produced);
            if
            :: producer != S[me].arrived -> S[me].grace = 0
            :: else -> skip
            fi;
            S[me].arrived = producer;
            S[me].peer_consumed = consumer;
            if
            :: consumer >= S[me].urgent_at -> S[me].urgent_at = 0; S[me].urgent_due = 0
            :: else -> skip
            fi;
            S[me].write_blocked = (flags & BLOCKED) != 0;
            if
            :: (flags & PRESENT) && !ALL_READ(me) -> S[me].mark_at = producer
            :: else -> skip
            fi;
            take_state(me)
       fi;
       producer = 0; consumer = 0; flags = 0;
       NEXT }
  :: atomic { S[me].grace && QUIET && !group_lost -> S[me].grace = 0; S[me].write_blocked = 0 }
  :: atomic { HASTY(me) && S[me].data_ended && !S[me].hurried && !DRAINED(me) -> S[me].hurried = 1 }
  :: atomic { (losing || group_lost) && !S[me].lost && SEEN(LOST, me, 0, 0, 0) ->
       group_lost = 1; losing = 0;
       do :: nempty(wire[me]) -> wire[me] ? producer, consumer, flags :: empty(wire[me]) -> break od;
       producer = 0; consumer = 0; flags = 0;
       S[me].lost = 1; S[me].state = CLOSED; S[me].grace = 0; NEXT }
#ifdef TRACE
  /* An application that takes nothing for a second is reset, and loses what is left. */
  :: atomic { !S[me].gone && RESET(me) && !ALL_READ(me) && SEEN(END, me, 2, 1, 0) ->
       S[other].aborted || group_lost;
       S[me].gone = 1;
       NEXT }
  /* An idle connection tells the peer all that was consumed. */
  :: atomic { !S[me].update_requested && UNCONFIRMED(me) > 0 -> S[me].update_requested = 1 }
#endif
  :: atomic { S[me].gone && S[me].state == CLOSED && !S[me].over &&
         (S[me].lost || (!CLOSE_DUE(me) && !ABORT_DUE(me) && !TRANSMIT_DUE(me))) && SEEN(OVER, me, 0, 0, 0) ->
       S[me].over = 1;
       forget(me);
       NEXT;
       break }
  od;
end:
  do
  :: atomic { nempty(wire[me]) && SEEN(TAKE, me, t_a, t_b, t_c) ->
       wire[me] ? producer, consumer, flags;
       SEEN(TAKE, me, producer, consumer, flags);
       producer = 0; consumer = 0; flags = 0;
       NEXT }
  od
}
