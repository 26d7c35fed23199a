/* The links of one group, and the LLC flows that add, delete and replace them: a server and a client, both as
 * proxy/smc/group/link_group.cc does it with add_link_flow.cc, delete_link_flow.h, pending_flows.h and termination.cc. The
 * group begins with the CONFIRM_LINK of the first contact. The messages are those of version 2.
 *
 * At any moment, within the bounds below: a side sees a link fail; the client asks for a link, or a port of the server
 * comes up; the server deletes a link that it does not need; a side has an RMB to announce; a side ends the group. At
 * any ADD_LINK a side may have no port for the link. A link delivers in order. It fails for each side when that side
 * sees it; what the side has not taken by then is lost. A side sees at last that the other end of an active link is
 * gone, and possibly that of a link which is being added. The owner does its tasks at once (Group::perform_tasks()), so
 * that no task waits between two steps.
 *
 * A wait runs out when nothing is under way any more, and LATE times although the answer is under way. After the end of
 * the group the owner waits for the peer's end without limit, unless a link failed or a message was lost.
 *
 * Checked:
 * - Each wait ends: when nothing new begins, both sides come to rest without a flow, a guard or a message under way.
 * - At rest both sides have the same active links by number, or both have ended.
 * - No wait runs out but for a late or lost answer, or after the peer's end.
 * - No link is used after its deletion or deleted twice, no number is used for two links, no side has too many links.
 * - A side sends what its role and state allow, and on a link that the peer has made. ADD_LINK and DELETE_LINK travel
 *   on an active link. The server begins no ADD_LINK before the client knows of each lost link.
 * - REQ_ADD_LINK is answered unless it, or the answer, was lost with a link.
 * - Without a failure both sides see the end of the other, and no owner waits in vain.
 *
 * Left out: continuations (ADD_LINK_CONT, CONFIRM_RKEY_CONT) and version 1; which keys the peer knows on which link;
 * TEST_LINK; asymmetric links, but for their deletion; numbers that wrap. CONFIRM_RKEY and its answers stand for
 * DELETE_RKEY too: one flow of a request and an answer.
 *
 * Lines of a trace: kind, side (0 client, 1 server), link number, message, link number that the message names or 0.
 *
 *   0  AGREED      the first line, of side 0: the number of links agreed on stands for the link; 0 0 follow
 *   1  POSTED      the side has posted the message on the link
 *   2  TAKEN       the side has handled the message from the link, also after the end of its group
 *   3  CLOSED      the side gives up its end of the link, which has failed for it or is deleted; 0 0 follow
 *
 * Messages have the numbers below. CONFIRM_LINK names its link. DELETE_LINK of all links, REQ_ADD_LINK, CONFIRM_RKEY,
 * DELETE_RKEY and their answers name 0. A refusal of an RMB is 15 if it asks for a repetition, otherwise 14. A message
 * that was queued for a link which failed before it was posted does not appear, nor does one that came over a link
 * which its side has closed. That a side ends the group shows in what it posts. */
#include "trace.inc"

#define CLIENT 0
#define SERVER 1

#ifdef TRACE
#define SLOTS 32
#define DEPTH 16
#define RETRIES 3
#define KEY_RETRIES 4
#define LEFT(budget) true
#define SPEND(budget) skip
#define SPEND_LATE skip
/* One link more may be added, to replace an asymmetric one. The model does not know which links are that. */
#define LINKS_MOST (links_max + 1)
#define GUARD int
#define ROOM(count) (count < LINKS_MOST)
#define NO_ROOM(count) (count >= links_max)
#else
#ifndef LINKS_MAX
#define LINKS_MAX 3
#endif
#ifndef SLOTS
#define SLOTS 4      /* link numbers: the first link, and three additions */
#endif
#ifndef LOSSES
#define LOSSES 2     /* links that fail */
#endif
#ifndef WISHES
#define WISHES 1     /* REQ_ADD_LINK of the client, or a port of the server that comes up */
#endif
#ifndef DELETIONS
#define DELETIONS 1  /* of a link that the server does not need */
#endif
#ifndef KEYS
#define KEYS 1       /* RMBs to announce */
#endif
#ifndef RETRIES
#define RETRIES 0    /* of an ADD_LINK without an answer; a port of the server has the same effect */
#endif
#ifndef EVENTS
#define EVENTS 3     /* losses, wishes, deletions and RMBs together */
#endif
#ifndef LATE
#define LATE 1       /* waits that run out although the answer is still under way */
#endif
#define KEY_RETRIES 1
#define DEPTH 10
#define LEFT(budget) (events != 0 && budget != 0)
#define SPEND(budget) budget--; events--
#define SPEND_LATE late_left--
#define links_max LINKS_MAX
#define GUARD byte
#define LINKS_MOST LINKS_MAX
#define ROOM(count) (count < LINKS_MAX)
#define NO_ROOM(count) else
#endif

/* Kinds of lines in a trace. */
#define AGREED 0
#define POSTED 1
#define TAKEN 2
#define CLOSED 3

