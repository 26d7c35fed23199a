/* What the option program and its C++ side must agree on. Plain C: clang compiles it for eBPF, g++
 * for the proxy.
 *
 * The option says that a host can speak SMC-R (RFC 7609, section 3.1). It stands in SYN and
 * SYN/ACK:
 *
 *   byte  0     experimental option kind 254 (RFC 6994)
 *   byte  1     length of the whole option, 6
 *   byte  2..5  E2 D4 C3 D9, "SMCR" in EBCDIC
 */
#pragma once

#define FAIRLEAD_TCP_OPTION_KIND 254
#define FAIRLEAD_TCP_OPTION_BYTES 6
#define FAIRLEAD_TCP_OPTION_MAGIC_0 0xe2
#define FAIRLEAD_TCP_OPTION_MAGIC_1 0xd4
#define FAIRLEAD_TCP_OPTION_MAGIC_2 0xc3
#define FAIRLEAD_TCP_OPTION_MAGIC_3 0xd9

/* SO_PRIORITY of a connected socket whose peer answered with the option. A capability-free proxy
 * can read nothing else that a program of somebody else's writes. Queueing disciplines read the
 * same word, in two ways: as a class id, whose major number 0x534d ("SM") no sane tree uses, and as
 * a band in the low four bits, which are those of priority 0. So the mark changes no packet's
 * place. */
#define FAIRLEAD_PRIORITY_ANSWERED 0x534d4300

/* A second option of the same shape, beside the first one, says that a Fairlead proxy can begin the
 * connection in frames (docs/wire.md, "Frames"). The SYN and the SYN/ACK have different
 * identifiers, so that a host that repeats the options of a SYN does not look like a proxy. */
#define FAIRLEAD_FRAMES_MAGIC_0 0xfa
#define FAIRLEAD_FRAMES_MAGIC_1 0x1e
#define FAIRLEAD_FRAMES_MAGIC_2 0xad
#define FAIRLEAD_FRAMES_MAGIC_3_SYN 0x01
#define FAIRLEAD_FRAMES_MAGIC_3_ANSWER 0x02
/* The answer of a proxy that knows windows of frames. */
#define FAIRLEAD_FRAMES_MAGIC_3_WINDOWS 0x03

/* SO_PRIORITY with which a proxy asks for the second option: of a socket before connect(2), of a
 * listener before listen(2). TC_PRIO_INTERACTIVE_BULK: any process may set it, and the default
 * queueing discipline has it in the band of priority 0. */
#define FAIRLEAD_PRIORITY_FRAMES_WANTED 4
/* The same of a proxy that knows windows. TC_PRIO_INTERACTIVE, of which any process may send. */
#define FAIRLEAD_PRIORITY_WINDOWS_WANTED 6
/* SO_PRIORITY with which a proxy that has attached the program itself asks it for the first option,
 * or for both, before connect(2). Only CAP_NET_ADMIN may set such values, so no application that
 * shares the cgroup asks by accident. The bits between say which program is asked. */
#define FAIRLEAD_PRIORITY_SMC_REQUESTED 0x534d8000
#define FAIRLEAD_PRIORITY_FRAMES_REQUESTED 0x534dc000
#define FAIRLEAD_PRIORITY_PROGRAM_SHIFT 4
#define FAIRLEAD_PRIORITY_PROGRAMS 1024
/* As FAIRLEAD_PRIORITY_ANSWERED; both options were in the SYN/ACK. */
#define FAIRLEAD_PRIORITY_FRAMES_ANSWERED 0x534d4400
/* The same; the server knows windows. */
#define FAIRLEAD_PRIORITY_WINDOWS_ANSWERED 0x534d4500
