/* The data of one connection while links fail: one side writes N bytes into a ring of the other, in
 * transmissions of at most BATCH bytes, each followed by a CDC message with the producer cursor. The
 * reader answers with its consumer cursor. LINKS_LOST times, at any moment, the link in use fails. Each
 * side notices by itself, and until then posts to the link that is dead.
 *
 * Modelled are proxy/smc/connection/tx_ring.cc with a send ring, and Connection::handle_cdc(),
 * handle_link_switched() and validation() of proxy/smc/connection/connection.cc. Cursors are positions that never
 * wrap: the wrap is that of cursor.h and has tests of its own.
 *
 * What is assumed of the fabric, as reliable connections give it: messages of one link arrive in order
 * and at most once; a link that has failed delivers a prefix of what was posted; a completion means that
 * the peer's RNIC has the message, and not that the peer has looked at it. Whoever leaves a link destroys
 * its queue pair, so nothing of it arrives any more.
 *
 * Checked: the reader gets each byte once and in order; no cursor goes where it cannot be; neither side
 * gives up; at the end both know that all has been consumed.
 *
 * In a trace (trace.inc) the side is 0 for the writer and 1 for the reader. Both directions of a connection
 * share its CDC messages, so a message may say nothing new. Kinds:
 *
 *   0  the first line: the ring has `a` bytes
 *   1  a side posts a CDC message: its cursor, its sequence number, its link (0, 1, ...)
 *   2  a side posts a validation: 0, the sequence number that it names, its link
 *   3  a side takes a CDC message of the other one: cursor, sequence number, link
 *   4  a side takes a validation of the other one: 0, the sequence number, link
 *   5  a side learns that its message is completed: 0, the sequence number, link
 *   6  the next message of a side arrives at the other one: 0, 0, link
 *   7  a link fails: 0, 0, that link */

#include "trace.inc"

#ifdef TRACE
#define position_t int
#define N 2000000000
#define LINKS_LOST 3
#define DEPTH 60
int ring = 0;
#else
#define position_t byte
#ifndef N
#define N 4
#endif
#ifndef RING
#define RING 2
#endif
#ifndef BATCH
#define BATCH 2
#endif
#ifndef LINKS_LOST
#define LINKS_LOST 1
#endif
#ifndef SEND_RING
#define SEND_RING 3
#endif
#define DEPTH 2
#define ring RING
byte memory[RING]; /* the reader's element: position + 1 of the byte that stands there */
#endif
#define LINKS (LINKS_LOST + 1)
#define WRITER 0
#define READER 1

/* Posted and under way: cursor, where the bytes begin, sequence number, and if it is a validation. */
chan to_reader[LINKS] = [DEPTH] of { position_t, position_t, position_t, bit };
chan to_writer[LINKS] = [DEPTH] of { position_t, position_t, bit };
/* In the receive queues. The owner may look at those of two links in any order. */
chan at_reader[LINKS] = [DEPTH] of { position_t, position_t, bit };
chan at_writer[LINKS] = [DEPTH] of { position_t, position_t, bit };
/* Completions: sequence number, and of the writer's messages up to where the bytes are written. */
chan writer_done[LINKS] = [DEPTH] of { position_t, position_t };
chan reader_done[LINKS] = [DEPTH] of { position_t };

bool dead[LINKS];
byte writer_link = 0, reader_link = 0;
bool finished = false;

#ifdef TRACE
/* The message that the trace says is taken. */
#define ARRIVED(at) ((t_kind == 3 || t_kind == 4) && t_c < LINKS && at[t_c] ? [eval(t_a), eval(t_b), eval(t_kind - 3)])
#define TAKE(at) at[t_c] ? cursor, message, validation
#else
#define ARRIVED(at) (nempty(at[0]) || nempty(at[1]) || nempty(at[LINKS_LOST]))
#define TAKE(at) \
  if :: at[0] ? cursor, message, validation \
     :: at[1] ? cursor, message, validation \
     :: at[LINKS_LOST] ? cursor, message, validation fi
#endif

/* The bytes of a transmission arrive at the reader's element. */
inline deliver_bytes(a, b) {
#ifndef TRACE
  at = a;
  do
  :: at < b -> memory[at % RING] = at + 1; at++
  :: else -> break
  od;
  at = 0
#else
  skip
#endif
}