/* Messages. */
#define CONFIRM_LINK 1
#define CONFIRM_LINK_ANSWER 2
#define ADD_LINK 3
#define ADD_LINK_ANSWER 4
#define ADD_LINK_REJECTED 5
#define DELETE_LINK 6
#define DELETE_LINK_DONE 7
#define DELETE_LINK_UNKNOWN 8
#define DELETE_ALL_ORDERLY 9
#define DELETE_ALL 10
#define REQ_ADD_LINK 11
#define REQ_ADD_LINK_REJECTED 12
#define CONFIRM_RKEY 13
#define CONFIRM_RKEY_ANSWER 14
#define CONFIRM_RKEY_AGAIN 15

/* States of one end of a link. */
#define NONE 0
#define ACTIVATING 1
#define ACTIVE 2
#define GONE 3       /* was active */
#define GIVEN_UP 4   /* was not */

/* Flows, and what they wait for. */
#define IDLE 0
#define ADD_ANSWER 1
#define ADD_CONFIRM 2
#define DELETING 3
#define ANNOUNCING 4

/* States of the group at one side. */
#define FORMING 0
#define USABLE 1
#define ENDED 2

#ifdef TRACE
byte links_max = 1;
byte number[SLOTS];  /* of the link that a slot holds */
#define SLOT(n) ((n) % SLOTS)
#define NUMBER(slot) number[slot]
#define STATE(side, n) ((n) != 0 && number[SLOT(n)] == (n) -> ends[(side) * SLOTS + SLOT(n)] : NONE)
#define HEAD(queue) queue ? [eval(t_b), eval(t_c)]
bool closed[2 * SLOTS];  /* the trace has shown that the end of the link went */
chan out[2] = [8] of { byte, byte, byte };  /* queued by a side and not yet posted: link, message, link named */
#define QUEUED (len(out[0]) + len(out[1]) != 0)
#else
#define SLOT(n) ((n) - 1)
#define NUMBER(slot) ((slot) + 1)
#define STATE(side, n) ends[(side) * SLOTS + SLOT(n)]
#define HEAD(queue) nempty(queue)
#define QUEUED false
#endif
#define END(side, n) ends[(side) * SLOTS + SLOT(n)]
#define LIVING(side, n) (STATE(side, n) == ACTIVATING || STATE(side, n) == ACTIVE)
#define WIRE(side, n) wire[(side) * SLOTS + SLOT(n)]
#define OTHER(side) (1 - (side))
#define GUARDED(n) ((guard & (1 << SLOT(n))) != 0)
#define BEGIN_GUARD(n) guard = guard | (1 << SLOT(n))
#define END_GUARD(n) guard = guard & ~(1 << SLOT(n))

chan wire[2 * SLOTS] = [DEPTH] of { byte, byte };  /* to a side on a link: message, link named */
byte ends[2 * SLOTS];

byte group[2] = FORMING;
bool peer_ended[2] = false;   /* Termination::peer_terminated() */
byte flow[2] = IDLE;
byte flow_link[2] = 0;
byte carrier[2] = 0;
byte unwanted[2] = 0;         /* Link::deletion() */
bool key_due[2] = false;      /* an RMB to announce */
bool key_waits[2] = false;    /* announce_again() */
byte key_retries[2] = KEY_RETRIES;

/* Of the server. */
byte last_number = 1;
bool wanted = false;          /* PendingFlows::link_wanted() */
bool again = false;           /* link_again() */
byte retries = 0;
GUARD guard = 0;              /* LinkLossGuard: a set of numbers */
byte asked_on = 0;            /* req_add_link_from_ */
bool repeat_due = true;       /* Link::confirm_again() of the link that is activating */

/* Of the client: the request that waits. */
byte request = 0;
byte request_on = 0;

/* What may still happen. */
#ifndef TRACE
byte events = EVENTS, losses = LOSSES, late_left = LATE, wishes = WISHES, deletions = DELETIONS, keys = KEYS;
#endif
bool calm = false;            /* nothing begins any more but what has to */

/* For assertions. */
bool damaged = false;         /* one side has seen a link fail */
bool lossy = false;           /* a message was lost with its link */
bool late = false;            /* a wait has run out before its answer came */
bool unanswered = false;      /* a REQ_ADD_LINK */
/* For use within one step. `over`: the link of a message or a loss. `to`: a link that is found. */
byte what = 0, over = 0, message = 0, named = 0, slot = 0, to = 0, count = 0, gone = 0, queued = 0;
byte lost_message = 0, lost_named = 0;
bool was_active = false;

inline end_step() {
  d_step {
    what = 0; over = 0; message = 0; named = 0; slot = 0; to = 0; count = 0; gone = 0; queued = 0;
    lost_message = 0; lost_named = 0; was_active = false
  }
}

/* Steps of a side. */
#define TAKE 1
#define LOSE 2
#define FLOW_TIMEOUT 3
#define GUARD_TIMEOUT 4
#define RETRY 5
#define KEY_RETRY 6
#define REPEAT 7
#define WISH 8
#define UNWANT 9
#define NEED_KEY 10
#define TERMINATE 11
#define DESTROY 12
#define POST 13
#define CLOSE 14

