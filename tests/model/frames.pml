/* One connection between two proxies that begins in frames over TCP, is handed over to SMC-R or declined to plain TCP,
 * and may return from SMC-R to frames. Side 0 is the client, side 1 the server.
 *
 * Modelled are proxy/smc/frames/deferral.cc and return_to_frames.cc, and of proxy/relay the order in which frames_stage.cc,
 * handshake.cc with both of its roles, smc_relay.cc, smc_return.cc and tcp_relay.cc use them. The TCP stream
 * carries items: frames, CLC messages, and plain bytes. The rings of SMC-R are a queue each way; their own rules are in
 * failover.pml and close.pml. How frames are cut on the way is tested in smc_test.
 *
 * Bounds: up to N bytes each way, one of them urgent; a frame has one byte; FRAMED_MAX bytes each way in frames; one
 * byte in a send ring and RING in an element; DEPTH items under way each way; RETURNS returns to frames. Chosen at the
 * start: how many bytes each application writes; whether one of them ends its data only behind the end of the other;
 * and at most one trouble: an application may reset its stream, or a link group may be lost and memory may fail, at any
 * moment.
 *
 * Assumed: both proxies read TCP whatever their applications do, as the limit of bytes in frames makes possible. A side
 * whose link group is gone notices it, but not always before what the peer says over TCP.
 *
 * Checked: each byte arrives once and in order, and the urgent one as such, across all changes of mode. What is taken
 * was sent in the mode in which it is taken: a frame is never read as plain bytes, nor the other way round. No hand-
 * over follows the client's end, and each names the position of the stream. No side gets more bytes in frames than is
 * allowed. An end is given to an application once, behind all bytes. Without trouble there is no reset. None waits
 * without end: at last both sides have ended in order, or both were reset.
 *
 * What a trace shows (trace.inc), by kind, with three values each:
 *   1 send, 2 take   an item of the TCP stream: its type, its value, its bytes
 *   3 put, 4 get     in a ring: its type (1 data, 2 urgent data, 3 end, 7 closed), first position, bytes
 *   5 reset          the application has reset its stream
 *   6 lost           the link group is gone
 *   7 dead           the side was reset
 *   8 over           the side has ended in order
 * Types of items: 1 data, 2 urgent data, 3 end, 4 hand-over, 5 return, 6 returned, as on the wire; 11 Proposal, 12
 * Accept, 13 Confirm, 14 Decline; 21 plain bytes, 22 plain urgent byte, 23 FIN. The value of data is the position of
 * its first byte since the connection began, that of a hand-over or return the number in it, that of a Confirm 1 for a
 * first contact. */
#include "trace.inc"

#ifdef TRACE
#define COUNT int
#define N 1000000000
#define FRAMED_MAX 131072
#define AMOUNT t_c
#define RETURNS 1000000
#define RING 200
#define DEPTH 200
#else
#define COUNT byte
#ifndef N
#define N 3
#endif
#define FRAMED_MAX 2
#define AMOUNT 1
#define RETURNS 1
#define RING 2
#define DEPTH 3
#endif

#define SEND 1
#define TAKE 2
#define PUT 3
#define GET 4
#define APP_RESET 5
#define GROUP_LOST 6
#define NOW_DEAD 7
#define NOW_OVER 8

#define DATA 1
#define URGENT 2
#define ENDED 3
#define HAND_OVER 4
#define RETURN 5
#define RETURNED 6
#define CLOSED 7
#define PROPOSAL 11
#define ACCEPT 12
#define CONFIRM 13
#define DECLINE 14
#define PLAIN 21
#define PLAIN_URGENT 22
#define FIN 23

/* Modes of a side. */
#define FRAMES 0
#define SHAKES 1
#define SMC 2
#define TCP 3
#define OVER 4
#define DEAD 5