/* Carries the messages of one link, which may fail once the one before it has failed. */
active [LINKS] proctype link() {
  position_t from, to, sequence, at;
  bit validation;
#ifdef TRACE
  if
  :: _pid == 0 -> TRACE_BEGIN; atomic { ring = t_a; NEXT }
  :: else -> skip
  fi;
#endif
end:
  do
  :: atomic { !dead[_pid] && nempty(to_reader[_pid]) && nfull(at_reader[_pid]) && nfull(writer_done[_pid]) &&
         SEEN(6, WRITER, 0, 0, _pid) ->
       to_reader[_pid] ? to, from, sequence, validation;
       deliver_bytes(from, to);
       at_reader[_pid] ! to, sequence, validation;
       if
       :: validation -> skip
       :: else -> writer_done[_pid] ! sequence, to
       fi;
       from = 0; to = 0; sequence = 0; validation = 0;
       NEXT }
  :: atomic { !dead[_pid] && nempty(to_writer[_pid]) && nfull(at_writer[_pid]) && nfull(reader_done[_pid]) &&
         SEEN(6, READER, 0, 0, _pid) ->
       to_writer[_pid] ? to, sequence, validation;
       at_writer[_pid] ! to, sequence, validation;
       if
       :: validation -> skip
       :: else -> reader_done[_pid] ! sequence
       fi;
       to = 0; sequence = 0; validation = 0;
       NEXT }
  :: atomic { !dead[_pid] && _pid < LINKS_LOST && (_pid == 0 || dead[_pid - 1]) && !finished && SEEN(7, 0, 0, 0, _pid) ->
#ifndef TRACE
       /* The first message under way may have arrived in part or whole, without its completion. */
       if
       :: nempty(to_reader[_pid]) && nfull(at_reader[_pid]) ->
            to_reader[_pid] ? to, from, sequence, validation;
            deliver_bytes(from, to);
            if
            :: at_reader[_pid] ! to, sequence, validation
            :: skip
            fi
       :: skip
       fi;
       if
       :: nempty(to_writer[_pid]) && nfull(at_writer[_pid]) -> to_writer[_pid] ? to, sequence, validation;
            at_writer[_pid] ! to, sequence, validation
       :: skip
       fi;
#endif
       do :: nempty(to_reader[_pid]) -> to_reader[_pid] ? to, from, sequence, validation
          :: empty(to_reader[_pid]) -> break od;
       do :: nempty(to_writer[_pid]) -> to_writer[_pid] ? to, sequence, validation :: empty(to_writer[_pid]) -> break od;
#ifndef TRACE
       /* Acknowledged, and lost with the end of the link that had it: of each side perhaps the last. */
       if
       :: len(at_reader[_pid]) == 1 -> at_reader[_pid] ? to, sequence, validation
       :: skip
       fi;
       if
       :: len(at_writer[_pid]) == 1 -> at_writer[_pid] ? to, sequence, validation
       :: skip
       fi;
       /* Completions that nobody has read yet may be lost too. */
       if
       :: do :: nempty(writer_done[_pid]) -> writer_done[_pid] ? sequence, to :: empty(writer_done[_pid]) -> break od
       :: skip
       fi;
       if
       :: do :: nempty(reader_done[_pid]) -> reader_done[_pid] ? sequence :: empty(reader_done[_pid]) -> break od
       :: skip
       fi;
#endif
       from = 0; to = 0; sequence = 0; validation = 0;
       dead[_pid] = true;
       NEXT }
  od
}