/* Links of one side. */

inline find_oldest(side, except) {
  d_step {
    to = 0;
    slot = 0;
    do
    :: slot < SLOTS ->
         if
         :: ends[(side) * SLOTS + slot] == ACTIVE && NUMBER(slot) != except && (to == 0 || NUMBER(slot) < to) ->
              to = NUMBER(slot)
         :: else -> skip
         fi;
         slot++
    :: else -> break
    od
  }
}

/* LinkSet::any() */
inline find_any(side) {
  find_oldest(side, 0);
  d_step {
    slot = 0;
    do
    :: slot < SLOTS && to == 0 ->
         if
         :: ends[(side) * SLOTS + slot] == ACTIVATING -> to = NUMBER(slot)
         :: else -> skip
         fi;
         slot++
    :: else -> break
    od
  }
}

inline count_links(side, activating_too) {
  d_step {
    count = 0;
    slot = 0;
    do
    :: slot < SLOTS ->
         if
         :: ends[(side) * SLOTS + slot] == ACTIVE ||
              (activating_too && ends[(side) * SLOTS + slot] == ACTIVATING) -> count++
         :: else -> skip
         fi;
         slot++
    :: else -> break
    od
  }
}

/* The messages. */

inline lose_message(which) {
  lossy = true;
  if
  :: which == REQ_ADD_LINK || which == REQ_ADD_LINK_REJECTED || which == ADD_LINK -> unanswered = false
  :: else -> skip
  fi
}

inline carry(side, on, which, names) {
  assert(STATE(OTHER(side), on) != NONE); /* the peer has made its end before anything is sent there */
  if
#ifndef TRACE
  :: group[OTHER(side)] == ENDED && which != DELETE_ALL && which != DELETE_ALL_ORDERLY -> skip /* has no effect there */
#endif
  :: else ->
       if
       :: LIVING(OTHER(side), on) ->
            assert(nfull(WIRE(OTHER(side), on)));
            WIRE(OTHER(side), on) ! which, names
       :: else -> lose_message(which)
       fi
  fi
}

#ifdef TRACE
/* A message that a side sends waits in a queue of the side (LinkGroupOutput), and is posted later. For the peer that is
 * the same as a message that is longer under way. A trace, however, shows what the side takes in between. */
byte due = 0, sender = 0, sent_on = 0, sent = 0, sent_names = 0;
c_code {
  /* Of a message that a side queues: 1, the trace has it next, behind those which wait; 2, it is never posted, as its
   * link goes first; 0, neither. An ADD_LINK that is never posted has used up a number which the trace leaves out. */
  static int fate(void) {
    int behind = q_len(now.out[now.sender]), gone_first = 1, i;
    for (i = now.t_at; i < trace_length; ++i) {
      const int *line = trace_lines[i];
      if (line[0] != POSTED || line[1] != now.sender || behind-- > 0) continue;
      if (behind == -1 && line[2] == now.sent_on && line[3] == now.sent && line[4] == now.sent_names) return 1;
      if (line[2] == now.sent_on) gone_first = 0;
      if (now.sent == ADD_LINK && line[3] == now.sent) return line[4] != now.sent_names && gone_first ? 2 : 0;
    }
    return now.sent != ADD_LINK && now.sent != REQ_ADD_LINK && gone_first ? 2 : 0;
  }
};
inline send(side, on, which, names) {
  sender = side; sent_on = on; sent = which; sent_names = names;
  c_code { now.due = fate(); };
  if
  :: due == 1 -> out[side] ! on, which, names
  :: due == 2 -> lose_message(which)
  fi;
  due = 0; sender = 0; sent_on = 0; sent = 0; sent_names = 0
}
#else
#define send(side, on, which, names) carry(side, on, which, names)
#endif

inline post(side, on, which, names) {
  assert(LIVING(side, on));
  assert(which != CONFIRM_LINK && which != ADD_LINK && which != REQ_ADD_LINK_REJECTED || side == SERVER);
  assert(which != ADD_LINK && which != DELETE_LINK || STATE(side, on) == ACTIVE);
  assert(group[side] != ENDED);
  send(side, on, which, names)
}

/* One end of a link goes: what was under way to it is lost. */
inline close_end(side, n) {
  d_step {
    queued = 0;
    if
    :: END(side, n) == ACTIVE -> END(side, n) = GONE
    :: else -> END(side, n) = GIVEN_UP
    fi;
    do
    :: WIRE(side, n) ? lost_message, lost_named -> lose_message(lost_message)
    :: empty(WIRE(side, n)) -> break
    od;
#ifdef TRACE
    queued = len(out[side]);
    do
    :: queued > 0 ->
         out[side] ? slot, lost_message, lost_named;
         if
         :: slot == n -> lose_message(lost_message)
         :: else -> out[side] ! slot, lost_message, lost_named
         fi;
         queued--
    :: else -> break
    od;
#endif
    if
    :: unwanted[side] == n -> unwanted[side] = 0
    :: else -> skip
    fi
  }
}