/* Where it is in its handshake. */
#define BEGINS 0        /* the client has handed over; the server has to answer that */
#define AWAITS_PEER 1   /* a CLC message; behind a Decline of the client the peer's hand-over */
#define AWAITS_CONFIRM 2
#define AWAITS_LINK 3
#define HAS_DECLINED 4

typedef Side {
  /* The application. */
  COUNT total;       /* bytes that it writes */
  COUNT out;         /* that were read from it */
  COUNT in;          /* that it was given */
  COUNT urgent_byte; /* behind the one that it has written; 0 = none */
  bit waits;         /* ends only behind the peer's end */
  bit got_fin;
  unsigned mode : 3;
  unsigned step : 3;
  /* Deferral::State */
  COUNT sent, received;
  bit sent_end, got_end;
  bit sent_hand_over, got_hand_over;
  /* Plain TCP. */
  bit late_decline;
  /* SMC-R, since the handshake. */
  COUNT held;        /* in the send ring; behind a return, not in frames yet */
  bit held_urgent;   /* the last of them */
  COUNT put, got;
  bit put_end, put_closed, got_closed;
  /* ReturnToFrames */
  bit returning, said_return, said_returned, peer_said_return, peer_has_all;
  COUNT peer_sent;
  bit was_reset;     /* the peer's proxy has reset the TCP connection */
}

Side S[2];
/* To each side: type, value, bytes. */
chan net[2] = [DEPTH] of { byte, COUNT, COUNT };
chan ring[2] = [RING] of { byte, COUNT, COUNT };
chan link[2] = [1] of { bit }; /* CONFIRM_LINK and its answer */
bit ready = 0, resets = 0, losses = 0, trouble = 0, group_lost = 0;
COUNT returns = 0;

#define UNBOUNDED(x) (x == 0 -> S[x].sent_end : S[x].got_end)
#ifdef MUTANT_BOUND_STAYS
#define ROOM(x) (!S[x].sent_end && !S[x].sent_hand_over && S[x].sent < FRAMED_MAX)
#else
#ifdef MUTANT_NO_BOUND
#define ROOM(x) (!S[x].sent_end && !S[x].sent_hand_over)
#else
#define ROOM(x) (!S[x].sent_end && !S[x].sent_hand_over && (UNBOUNDED(x) || S[x].sent < FRAMED_MAX))
#endif
#endif
#ifdef MUTANT_HAND_OVER_BEHIND_THE_END
#define MAY_HAND_OVER(x) (!S[x].sent_hand_over && S[x].held == 0)
#else
#define MAY_HAND_OVER(x) (!S[x].sent_hand_over && S[x].held == 0 && !S[x].sent_end)
#endif
#ifdef TRACE
#define AT_END(x) true
#else
#define AT_END(x) (S[x].out == S[x].total && (!S[x].waits || S[x].got_fin))
#endif
#define IS_FRAME(t) (t <= HAND_OVER)
/* Connection::finished(). Who has said "returned" is awaited in frames, unless the peer has ended the TCP
 * connection. */
#ifdef MUTANT_ENDS_BEHIND_RETURNED
#define FINISHED(x) (S[x].put_closed && S[x].got_closed)
#else
#define FINISHED(x) (S[x].put_closed && S[x].got_closed && \
                     (!S[x].said_returned || (S[1 - x].mode == OVER && len(net[x]) == 0)))
#endif
#define COMPLETE(x) (S[x].said_return && S[x].said_returned && S[x].peer_said_return && S[x].peer_has_all)

/* The side ends in a reset; its peer will see that. */
inline die(x) {
  assert(trouble);
  S[x].mode = DEAD;
  S[1 - x].was_reset = 1;
  forget(x)
}

inline forget(x) {
  S[x].step = 0; S[x].sent = 0; S[x].received = 0; S[x].sent_end = 0; S[x].got_end = 0; S[x].sent_hand_over = 0;
  S[x].got_hand_over = 0; S[x].late_decline = 0; S[x].held = 0; S[x].held_urgent = 0; leave_smc(x)
}

