/* The data of one connection while links fail: one side writes N bytes into a ring of the other, in
 * transmissions of at most BATCH bytes, each followed by a CDC message with the producer cursor. The
 * reader answers with its consumer cursor. Once, at any moment, the link in use fails.
 *
 * Modelled are proxy/smc/tx_ring.cc with a send ring, and Connection::handle_cdc(),
 * handle_link_switched() and validation() of proxy/smc/connection.cc. Cursors are positions that never
 * wrap: the wrap is that of cursor.h and has tests of its own.
 *
 * What is assumed of the fabric, as reliable connections give it: messages of one link arrive in order
 * and at most once; a link that has failed delivers a prefix of what was posted; a completion means that
 * the peer's RNIC has the message, and not that the peer has looked at it. After the failure of a link
 * was seen, nothing of it arrives any more.
 *
 * Checked: the reader gets each byte once and in order; no cursor goes where it cannot be; neither side
 * gives up; at the end both know that all has been consumed. */

#ifndef N
#define N 4
#endif
#ifndef RING
#define RING 2
#endif
#ifndef BATCH
#define BATCH 2
#endif
#define LINKS_LOST 1
#ifndef SEND_RING
#define SEND_RING 3
#endif
#define DEPTH 2

chan to_reader = [DEPTH] of { byte, byte, byte, bit }; /* posted by the writer: from, to, sequence, validation */
/* In the reader's queues, one of each link: cursor, sequence, validation. It may look at them in any order. */
chan at_reader[LINKS_LOST + 1] = [DEPTH] of { byte, byte, bit };
chan done = [DEPTH] of { byte, byte };                 /* completions for the writer: sequence, written until */
chan to_writer = [DEPTH] of { byte, byte, bit };       /* posted by the reader: cursor, sequence, validation */
chan at_writer[LINKS_LOST + 1] = [DEPTH] of { byte, byte, bit };
chan reader_done = [DEPTH] of { byte };

byte memory[RING]; /* the reader's element: position + 1 of the byte that stands there */
byte failures = 0;
bool writer_sees = false, reader_sees = false; /* the failure */
byte consumed = 0, peer_consumed = 0;
bool finished = false;

inline deliver_bytes(a, b) {
  position = a;
  do
  :: position < b -> memory[position % RING] = position + 1; position++
  :: else -> break
  od
}

/* The fabric carries messages, and lets the link fail. */
active proctype fabric() {
  byte from, to, sequence, position;
  bit validation;
end:
  do
  :: atomic { nempty(to_reader) && nfull(at_reader[failures]) && nfull(done) && !writer_sees && !reader_sees ->
       to_reader ? from, to, sequence, validation;
       deliver_bytes(from, to);
       at_reader[failures] ! to, sequence, validation;
       if
       :: validation -> skip
       :: else -> done ! sequence, to
       fi }
  :: atomic { nempty(to_writer) && nfull(at_writer[failures]) && nfull(reader_done) && !writer_sees && !reader_sees ->
       to_writer ? from, sequence, validation;
       at_writer[failures] ! from, sequence, validation;
       if
       :: validation -> skip
       :: else -> reader_done ! sequence
       fi }
  :: atomic { failures < LINKS_LOST && !writer_sees && !reader_sees && !finished ->
       /* The first message under way may have arrived in part or whole, without its completion. */
       if
       :: nempty(to_reader) && nfull(at_reader[failures]) ->
            to_reader ? from, to, sequence, validation;
            deliver_bytes(from, to);
            if
            :: at_reader[failures] ! to, sequence, validation
            :: skip
            fi
       :: skip
       fi;
       if
       :: nempty(to_writer) && nfull(at_writer[failures]) -> to_writer ? from, sequence, validation;
            at_writer[failures] ! from, sequence, validation
       :: skip
       fi;
       do :: nempty(to_reader) -> to_reader ? from, to, sequence, validation :: empty(to_reader) -> break od;
       do :: nempty(to_writer) -> to_writer ? from, sequence, validation :: empty(to_writer) -> break od;
       /* Acknowledged, and lost with the end of the link that had it: of each side perhaps the last. */
       if
       :: len(at_reader[failures]) == 1 -> at_reader[failures] ? to, sequence, validation
       :: skip
       fi;
       if
       :: len(at_writer[failures]) == 1 -> at_writer[failures] ? from, sequence, validation
       :: skip
       fi;
       /* Completions that nobody has read yet may be lost too. */
       if
       :: do :: nempty(done) -> done ? sequence, to :: empty(done) -> break od
       :: skip
       fi;
       if
       :: do :: nempty(reader_done) -> reader_done ? sequence :: empty(reader_done) -> break od
       :: skip
       fi;
       from = 0; to = 0; sequence = 0; validation = 0; position = 0;
       failures++;
       writer_sees = true; reader_sees = true }
  od
}