inline want_link() {
  wanted = true;
  retries = RETRIES
}

inline end_flow(side) {
  flow[side] = IDLE;
  flow_link[side] = 0;
  carrier[side] = 0;
  if
  :: side == SERVER -> repeat_due = false
  :: else -> skip
  fi
}

/* What a side takes after the end of the group has no effect, but for the peer's end. */
inline forget_messages(side) {
  d_step {
    slot = 0;
    do
    :: slot < SLOTS ->
         queued = len(wire[(side) * SLOTS + slot]);
         do
         :: queued > 0 ->
              wire[(side) * SLOTS + slot] ? lost_message, lost_named;
              if
              :: lost_message == DELETE_ALL || lost_message == DELETE_ALL_ORDERLY ->
                   wire[(side) * SLOTS + slot] ! lost_message, lost_named
              :: else -> skip
              fi;
              queued--
         :: else -> break
         od;
         slot++
    :: else -> break
    od
  }
}

/* LinkGroup::end() */
inline end_group(side) {
  group[side] = ENDED;
  end_flow(side);
#ifndef TRACE
  forget_messages(side);
#endif
  unwanted[side] = 0; key_due[side] = false; key_waits[side] = false; key_retries[side] = 0;
  if
  :: side == SERVER -> wanted = false; again = false; retries = 0; guard = 0; asked_on = 0
  :: else -> request = 0; request_on = 0; unanswered = false
  fi
}

/* LinkGroup::take_down() and end_flow_of(). Another link is active. */
inline take_down(side, n) {
  assert(LIVING(side, n)); /* no link is deleted twice */
  close_end(side, n);
  if
#ifndef MUTANT_FLOW_OUTLIVES_CARRIER
  :: (flow[side] == ADD_ANSWER || flow[side] == ADD_CONFIRM) && carrier[side] == n ->
       close_end(side, flow_link[side]);
       end_flow(side);
       if
       :: side == SERVER -> want_link()
       :: else -> skip
       fi
#endif
  :: (flow[side] == ADD_ANSWER || flow[side] == ADD_CONFIRM) && flow_link[side] == n -> end_flow(side)
  :: flow[side] == DELETING && (flow_link[side] == n || carrier[side] == n) -> end_flow(side)
  :: flow[side] == ANNOUNCING && carrier[side] == n -> end_flow(side)
  :: else -> skip
  fi
}

/* LinkGroup::lose() */
inline lose(side, n, failed) {
  find_oldest(side, n);
  gone = n;
  if
  :: to == 0 -> close_end(side, gone); end_group(side)
  :: else ->
       was_active = (STATE(side, gone) == ACTIVE);
       take_down(side, gone);
       if
#ifdef MUTANT_USED_AFTER_DELETION
       :: failed -> post(side, gone, DELETE_LINK, gone)
#else
#ifndef MUTANT_LOSS_NOT_TOLD
       :: failed -> find_oldest(side, gone); post(side, to, DELETE_LINK, gone)
#endif
#endif
       :: else -> skip
       fi;
       if
       :: side == SERVER && was_active ->
#ifndef MUTANT_NO_LOSS_GUARD
            BEGIN_GUARD(gone);
#endif
            want_link()
       :: else -> skip
       fi
  fi
}

/* AddLinkFlow::fail(). `told`: the peer has heard of the link. */
inline fail_add(side, told) {
  close_end(side, flow_link[side]);
  if
  :: told ->
#ifndef MUTANT_PROMISE_FORGOTTEN
       post(side, carrier[side], DELETE_LINK, flow_link[side])
#else
       skip
#endif
  :: else -> skip
  fi;
  end_flow(side)
}

/* LinkGroup::reject_req_add_link() */
inline reject_wish() {
  if
  :: asked_on != 0 ->
       if
       :: STATE(SERVER, asked_on) == ACTIVE -> to = asked_on
       :: else -> find_any(SERVER)
       fi;
       asked_on = 0;
       post(SERVER, to, REQ_ADD_LINK_REJECTED, 0)
  :: else -> skip
  fi
}

/* LinkGroup::answer_add_link(). The client may have no port for the link. */
inline answer_add_link(on, n) {
  count_links(CLIENT, true);
  if
#ifdef MUTANT_NO_LIMIT
  :: !LIVING(CLIENT, n) ->
#else
  :: !LIVING(CLIENT, n) && ROOM(count) ->
#endif
#ifdef TRACE
       number[SLOT(n)] = n;
#endif
       END(CLIENT, n) = ACTIVATING;
       flow[CLIENT] = ADD_CONFIRM; flow_link[CLIENT] = n; carrier[CLIENT] = on;
       count_links(CLIENT, true);
       assert(count <= LINKS_MOST);
       post(CLIENT, on, ADD_LINK_ANSWER, n)
  :: post(CLIENT, on, ADD_LINK_REJECTED, n)
  fi
}