inline leave_smc(x) {
  do :: nempty(ring[x]) -> ring[x] ? type, value, amount :: empty(ring[x]) -> break od;
  do :: nempty(link[x]) -> link[x] ? _ :: empty(link[x]) -> break od;
  type = 0; value = 0; amount = 0;
  S[x].put = 0; S[x].got = 0; S[x].put_closed = 0; S[x].got_closed = 0; S[x].returning = 0;
  S[x].said_return = 0; S[x].said_returned = 0; S[x].peer_said_return = 0; S[x].peer_has_all = 0; S[x].peer_sent = 0;
#ifndef MUTANT_END_SAID_ONCE
  S[x].put_end = 0
#endif
}

/* Bytes for the application. */
inline deliver(x, urgent) {
  assert(value == S[x].in && S[x].in + amount <= S[1 - x].out);
  assert(urgent == (S[x].in + amount == S[1 - x].urgent_byte));
  assert(!S[x].got_fin);
  S[x].in = S[x].in + amount
}

/* The end is given to the application, unless it has that already. */
inline deliver_end(x) {
  assert(S[x].in == S[1 - x].out);
  S[x].got_fin = 1
}

/* Takes the next bytes of the application: as data, or as the one urgent byte. `type` says which. */
inline read_app(x, data, urgent) {
  if
#ifdef TRACE
  :: t_c > 0 && (t_a == data || t_a == urgent) -> type = t_a
#else
  :: type = data
  :: S[x].out + 1 == S[x].total -> type = urgent
#endif
  fi;
  if
  :: type == urgent -> S[x].urgent_byte = S[x].out + AMOUNT
  :: else -> skip
  fi
}

/* Deferral::take() */
inline take_frame(x) {
  assert(IS_FRAME(type));
  if
  :: type == DATA || type == URGENT ->
       assert(!S[x].got_end);
       assert(UNBOUNDED(x) || S[x].received + amount <= FRAMED_MAX);
       S[x].received = (UNBOUNDED(x) -> S[x].received : S[x].received + amount);
       deliver(x, type == URGENT)
  :: type == ENDED ->
       assert(!S[x].got_end);
       S[x].got_end = 1;
       deliver_end(x)
  :: type == HAND_OVER ->
       assert(x == 0 -> S[x].sent_hand_over : !S[x].got_end);
       assert(value == S[x].received);
       S[x].got_hand_over = 1;
       if
       :: x == 1 -> S[x].mode = SHAKES; S[x].step = BEGINS
       :: else -> skip
       fi
  fi
}

inline use_tcp(x, late) {
  S[x].mode = TCP; S[x].step = 0;
  S[x].late_decline = late;
  S[x].sent_end = 0; S[x].got_end = 0; S[x].sent_hand_over = 0; S[x].got_hand_over = 0;
  S[x].sent = 0; S[x].received = 0;
  leave_smc(x)
}

inline use_smc(x) {
  S[x].mode = SMC; S[x].step = 0;
  S[x].sent_end = 0; S[x].got_end = 0; S[x].sent_hand_over = 0; S[x].got_hand_over = 0; S[x].sent = 0; S[x].received = 0
}

/* A CLC message. */
inline take_clc(x) {
  if
  :: type == DECLINE && S[x].step != HAS_DECLINED -> use_tcp(x, 0)
  :: type == PROPOSAL && x == 1 && S[x].step == AWAITS_PEER -> S[x].step = AWAITS_CONFIRM; answer = ACCEPT
  :: type == ACCEPT && x == 0 && S[x].step == AWAITS_PEER -> answer = CONFIRM
  :: type == CONFIRM && x == 1 && S[x].step == AWAITS_CONFIRM ->
       if
       :: value == 1 -> S[x].step = AWAITS_LINK; link[0] ! 1
       :: value == 1 && losses -> answer = DECLINE; trouble = 1
       :: value == 0 && !group_lost -> use_smc(x)
       :: value == 0 && losses -> trouble = 1; die(x)     /* the client's memory cannot be used */
       :: value == 0 && group_lost -> answer = DECLINE
       fi
  :: else -> assert(false)
  fi
}