active proctype writer() {
  position_t taken = 0, produced = 0, acked = 0, reached = 0, peer_consumed = 0;
  position_t sequence = 0, sequence_done = 0, peer_sequence = 0;
  position_t until, message, cursor, length;
  bit validation, missing = 0, validation_due = 0, repeat_due = 0;
  do
#ifndef TRACE
  :: taken < N && taken - acked < SEND_RING -> taken++ /* the application's next byte, into the send ring */
#endif
  :: atomic { nempty(writer_done[writer_link]) && SEEN(5, WRITER, 0, t_b, writer_link) ->
       writer_done[writer_link] ? message, until;
       assert(SEEN(5, WRITER, 0, message, writer_link));
       if
       :: message > sequence_done -> sequence_done = message
       :: else -> skip
       fi;
       assert(until <= produced);
       if
       :: until > acked -> acked = until
       :: else -> skip
       fi;
       message = 0; until = 0;
       NEXT }
  :: atomic { dead[writer_link] ->
       do :: nempty(writer_done[writer_link]) -> writer_done[writer_link] ? message, until
          :: empty(writer_done[writer_link]) -> break od;
       message = 0; until = 0;
       writer_link++;
       validation_due = 1;
#ifndef MUTANT_WRITER_SILENT
       repeat_due = 1;
#endif
#ifndef MUTANT_ACKED
       if
       :: peer_consumed > acked -> acked = peer_consumed
       :: else -> skip
       fi;
#endif
#ifndef MUTANT_NO_REWIND
       produced = acked
#else
       skip
#endif
     }
  :: atomic { validation_due && (dead[writer_link] || nfull(to_reader[writer_link])) &&
         SEEN(2, WRITER, 0, (sequence_done != 0 -> sequence_done - 1 : 0), writer_link) ->
       validation_due = 0;
       if
       :: dead[writer_link] -> skip
       :: else -> to_reader[writer_link] ! 0, 0, (sequence_done != 0 -> sequence_done - 1 : 0), 1
       fi;
       NEXT }
#ifdef TRACE
  :: validation_due -> validation_due = 0 /* a connection that closes sends none */
  :: atomic { !validation_due && SEEN(1, WRITER, t_a, sequence + 1, writer_link) &&
         t_a >= produced && t_a - peer_consumed <= ring ->
       length = t_a - produced;
#else
  :: atomic { !validation_due && (dead[writer_link] || nfull(to_reader[writer_link])) &&
         ((produced < taken && produced - peer_consumed < RING) || repeat_due) ->
       length = taken - produced;
       if
       :: length > BATCH -> length = BATCH
       :: else -> skip
       fi;
#ifndef MUTANT_WINDOW
       if
       :: length > RING - (produced - peer_consumed) -> length = RING - (produced - peer_consumed)
       :: else -> skip
       fi;
#endif
#endif
       sequence++;
       if
       :: dead[writer_link] -> skip
       :: else -> to_reader[writer_link] ! produced + length, produced, sequence, 0
       fi;
       produced = produced + length;
       if
       :: produced > reached -> reached = produced
       :: else -> skip
       fi;
       repeat_due = 0;
       length = 0;
       NEXT }
  :: atomic { ARRIVED(at_writer) && SEEN(t_kind, WRITER, t_a, t_b, t_c) ->
       TAKE(at_writer);
       if
       :: validation -> missing = (message > peer_sequence -> 1 : missing)
#ifndef MUTANT_OLD_MESSAGES
       :: !validation && message < peer_sequence -> skip
#endif
       :: else ->
            missing = 0;
            peer_sequence = message;
            assert(cursor >= peer_consumed && cursor <= reached);
            peer_consumed = cursor;
            if
            :: produced < peer_consumed -> produced = peer_consumed
            :: else -> skip
            fi
       fi;
       cursor = 0; message = 0; validation = 0;
       NEXT }
  :: peer_consumed == N && !dead[writer_link] && !validation_due && !repeat_due -> break
  od;
  finished = true;
  assert(!missing)
}

active proctype reader() {
  position_t known = 0, consumed = 0, announced = 0; /* the peer's producer cursor, and the own one */
  position_t sequence = 0, sequence_done = 0, peer_sequence = 0;
  position_t message, cursor;
  bit validation, missing = 0, validation_due = 0, repeat_due = 0;
end:
  do
  :: atomic { nempty(reader_done[reader_link]) && SEEN(5, READER, 0, t_b, reader_link) ->
       reader_done[reader_link] ? message;
       assert(SEEN(5, READER, 0, message, reader_link));
       if
       :: message > sequence_done -> sequence_done = message
       :: else -> skip
       fi;
       message = 0;
       NEXT }
  :: atomic { dead[reader_link] ->
       do :: nempty(reader_done[reader_link]) -> reader_done[reader_link] ? message
          :: empty(reader_done[reader_link]) -> break od;
       message = 0;
       reader_link++;
       validation_due = 1;
#ifndef MUTANT_READER_SILENT
       repeat_due = 1
#else
       skip
#endif
     }
  :: atomic { ARRIVED(at_reader) && SEEN(t_kind, READER, t_a, t_b, t_c) ->
       TAKE(at_reader);
       if
       :: validation -> missing = (message > peer_sequence -> 1 : missing)
       :: !validation && message < peer_sequence -> skip
       :: else ->
            missing = 0;
            peer_sequence = message;
            /* A repetition may end before what is known: the cursor of a rewound writer. */
            if
            :: cursor > known -> assert(cursor - consumed <= ring); known = cursor
            :: else -> skip
            fi
       fi;
       cursor = 0; message = 0; validation = 0;
       NEXT }
  :: atomic { validation_due && (dead[reader_link] || nfull(to_writer[reader_link])) &&
         SEEN(2, READER, 0, (sequence_done != 0 -> sequence_done - 1 : 0), reader_link) ->
       validation_due = 0;
       if
       :: dead[reader_link] -> skip
       :: else -> to_writer[reader_link] ! 0, (sequence_done != 0 -> sequence_done - 1 : 0), 1
       fi;
       NEXT }
#ifdef TRACE
  :: validation_due -> validation_due = 0 /* a connection that closes sends none */
  :: atomic { !validation_due && SEEN(1, READER, t_a, sequence + 1, reader_link) && t_a >= consumed && t_a <= known ->
       consumed = t_a;
#else
  :: atomic { consumed < known ->
       assert(memory[consumed % RING] == consumed + 1);
       consumed++ }
  :: atomic { !validation_due && (dead[reader_link] || nfull(to_writer[reader_link])) &&
         (announced < consumed || repeat_due) ->
#endif
       sequence++;
       if
       :: dead[reader_link] -> skip
       :: else -> to_writer[reader_link] ! consumed, sequence, 0
       fi;
       announced = consumed;
       repeat_due = 0;
       NEXT }
  :: finished && consumed == N -> break
  od;
  assert(consumed == N)
}