/* A link of the server's, or the first way to go without one. */
inline begin_add(on) {
  if
#ifdef TRACE
  :: true ->
       last_number = (last_number == 255 -> 1 : last_number + 1);
       number[SLOT(last_number)] = last_number;
#else
#ifdef MUTANT_NUMBER_REUSED
  :: last_number < SLOTS || !LIVING(SERVER, last_number) ->
       last_number = (LIVING(SERVER, last_number) -> last_number + 1 : last_number);
#else
  :: last_number < SLOTS ->
       last_number++;
#endif
       assert(STATE(SERVER, last_number) == NONE && STATE(CLIENT, last_number) == NONE);
#endif
       END(SERVER, last_number) = ACTIVATING;
#ifdef TRACE
       END(CLIENT, last_number) = NONE;
       closed[CLIENT * SLOTS + SLOT(last_number)] = false;
       closed[SERVER * SLOTS + SLOT(last_number)] = false;
#endif
       flow[SERVER] = ADD_ANSWER; flow_link[SERVER] = last_number; carrier[SERVER] = on;
       count_links(SERVER, true);
       assert(count <= LINKS_MOST);
       asked_on = 0;
       /* The client knows of each link that was lost, unless its answer was late or lost. */
       slot = 0;
       do
       :: slot < SLOTS ->
            assert(late || lossy || group[CLIENT] == ENDED ||
                   !(ends[SERVER * SLOTS + slot] == GONE && ends[CLIENT * SLOTS + slot] == ACTIVE));
            slot++
       :: else -> break
       od;
       post(SERVER, on, ADD_LINK, last_number)
  :: true -> reject_wish()
  fi
}

/* An active link. Which one depends on the order of the indices, which the model does not have. */
inline pick_active(side) {
  find_oldest(side, 0);
  slot = 0;
  do
  :: slot < SLOTS ->
       if
       :: ends[(side) * SLOTS + slot] == ACTIVE && NUMBER(slot) != to -> to = NUMBER(slot)
       :: skip
       fi;
       slot++
  :: else -> break
  od
}

inline begin_announcement(side) {
  pick_active(side);
  flow[side] = ANNOUNCING; carrier[side] = to;
  post(side, to, CONFIRM_RKEY, 0)
}

/* A link that the server does not need is deleted: it has become asymmetric, or by LinkGroup::delete_link(). */
inline want_deletion(side) {
  pick_active(side);
  unwanted[side] = to;
  find_oldest(side, unwanted[side]);
  if
  :: to == 0 -> unwanted[side] = 0
  :: else -> skip
  fi
}

/* LinkGroup::start_next_flow() */
inline start_next_flow(side) {
  if
  :: group[side] == USABLE && flow[side] == IDLE && (side == CLIENT || guard == 0) ->
#ifdef TRACE
       /* Also in the step that makes a link asymmetric, before another flow begins. */
       if
       :: side == SERVER && unwanted[side] == 0 -> want_deletion(side)
       :: skip
       fi;
#endif
       if
       :: unwanted[side] != 0 ->
            find_oldest(side, unwanted[side]);
            if
            :: to == 0 -> unwanted[side] = 0
            :: else ->
                 flow[side] = DELETING; flow_link[side] = unwanted[side]; carrier[side] = to;
                 post(side, to, DELETE_LINK, flow_link[side])
            fi
       :: else -> skip
       fi;
       if
       :: flow[side] == IDLE && side == CLIENT && request != 0 ->
            over = request_on; named = request;
            request = 0; request_on = 0;
            if
            :: STATE(CLIENT, over) == ACTIVE -> answer_add_link(over, named)
            :: else -> skip
            fi
       :: flow[side] == IDLE && side == SERVER && wanted ->
            wanted = false;
            again = false;
            count_links(SERVER, true);
            if
#ifdef MUTANT_NO_LIMIT
            :: true ->
#else
            :: ROOM(count) ->
#endif
                 find_oldest(SERVER, 0); over = to; begin_add(over)
            :: NO_ROOM(count) ->
#ifndef MUTANT_WISH_FORGOTTEN
                 reject_wish()
#else
                 asked_on = 0
#endif
            fi
       :: else -> skip
       fi;
       if
       :: flow[side] == IDLE && key_due[side] && !key_waits[side] -> begin_announcement(side)
       :: else -> skip
       fi
  :: else -> skip
  fi
}

inline finish_announcement(side) {
  key_due[side] = false;
  key_retries[side] = KEY_RETRIES;
  end_flow(side)
}