/* SmcReturn::take(): anything else breaks the connection. */
inline take_return(x) {
  if
  :: type == RETURN && !S[x].peer_said_return ->
       S[x].peer_said_return = 1; S[x].peer_sent = value
  :: type == RETURNED && S[x].peer_said_return && !S[x].peer_has_all && S[x].said_return -> S[x].peer_has_all = 1
  :: else -> die(x)
  fi
}

inline take_plain(x) {
  if
  :: S[x].late_decline && type == DECLINE -> skip
#ifndef MUTANT_RETURN_READ_AS_DATA
  :: S[x].late_decline && type == RETURN -> die(x)
#endif
  :: type == PLAIN || type == PLAIN_URGENT -> deliver(x, type == PLAIN_URGENT)
  :: type == FIN -> deliver_end(x); S[x].got_end = 1
  :: else -> assert(false)
  fi;
  S[x].late_decline = 0
}

inline choose() {
#ifdef TRACE
  S[0].total = N; S[1].total = N; resets = 1; losses = 1; trouble = 1
#else
  S[0].total = N; S[1].total = N;
  if
  :: S[0].total = 1; if :: S[0].waits = 1 :: skip fi
  :: S[1].total = 1; if :: S[1].waits = 1 :: skip fi
  :: S[0].total = 0
  :: skip
  fi;
  if :: resets = 1 :: losses = 1 :: skip fi
#endif
}