active proctype writer() {
  byte taken = 0, produced = 0, acked = 0, reached = 0;
  byte sequence = 0, sequence_done = 0, peer_sequence = 0;
  byte until, message, cursor, length;
  bit validation, missing = 0, validation_due = 0, repeat_due = 0;
  do
  :: taken < N && taken - acked < SEND_RING -> taken++ /* the application's next byte, into the send ring */
  :: atomic { done ? message, until ->
       if
       :: message > sequence_done -> sequence_done = message
       :: else -> skip
       fi;
       if
       :: until > acked && until <= produced -> acked = until
       :: else -> skip
       fi }
  :: atomic { writer_sees ->
       writer_sees = false;
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
#ifdef MUTANT_NO_REWIND
       skip
#else
       produced = acked
#endif
     }
  :: atomic { validation_due && !writer_sees && nfull(to_reader) ->
       validation_due = 0;
       length = (sequence_done != 0 -> sequence_done - 1 : 0);
       to_reader ! 0, 0, length, 1;
       length = 0 }
  :: atomic { !validation_due && !writer_sees && nfull(to_reader) &&
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
       sequence++;
       to_reader ! produced, produced + length, sequence, 0;
       produced = produced + length;
       if
       :: produced > reached -> reached = produced
       :: else -> skip
       fi;
       repeat_due = 0;
       length = 0 }
  :: atomic { (nempty(at_writer[0]) || nempty(at_writer[LINKS_LOST])) ->
       if
       :: at_writer[0] ? cursor, message, validation
       :: at_writer[LINKS_LOST] ? cursor, message, validation
       fi;
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
       cursor = 0; message = 0; validation = 0 }
  :: peer_consumed == N && !writer_sees && !validation_due && !repeat_due -> break
  od;
  finished = true;
  assert(!missing)
}

active proctype reader() {
  byte known = 0; /* the peer's producer cursor */
  byte sequence = 0, sequence_done = 0, peer_sequence = 0, announced = 0;
  byte message, cursor, length;
  bit validation, missing = 0, validation_due = 0, repeat_due = 0;
end:
  do
  :: atomic { reader_done ? message ->
       if
       :: message > sequence_done -> sequence_done = message
       :: else -> skip
       fi }
  :: atomic { reader_sees -> reader_sees = false; validation_due = 1;
#ifndef MUTANT_READER_SILENT
       repeat_due = 1
#endif
     }
  :: atomic { (nempty(at_reader[0]) || nempty(at_reader[LINKS_LOST])) ->
       if
       :: at_reader[0] ? cursor, message, validation
       :: at_reader[LINKS_LOST] ? cursor, message, validation
       fi;
       if
       :: validation -> missing = (message > peer_sequence -> 1 : missing)
       :: !validation && message < peer_sequence -> skip
       :: else ->
            missing = 0;
            peer_sequence = message;
            /* A repetition may end before what is known: the cursor of a rewound writer. */
            if
            :: cursor > known -> assert(cursor - consumed <= RING); known = cursor
            :: else -> skip
            fi
       fi;
       cursor = 0; message = 0; validation = 0 }
  :: atomic { consumed < known ->
       assert(memory[consumed % RING] == consumed + 1);
       consumed++ }
  :: atomic { validation_due && !reader_sees && nfull(to_writer) ->
       validation_due = 0;
       length = (sequence_done != 0 -> sequence_done - 1 : 0);
       to_writer ! 0, length, 1;
       length = 0 }
  :: atomic { !validation_due && !reader_sees && nfull(to_writer) && (announced < consumed || repeat_due) ->
       sequence++;
       to_writer ! consumed, sequence, 0;
       announced = consumed;
       repeat_due = 0 }
  :: finished && consumed == N -> break
  od;
  assert(consumed == N)
}