/* LinkGroup::handle_llc() */
inline take(side) {
  if
  :: group[side] == ENDED -> /* Termination::take_later() */
       if
       :: message == DELETE_ALL -> peer_ended[side] = true
       :: message == DELETE_ALL_ORDERLY && side == SERVER && !peer_ended[side] ->
            find_any(side);
            peer_ended[side] = true;
            if
            :: to != 0 -> send(side, to, DELETE_ALL, 0)
            :: else -> skip
            fi
       :: else -> skip
       fi
  :: group[side] != ENDED && message == CONFIRM_LINK ->
       assert(side == CLIENT);
       post(side, over, CONFIRM_LINK_ANSWER, over);
       if
       :: STATE(side, over) == ACTIVATING && group[side] == FORMING -> END(side, over) = ACTIVE; group[side] = USABLE
       :: STATE(side, over) == ACTIVATING && flow[side] == ADD_CONFIRM && flow_link[side] == over ->
            END(side, over) = ACTIVE;
            end_flow(side)
       :: else -> assert(STATE(side, over) == ACTIVE)
       fi
  :: group[side] != ENDED && message == CONFIRM_LINK_ANSWER ->
       assert(side == SERVER);
       if
       :: STATE(side, over) == ACTIVATING && group[side] == FORMING ->
            END(side, over) = ACTIVE; group[side] = USABLE;
            repeat_due = false;
            want_link()
       :: STATE(side, over) == ACTIVATING && flow[side] == ADD_CONFIRM && flow_link[side] == over ->
            END(side, over) = ACTIVE;
            end_flow(side);
            count_links(side, false);
            if
#ifdef MUTANT_NO_LIMIT
            :: true -> want_link()
#else
            :: count < links_max -> want_link()
#endif
            :: else -> skip
            fi
       :: else -> assert(STATE(side, over) == ACTIVE)
       fi
  :: group[side] != ENDED && message == ADD_LINK ->
       assert(side == CLIENT && group[side] == USABLE);
       assert(!LIVING(side, named)); /* no number is used for two links */
       unanswered = false;
       count_links(side, true);
       if
       :: flow[side] == IDLE -> answer_add_link(over, named)
       :: (flow[side] == DELETING || flow[side] == ANNOUNCING) && request == 0 && ROOM(count) ->
            request = named;
            request_on = over
       :: else -> post(side, over, ADD_LINK_REJECTED, named)
       fi
  :: group[side] != ENDED && (message == ADD_LINK_ANSWER || message == ADD_LINK_REJECTED) ->
       assert(side == SERVER);
       if
#ifdef MUTANT_OLD_ANSWER
       :: flow[side] == ADD_ANSWER && carrier[side] == over ->
#else
       :: flow[side] == ADD_ANSWER && carrier[side] == over && flow_link[side] == named ->
#endif
            if
            :: message == ADD_LINK_ANSWER ->
                 flow[side] = ADD_CONFIRM;
                 repeat_due = true;
                 post(side, flow_link[side], CONFIRM_LINK, flow_link[side])
            :: else -> fail_add(side, false)
            fi
       :: else -> skip
       fi
  :: group[side] != ENDED && message == DELETE_LINK -> take_delete_link(side)
  :: group[side] != ENDED && (message == DELETE_LINK_DONE || message == DELETE_LINK_UNKNOWN) ->
       if
       :: flow[side] == DELETING && flow_link[side] == named -> gone = named; take_down(side, gone)
       :: else ->
            if
            :: side == SERVER && GUARDED(named) -> END_GUARD(named)
            :: else -> skip
            fi
       fi
  :: group[side] != ENDED && (message == DELETE_ALL_ORDERLY || message == DELETE_ALL) ->
#ifndef MUTANT_END_NOT_ANSWERED
       if
       :: message == DELETE_ALL_ORDERLY -> find_any(side); post(side, to, DELETE_ALL, 0)
       :: else -> skip
       fi;
#endif
       peer_ended[side] = true;
       end_group(side)
  :: group[side] != ENDED && message == REQ_ADD_LINK ->
       assert(side == SERVER && group[side] == USABLE);
       asked_on = over;
       want_link()
  :: group[side] != ENDED && message == REQ_ADD_LINK_REJECTED ->
       assert(side == CLIENT);
       unanswered = false
  :: group[side] != ENDED && message == CONFIRM_RKEY ->
       if
       :: flow[side] == ADD_CONFIRM -> post(side, over, CONFIRM_RKEY_AGAIN, 0)
       :: post(side, over, CONFIRM_RKEY_ANSWER, 0)
       fi
  :: group[side] != ENDED && (message == CONFIRM_RKEY_ANSWER || message == CONFIRM_RKEY_AGAIN) ->
       if
       :: flow[side] == ANNOUNCING && carrier[side] == over ->
            if
            :: message == CONFIRM_RKEY_AGAIN && key_retries[side] != 0 ->
                 key_retries[side]--;
                 key_waits[side] = true;
                 end_flow(side)
            :: else -> finish_announcement(side)
            fi
       :: else -> skip
       fi
  fi
}