active [2] proctype side() {
  byte type = 0, answer = 0; /* a CLC message that has to be sent */
  COUNT value = 0, amount = 0;
#define me _pid
#define other (1 - _pid)
  if
  :: atomic { me == 0 -> choose(); TRACE_BEGIN; ready = 1 }
  :: ready
  fi;
  do
  /* Frames. */
  :: atomic { (S[me].mode == FRAMES || S[me].mode == SHAKES) && S[me].held > 0 && nfull(net[other]) &&
         SEEN(SEND, me, t_a, t_b, t_c) ->
       type = (S[me].held == 1 && S[me].held_urgent -> URGENT : DATA);
       net[other] ! type, S[me].out - S[me].held, 1;
       S[me].held--; S[me].sent++;
       S[me].held_urgent = (S[me].held > 0 -> S[me].held_urgent : 0);
       type = 0;
       NEXT }
  :: atomic { S[me].mode == FRAMES && S[me].held == 0 && ROOM(me) && S[me].out < S[me].total && nfull(net[other]) &&
         SEEN(SEND, me, t_a, S[me].out, t_c) ->
       read_app(me, DATA, URGENT);
       net[other] ! type, S[me].out, AMOUNT;
       S[me].sent = (UNBOUNDED(me) -> S[me].sent : S[me].sent + AMOUNT);
       S[me].out = S[me].out + AMOUNT;
       type = 0;
       NEXT }
  :: atomic { S[me].mode == FRAMES && S[me].held == 0 && ROOM(me) && AT_END(me) && !S[me].put_end &&
         nfull(net[other]) && SEEN(SEND, me, ENDED, 0, 0) ->
       net[other] ! ENDED, 0, 0;
       S[me].sent_end = 1;
       NEXT }
  :: atomic { S[me].mode == FRAMES && me == 0 && MAY_HAND_OVER(me) && nfull(net[other]) &&
         SEEN(SEND, me, HAND_OVER, S[me].sent, 0) ->
       net[other] ! HAND_OVER, S[me].sent, 0;
       S[me].sent_hand_over = 1; S[me].mode = SHAKES; S[me].step = BEGINS;
       NEXT }
  :: atomic { S[me].mode == FRAMES && nempty(net[me]) && !S[me].got_hand_over && SEEN(TAKE, me, t_a, t_b, t_c) ->
       net[me] ? type, value, amount;
       SEEN(TAKE, me, type, value, amount);
       take_frame(me);
       type = 0; value = 0; amount = 0;
       NEXT }
  :: atomic { S[me].mode == FRAMES && S[me].sent_end && S[me].got_end && SEEN(NOW_OVER, me, 0, 0, 0) ->
       S[me].mode = OVER; forget(me); NEXT }
  /* The handshake. Behind its hand-over the client still takes frames, until the server's hand-over has come. */
  :: atomic { S[me].mode == SHAKES && me == 1 && S[me].step == BEGINS && S[me].held == 0 && nfull(net[other]) &&
         SEEN(SEND, me, HAND_OVER, S[me].sent, 0) ->
       net[other] ! HAND_OVER, S[me].sent, 0;
       S[me].sent_hand_over = 1; S[me].step = AWAITS_PEER;
       NEXT }
  :: atomic { S[me].mode == SHAKES && me == 0 && S[me].step == BEGINS && nfull(net[other]) &&
         SEEN(SEND, me, t_a, 0, 0) ->
       if
       :: type = PROPOSAL; S[me].step = AWAITS_PEER
       :: type = DECLINE; S[me].step = HAS_DECLINED
       fi;
       SEEN(SEND, me, type, 0, 0);
       net[other] ! type, 0, 0;
       type = 0;
       NEXT }
#ifdef MUTANT_DOES_NOT_AWAIT_THE_HAND_OVER
  :: atomic { S[me].mode == SHAKES && me == 0 && S[me].step == HAS_DECLINED -> use_tcp(me, 0) }
#else
  :: atomic { S[me].mode == SHAKES && me == 0 && S[me].step == HAS_DECLINED && S[me].got_hand_over -> use_tcp(me, 0) }
#endif
  :: atomic { S[me].mode == SHAKES && (me == 0 || S[me].step != BEGINS) && answer == 0 && nempty(net[me]) &&
         (!S[me].got_hand_over || (S[me].step != HAS_DECLINED && S[me].step != BEGINS)) &&
         !(S[me].step == AWAITS_LINK && net[me] ? [RETURN, _, _]) &&
         SEEN(TAKE, me, t_a, t_b, t_c) ->
       net[me] ? type, value, amount;
       SEEN(TAKE, me, type, value, amount);
       if
       :: !S[me].got_hand_over -> take_frame(me)
       :: else -> take_clc(me)
       fi;
       type = 0; value = 0; amount = 0;
       NEXT }
  :: atomic { S[me].mode == SHAKES && answer == ACCEPT && nfull(net[other]) && SEEN(SEND, me, t_a, 0, 0) ->
       if
       :: type = ACCEPT
       :: type = DECLINE; use_tcp(me, 0); type = DECLINE
       fi;
       SEEN(SEND, me, type, 0, 0);
       net[other] ! type, 0, 0;
       answer = 0; type = 0;
       NEXT }
  :: atomic { S[me].mode == SHAKES && answer == CONFIRM && nfull(net[other]) && SEEN(SEND, me, t_a, t_b, 0) ->
       if
       :: type = CONFIRM; value = 1; S[me].step = AWAITS_LINK
       :: type = CONFIRM; use_smc(me)
       :: use_tcp(me, 0); type = DECLINE
       fi;
       SEEN(SEND, me, type, value, 0);
       net[other] ! type, value, 0;
       answer = 0; type = 0; value = 0;
       NEXT }
  /* A Decline while the peer may have declined too, or may have begun over SMC-R. */
  :: atomic { S[me].mode == SHAKES && (answer == DECLINE || (S[me].step == AWAITS_LINK && group_lost)) &&
         nfull(net[other]) && SEEN(SEND, me, DECLINE, 0, 0) ->
       answer = 0;
       if
       :: net[me] ? [RETURN, _, _] -> die(me)
       :: else ->
            net[other] ! DECLINE, 0, 0;
#ifdef MUTANT_NO_LATE_DECLINE
            use_tcp(me, 0)
#else
            use_tcp(me, 1)
#endif
       fi;
       NEXT }
  :: atomic { S[me].mode == SHAKES && S[me].step == AWAITS_LINK && !group_lost && nempty(link[me]) ->
       link[me] ? _;
       if
       :: me == 0 -> link[1] ! 1;
            if
            :: use_smc(me)
            :: losses -> trouble = 1; answer = DECLINE /* the server's memory cannot be used */
            fi
       :: else -> use_smc(me)
       fi }
  /* SMC-R. */
#ifndef TRACE
  :: atomic { S[me].mode == SMC && !S[me].returning && S[me].out < S[me].total && S[me].held == 0 ->
       read_app(me, DATA, URGENT);
       S[me].held_urgent = (type == URGENT);
       S[me].held = 1; S[me].out = S[me].out + 1;
       type = 0 }
  :: atomic { S[me].mode == SMC && S[me].held > 0 && !S[me].said_return && nfull(ring[other]) ->
       type = (S[me].held_urgent -> URGENT : DATA);
       ring[other] ! type, S[me].out - 1, 1;
       S[me].held = 0; S[me].held_urgent = 0; S[me].put++;
       type = 0 }
#else
  :: atomic { S[me].mode == SMC && !S[me].said_return && nfull(ring[other]) && t_a <= URGENT &&
         SEEN(PUT, me, t_a, S[me].out, t_c) ->
       read_app(me, DATA, URGENT);
       ring[other] ! type, S[me].out, t_c;
       S[me].put = S[me].put + t_c; S[me].out = S[me].out + t_c;
       type = 0;
       NEXT }
#endif
  :: atomic { S[me].mode == SMC && AT_END(me) && S[me].held == 0 && !S[me].put_end && !S[me].said_returned &&
         nfull(ring[other]) && SEEN(PUT, me, ENDED, 0, 0) ->
       ring[other] ! ENDED, 0, 0; S[me].put_end = 1; NEXT }
  :: atomic { S[me].mode == SMC && S[me].put_end && S[me].got_fin && !S[me].put_closed && !S[me].returning &&
         nfull(ring[other]) && SEEN(PUT, me, CLOSED, 0, 0) ->
       ring[other] ! CLOSED, 0, 0; S[me].put_closed = 1; NEXT }
  :: atomic { S[me].mode == SMC && nempty(ring[me]) && SEEN(GET, me, t_a, t_b, t_c) ->
       ring[me] ? type, value, amount;
       SEEN(GET, me, type, value, amount);
       if
       :: type == CLOSED -> S[me].got_closed = 1
       :: type == ENDED ->
            if
            :: !S[me].returning -> deliver_end(me)
            :: else -> skip
            fi
       :: else -> deliver(me, type == URGENT); S[me].got = S[me].got + amount
       fi;
       type = 0; value = 0; amount = 0;
       NEXT }
  :: atomic { S[me].mode == SMC && FINISHED(me) && SEEN(NOW_OVER, me, 0, 0, 0) -> S[me].mode = OVER; forget(me); NEXT }
  /* The return. */
  :: atomic { S[me].mode == SMC && !S[me].returning && !FINISHED(me) && (returns < RETURNS || S[me].peer_said_return) &&
         SEEN(SEND, me, RETURN, t_b, 0) ->
       returns = (S[me].peer_said_return -> returns : returns + 1);
       S[me].returning = 1 }
  :: atomic { S[me].mode == SMC && S[me].returning && !S[me].said_return && nfull(net[other]) &&
         SEEN(SEND, me, RETURN, S[me].put, 0) ->
       net[other] ! RETURN, S[me].put, 0; S[me].said_return = 1; NEXT }
  :: atomic { S[me].mode == SMC && S[me].said_return && !S[me].said_returned && S[me].peer_said_return &&
#ifndef MUTANT_RETURNED_BEFORE_ALL
         S[me].got == S[me].peer_sent &&
#endif
         nfull(net[other]) && SEEN(SEND, me, RETURNED, 0, 0) ->
       net[other] ! RETURNED, 0, 0; S[me].said_returned = 1; NEXT }
  :: atomic { S[me].mode == SMC && nempty(net[me]) && !S[me].peer_has_all && SEEN(TAKE, me, t_a, t_b, t_c) ->
       net[me] ? type, value, amount;
       SEEN(TAKE, me, type, value, amount);
       take_return(me);
       type = 0; value = 0; amount = 0;
       NEXT }
  :: atomic { S[me].mode == SMC && COMPLETE(me) ->
#ifdef MUTANT_UNWRITTEN_LOST
       S[me].held = 0; S[me].held_urgent = 0;
#endif
       S[me].mode = FRAMES; leave_smc(me) }
  /* Plain TCP. */
  :: atomic { S[me].mode == TCP && S[me].out < S[me].total && !S[me].sent_end && nfull(net[other]) &&
         SEEN(SEND, me, t_a, S[me].out, t_c) ->
       read_app(me, PLAIN, PLAIN_URGENT);
       net[other] ! type, S[me].out, AMOUNT;
       S[me].out = S[me].out + AMOUNT;
       type = 0;
       NEXT }
  :: atomic { S[me].mode == TCP && AT_END(me) && !S[me].sent_end && nfull(net[other]) && SEEN(SEND, me, FIN, 0, 0) ->
       net[other] ! FIN, 0, 0; S[me].sent_end = 1; NEXT }
  :: atomic { S[me].mode == TCP && nempty(net[me]) && SEEN(TAKE, me, t_a, t_b, t_c) ->
       net[me] ? type, value, amount;
       SEEN(TAKE, me, type, value, amount);
       take_plain(me);
       type = 0; value = 0; amount = 0;
       NEXT }
  :: atomic { S[me].mode == TCP && S[me].sent_end && S[me].got_end && SEEN(NOW_OVER, me, 0, 0, 0) ->
       S[me].mode = OVER; forget(me); NEXT }
  /* Trouble. */
  :: atomic { resets && S[me].mode < OVER && SEEN(APP_RESET, me, 0, 0, 0) -> trouble = 1; die(me); NEXT }
  :: atomic { losses && !group_lost && me == 0 && (S[0].mode == SHAKES || S[0].mode == SMC || S[1].mode == SMC) &&
         SEEN(GROUP_LOST, 0, 0, 0, 0) ->
       trouble = 1; group_lost = 1; NEXT }
  :: atomic { S[me].mode == SMC && group_lost && !S[me].said_returned && SEEN(NOW_DEAD, me, 0, 0, 0) -> die(me); NEXT }
  :: atomic { S[me].mode < OVER && S[me].was_reset && SEEN(NOW_DEAD, me, 0, 0, 0) -> die(me); NEXT }
  /* The peer's proxy has closed, and the end that is awaited did not come. In SMC-R it comes in the ring. */
  :: atomic { S[me].mode < OVER && S[me].mode != SMC && S[other].mode == OVER && empty(net[me]) && !S[me].got_end &&
         SEEN(NOW_DEAD, me, 0, 0, 0) -> die(me); NEXT }
  :: S[me].mode >= OVER -> break
  od;
  answer = 0;
  assert(S[me].mode == DEAD || S[me].got_fin);
end:
  do
  :: atomic { nempty(net[me]) && SEEN(TAKE, me, t_a, t_b, t_c) ->
       net[me] ? type, value, amount; SEEN(TAKE, me, type, value, amount); type = 0; value = 0; amount = 0; NEXT }
  :: atomic { nempty(ring[me]) && SEEN(GET, me, t_a, t_b, t_c) ->
       ring[me] ? type, value, amount; SEEN(GET, me, type, value, amount); type = 0; value = 0; amount = 0; NEXT }
  :: atomic { nempty(link[me]) -> link[me] ? _ }
  od
}