inline take_delete_link(side) {
  if
  :: !LIVING(side, named) ->
       if
       :: side == SERVER && GUARDED(named) -> skip
       :: else ->
            post(side, over, DELETE_LINK_UNKNOWN, named);
            if
            :: side == CLIENT && request == named -> request = 0; request_on = 0
            :: else -> skip
            fi
       fi
  :: else ->
       find_oldest(side, named);
       if
       :: to == 0 ->
            post(side, over, DELETE_LINK_DONE, named);
            peer_ended[side] = true;
            end_group(side)
       :: else ->
            if
            :: side == SERVER ->
#ifndef MUTANT_CLIENT_DELETES_ALONE
                 post(side, to, DELETE_LINK, named)
#else
                 skip
#endif
            :: else ->
                 post(side, to, DELETE_LINK_DONE, named)
            fi;
            lose(side, named, false)
       fi
  fi
}

inline count_wires() {
  d_step {
    count = 0;
    slot = 0;
    do
    :: slot < 2 * SLOTS -> count = count + len(wire[slot]); slot++
    :: else -> break
    od
  }
}

#define UNDER_WAY (QUEUED || request != 0 || count != 0)

/* A wait runs out because the answer is late, or because a message was lost. */
inline check_timeout(side) {
  count_wires();
  if
  :: UNDER_WAY -> SPEND_LATE; late = true
  :: else -> assert(lossy || group[OTHER(side)] == ENDED)
  fi
}

inline time_out(side) {
  check_timeout(side);
  if
  :: flow[side] == ADD_ANSWER || flow[side] == ADD_CONFIRM ->
       if
       :: side == SERVER && retries != 0 -> retries--; again = true
       :: else -> skip
       fi;
       fail_add(side, true)
  :: flow[side] == DELETING -> gone = flow_link[side]; take_down(side, gone)
  :: flow[side] == ANNOUNCING -> finish_announcement(side)
  fi
}

/* The queue pairs go, when the group has ended: their owner has seen the peer's end, or does not wait any longer. */
inline destroy(side) {
  over = 0;
  do
  :: over < SLOTS ->
       if
       :: ends[(side) * SLOTS + over] == ACTIVATING || ends[(side) * SLOTS + over] == ACTIVE ->
            gone = NUMBER(over);
            close_end(side, gone)
       :: else -> skip
       fi;
       over++
  :: else -> break
  od
}

#ifdef TRACE
#define MAY_RUN_OUT true
/* What would have to wait for a flow may as well come when that is over. */
#define CAN_BEGIN(side) (flow[side] == IDLE && (side == CLIENT || guard == 0))
#define HAS_END(side) true
#else
#define CAN_BEGIN(side) true
#define QUIET(side) (empty(WIRE(side, 1)) && empty(WIRE(side, 2)) && empty(WIRE(side, 3)) && empty(WIRE(side, 4)))
#define HAS_END(side) (LIVING(side, 1) || LIVING(side, 2) || LIVING(side, 3) || LIVING(side, 4))
#define MAY_RUN_OUT (late_left != 0 || (request == 0 && QUIET(SERVER) && QUIET(CLIENT)))
#endif

#ifdef TRACE
#define CAN_TAKE(side, n) (t_kind == TAKEN && t_side == side && LIVING(side, n) && HEAD(WIRE(side, n)))
/* What goes with the group, or has gone in a step before. */
#define CAN_CLOSE(side, n) (SEEN(CLOSED, side, n, 0, 0) && STATE(side, n) != NONE && \
                            !closed[(side) * SLOTS + SLOT(n)] && (group[side] == ENDED || !LIVING(side, n)))
#else
#define CAN_TAKE(side, n) nempty(WIRE(side, n))
#endif
#define OTHER_END_GONE(side, n) (STATE(OTHER(side), n) == GONE || STATE(OTHER(side), n) == GIVEN_UP)
#define CAN_LOSE(side, n) (group[side] != ENDED && LIVING(side, n) && SEEN(CLOSED, side, n, 0, 0) && \
                           (OTHER_END_GONE(side, n) -> !calm || group[side] == FORMING || STATE(side, n) == ACTIVE \
                                                     : !calm && LEFT(losses)))

active [2] proctype side() {
  atomic {
    TRACE_BEGIN;
    if
    :: _pid == SERVER ->
#ifdef TRACE
         links_max = t_a;
         t_kind == AGREED;
         NEXT;
         number[SLOT(1)] = 1;
#endif
         END(SERVER, 1) = ACTIVATING;
         END(CLIENT, 1) = ACTIVATING;
         post(SERVER, 1, CONFIRM_LINK, 1)
    :: else -> END(SERVER, 1) != NONE
    fi;
    end_step()
  };
end:
  do
  :: atomic {
       if
#ifdef TRACE
       :: CAN_TAKE(_pid, t_a) -> what = TAKE; over = t_a
       :: CAN_LOSE(_pid, t_a) -> what = LOSE; over = t_a
       :: CAN_CLOSE(_pid, t_a) -> what = CLOSE; over = t_a
       :: t_kind == POSTED && t_side == _pid && out[_pid] ? [eval(t_a), eval(t_b), eval(t_c)] -> what = POST
#else
       :: CAN_TAKE(_pid, 1) -> what = TAKE; over = 1
       :: CAN_TAKE(_pid, 2) -> what = TAKE; over = 2
       :: CAN_TAKE(_pid, 3) -> what = TAKE; over = 3
       :: CAN_TAKE(_pid, 4) -> what = TAKE; over = 4
       :: CAN_LOSE(_pid, 1) -> what = LOSE; over = 1
       :: CAN_LOSE(_pid, 2) -> what = LOSE; over = 2
       :: CAN_LOSE(_pid, 3) -> what = LOSE; over = 3
       :: CAN_LOSE(_pid, 4) -> what = LOSE; over = 4
#endif
       :: flow[_pid] != IDLE && MAY_RUN_OUT -> what = FLOW_TIMEOUT
       :: _pid == SERVER && guard != 0 && MAY_RUN_OUT -> what = GUARD_TIMEOUT
       :: _pid == SERVER && again -> what = RETRY
       :: key_waits[_pid] -> what = KEY_RETRY
       :: _pid == SERVER && repeat_due -> what = REPEAT
#ifdef TRACE
       :: group[_pid] == USABLE && (_pid == CLIENT || CAN_BEGIN(_pid)) -> what = WISH
#else
       :: group[_pid] == USABLE && !calm && LEFT(wishes) -> what = WISH
#endif
       :: _pid == SERVER && group[_pid] == USABLE && !calm && LEFT(deletions) && unwanted[_pid] == 0 &&
            CAN_BEGIN(_pid) -> what = UNWANT
       :: group[_pid] == USABLE && !calm && LEFT(keys) && !key_due[_pid] && CAN_BEGIN(_pid) -> what = NEED_KEY
       :: group[_pid] != ENDED && !calm -> what = TERMINATE
       :: group[_pid] == ENDED && HAS_END(_pid) && (peer_ended[_pid] || damaged || lossy) -> what = DESTROY
       fi;
       if
       :: what == TAKE ->
            WIRE(_pid, over) ? message, named;
            take(_pid);
            NEXT
       :: what == LOSE ->
            damaged = true;
#ifdef TRACE
            closed[_pid * SLOTS + SLOT(over)] = true;
#endif
            if
            :: !OTHER_END_GONE(_pid, over) -> SPEND(losses)
            :: else -> skip
            fi;
            if
            :: (flow[_pid] == ADD_ANSWER || flow[_pid] == ADD_CONFIRM) && flow_link[_pid] == over ->
                 fail_add(_pid, true)
            :: else -> lose(_pid, over, true)
            fi;
            NEXT
       :: what == FLOW_TIMEOUT -> time_out(_pid)
       :: what == GUARD_TIMEOUT -> check_timeout(SERVER); guard = 0
       :: what == RETRY -> again = false; wanted = true
       :: what == KEY_RETRY -> key_waits[_pid] = false
       :: what == REPEAT ->
            repeat_due = false;
            over = (group[SERVER] == FORMING -> 1 : flow_link[SERVER]);
            post(SERVER, over, CONFIRM_LINK, over)
       :: what == WISH ->
            SPEND(wishes);
            if
            :: _pid == SERVER -> want_link()
            :: else -> find_oldest(_pid, 0); unanswered = true; post(_pid, to, REQ_ADD_LINK, 0)
            fi
       :: what == UNWANT ->
            SPEND(deletions);
            want_deletion(_pid)
       :: what == NEED_KEY -> SPEND(keys); key_due[_pid] = true
       :: what == TERMINATE ->
            find_any(_pid);
            post(_pid, to, DELETE_ALL_ORDERLY, 0);
            end_group(_pid)
       :: what == DESTROY -> destroy(_pid)
#ifdef TRACE
       :: what == POST ->
            out[_pid] ? over, message, named;
            carry(_pid, over, message, named);
            NEXT
       :: what == CLOSE ->
            closed[_pid * SLOTS + SLOT(over)] = true;
            if
            :: LIVING(_pid, over) -> gone = over; close_end(_pid, gone)
            :: else -> skip
            fi;
            NEXT
#endif
       fi;
       start_next_flow(_pid);
       end_step() }
  od
}

#ifndef TRACE
/* At any moment nothing may begin any more by itself. What is under way then comes to an end. */
active proctype observer() {
  atomic {
    calm = true;
    events = 0; losses = 0; wishes = 0; deletions = 0; keys = 0
  };
  atomic {
    timeout ->
    count_wires();
    assert(count == 0);
    assert(flow[SERVER] == IDLE && flow[CLIENT] == IDLE && guard == 0 && request == 0);
    assert(!unanswered);
    assert(group[SERVER] == group[CLIENT]);
    slot = 0;
    do
    :: slot < SLOTS ->
         assert(ends[SERVER * SLOTS + slot] != ACTIVATING && ends[CLIENT * SLOTS + slot] != ACTIVATING);
         assert((ends[SERVER * SLOTS + slot] == ACTIVE) == (ends[CLIENT * SLOTS + slot] == ACTIVE));
         assert(group[SERVER] == USABLE || ends[SERVER * SLOTS + slot] != ACTIVE);
         slot++
    :: else -> break
    od
  }
}
#endif
