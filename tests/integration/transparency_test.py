"""Behaviour that an application sees through two proxies and without them: the rows of docs/transparency.md. Every
row of that table is a test here. The class Rows checks that both lists are equal.

Each test compares a direct connection with one through the proxies. `same` requires equal results. `differs`
requires the two results in the table, so a difference that disappears is noticed too. FAIRLEAD_VARIANT
chooses the transport: direct is SMC-R, tcp is the fallback.
"""
import errno
import os
import re
import select
import socket
import struct
import termios
import unittest
from pathlib import Path

import peers
from harness import main, seconds, wait_until
from transparency import (BLOCKED_MS, IP, OPTIONS, PRIVILEGED_OPTIONS, SO_ZEROCOPY, SOL, TCP, Transparency, count_of,
                          error_of, read_back, readable)

TABLE = Path(__file__).resolve().parents[2] / "docs/transparency.md"
TCP_SAVE_SYN, TCP_SAVED_SYN = 27, 28
MSG_ZEROCOPY = 0x4000000
TCP_MD5SIG = 14
SO_ORIGINAL_DST, IP_MTU = 80, 14

class Options(Transparency):
    def test_options_read_back(self):
        def ask(client, server):
            return read_back(client, OPTIONS), read_back(server, OPTIONS)
        client, _ = self.same_of_pairs(ask)
        refused = {name for name, value in client.items() if isinstance(value, str)}
        self.assertLess(len(refused), 4, f"this kernel refuses {refused}")

    def test_options_of_privileged_programs_read_back(self):
        if os.geteuid() != 0:
            raise unittest.SkipTest("SO_MARK and SO_BINDTODEVICE need root")

        def ask(client, server):
            told = read_back(client, PRIVILEGED_OPTIONS), read_back(server, PRIVILEGED_OPTIONS)
            client.sendall(b"still works")
            return told, peers.receive_exactly(server, 11)
        self.same_of_pairs(ask)

    def test_receive_low_water_mark(self):
        """A reader that waits for ten bytes is not woken for five."""
        def ask(client, server):
            client.setsockopt(SOL, socket.SO_RCVLOWAT, 10)
            server.sendall(b"12345")
            wait_until(lambda: count_of(client, termios.FIONREAD) == 5, "five bytes to arrive")
            woken = readable(client, 0)
            server.sendall(b"67890")
            return woken, readable(client), client.recv(100)
        self.assertEqual(self.same_of_pairs(ask), (False, True, b"1234567890"))

    def test_receive_timeout(self):
        def ask(client, _):
            client.setblocking(True)
            client.setsockopt(SOL, socket.SO_RCVTIMEO, struct.pack("ll", 0, 50_000))
            return error_of(lambda: client.recv(1))
        self.assertEqual(self.same_of_pairs(ask), "EAGAIN")

    def test_cork_and_nodelay(self):
        """Removing the option releases all bytes, and a single byte arrives."""
        def ask(client, server):
            got = []
            client.setsockopt(TCP, socket.TCP_CORK, 1)
            client.sendall(b"held ")
            client.sendall(b"together")
            client.setsockopt(TCP, socket.TCP_CORK, 0)
            got.append(peers.receive_exactly(server, 13))
            for value in (0, 1):
                client.setsockopt(TCP, socket.TCP_NODELAY, value)
                client.sendall(b"x")
                got.append(server.recv(10))
            return got
        self.same_of_pairs(ask)

    def test_peek_wait_for_all_and_truncation(self):
        def ask(client, server):
            server.sendall(b"abc")
            peeked = client.recv(1, socket.MSG_PEEK)
            client.setblocking(True)  # the flag has no effect on a non-blocking socket
            client.setsockopt(SOL, socket.SO_RCVTIMEO, struct.pack("ll", int(seconds(20)), 0))
            sender = peers.Task(server.sendall, b"def" * 1000)
            whole = client.recv(3003, socket.MSG_WAITALL)
            sender.finish()
            server.sendall(b"drop")
            wait_until(lambda: count_of(client, termios.FIONREAD) == 4, "four bytes")
            return peeked, len(whole), whole[:6], client.recv(4, socket.MSG_TRUNC)[:0], \
                count_of(client, termios.FIONREAD)
        self.same_of_pairs(ask)

    def test_zero_copy(self):
        """The bytes arrive, and the sender is notified when it may reuse its memory."""
        def ask(client, server):
            client.setsockopt(SOL, SO_ZEROCOPY, 1)
            client.send(b"z" * 10_000, MSG_ZEROCOPY)
            got = peers.receive_exactly(server, 10_000)
            peers.wait_event(client, 0, "no word of completion")
            _, messages, _, _ = client.recvmsg(1, 1000, socket.MSG_ERRQUEUE)
            return got == b"z" * 10_000, len(messages)
        self.assertEqual(self.same_of_pairs(ask), (True, 1))

    def test_fast_open(self):
        """Data given to the connecting call arrives; whether in the SYN is between an application and its sidecar."""
        self.serve()

        def ask(way):
            with socket.socket() as sock:
                sock.sendto(b"early", socket.MSG_FASTOPEN, way)
                return peers.receive_exactly(sock, 5)
        self.same(ask)

    def test_deferred_accept(self):
        """TCP_DEFER_ACCEPT: an accepted connection has data to read at once."""
        listener = self.listen(prepare=lambda sock: sock.setsockopt(TCP, socket.TCP_DEFER_ACCEPT, 20))

        def ask(way):
            at_once = []
            for _ in range(10):
                with peers.connect(way) as client:
                    client.sendall(b"data")
                    server, _ = listener.accept()
                    with server:
                        at_once.append(error_of(lambda server=server: server.recv(4, socket.MSG_DONTWAIT)))
            return at_once
        self.assertEqual(self.same(ask), [None] * 10)

    def test_original_destination_of_an_accepted_socket(self):
        """The application sees no redirection."""
        def ask(_, server):
            return error_of(lambda: server.getsockopt(IP, SO_ORIGINAL_DST, 16)) is not None
        self.same_of_pairs(ask)

    def test_spread_over_listeners_of_one_port(self):
        """SO_REUSEPORT: the kernel still spreads connections over several listeners."""
        def share(sock):
            sock.setsockopt(SOL, socket.SO_REUSEPORT, 1)
        first = self.listen(64, share)
        second = socket.socket()
        self.addCleanup(second.close)
        share(second)
        second.bind(first.getsockname())
        second.listen(64)

        def ask(way):
            clients = [peers.connect(way) for _ in range(40)]
            for client in clients:
                client.sendall(b"x")
            counts = {first: 0, second: 0}
            for _ in clients:
                listener = select.select([first, second], [], [], seconds(20))[0][0]
                with listener.accept()[0] as server:
                    # A connection that closes before any byte has passed is not counted as carried.
                    self.assertEqual(peers.receive_exactly(server, 1), b"x")
                counts[listener] += 1
            for client in clients:
                client.close()
            return min(counts.values()) > 0
        self.assertTrue(self.same(ask))


class WhatTheOtherSideSees(Transparency):
    """Each TCP connection belongs to two kernels: options for its packets reach the sidecar and no further."""

    def syn_of(self, listener, way, prepare):
        """(type of service, time to live, largest segment) in the SYN that the server's kernel got."""
        _, server = self.pair(listener, way, prepare)
        header = server.getsockopt(TCP, TCP_SAVED_SYN, 256)
        self.assertEqual(header[0] >> 4, 4)
        options, segment = header[(header[0] & 15) * 4:], None
        options = options[20:(options[12] >> 4) * 4]
        while options and options[0] != 0:
            length = 1 if options[0] == 1 else options[1]
            if options[0] == 2:
                segment = int.from_bytes(options[2:4], "big")
            options = options[length:]
        return header[1], header[8], segment

    def test_type_of_service_time_to_live_and_segment_size(self):
        listener = self.listen(prepare=lambda sock: sock.setsockopt(TCP, TCP_SAVE_SYN, 1))
        plain = self.syn_of(listener, self.ways[0], None)

        def mark(sock):
            sock.setsockopt(IP, socket.IP_TOS, 0x10)
            sock.setsockopt(IP, socket.IP_TTL, 77)
            sock.setsockopt(TCP, socket.TCP_MAXSEG, 1000)
        self.differs(lambda way: self.syn_of(listener, way, mark), (0x10, 77, 1000), plain)

    def test_own_addresses(self):
        """A client's own port is the requested one; its peer is the destination that it connected to."""
        listener = self.listen()

        def ask(way):
            client, _ = self.pair(listener, way, lambda sock: sock.bind(("127.0.0.1", 0)))
            return client.getsockname()[0], client.getpeername() == way
        self.assertEqual(self.same(ask), ("127.0.0.1", True))

    def test_address_of_the_server(self):
        """getsockname of an accepted socket returns the address of the listener."""
        listener = self.listen()
        self.same(lambda way: self.pair(listener, way)[1].getsockname())

    def test_bytes_on_their_way(self):
        """TIOCOUTQ and TCP_INFO describe the connection to the sidecar, which reads before the server does."""
        listener = self.listen(prepare=lambda sock: sock.setsockopt(SOL, socket.SO_RCVBUF, 4096))

        def ask(way):
            client, server = self.pair(listener, way)
            client.setsockopt(SOL, socket.SO_SNDBUF, 1 << 20)
            client.sendall(bytes(100_000))
            self.assertTrue(readable(server))
            if way == self.ways[0]:
                return count_of(client, termios.TIOCOUTQ) > 0
            wait_until(lambda: count_of(client, termios.TIOCOUTQ) == 0, "the sidecar to take all")
            return False
        self.differs(ask, True, False)

    def test_connection_information(self):
        """TCP_INFO and IP_MTU work as usual, but measure the connection to the sidecar."""
        def ask(client, server):
            return [(sock.getsockopt(TCP, socket.TCP_INFO, 104)[0], sock.getsockopt(IP, IP_MTU) > 500,
                     sock.getsockopt(TCP, socket.TCP_CONGESTION, 16)) for sock in (client, server)]
        self.same_of_pairs(ask)

    def test_signed_segments(self):
        """TCP_MD5SIG: sidecars have no key, so such a connection is not made. Keep its port out of the redirection."""
        def sign(sock):
            address = struct.pack("=H2x4s120x", socket.AF_INET, socket.inet_aton("127.0.0.1"))
            sock.setsockopt(TCP, TCP_MD5SIG, address + struct.pack("=BBHI80s", 0, 0, 6, 0, b"secret"))
        with socket.socket() as sock:
            if error := error_of(lambda: sign(sock)):
                raise unittest.SkipTest(f"this kernel has no TCP_MD5SIG: {error}")
        self.listen(prepare=sign)

        def ask(way):
            with socket.socket() as sock:
                sign(sock)
                sock.setblocking(False)
                sock.connect_ex(way)
                wait = seconds(10) if way == self.ways[0] else BLOCKED_MS / 1000
                made = bool(select.select([], [sock], [], wait)[1])
                return made
        self.differs(ask, True, False, carried=False)


class Opening(Transparency):
    def test_port_without_a_listener(self):
        """The sidecar accepts before it learns of the refusal; the application sees the refusal as a reset."""
        with socket.socket() as closed:
            closed.setsockopt(SOL, socket.SO_REUSEADDR, 1)
            closed.bind(("127.0.0.1", 0))
            self.start_pair(closed.getsockname())
            self.ways = (closed.getsockname(), self.entry)

            def ask(way):
                with socket.socket() as sock:
                    sock.settimeout(seconds(20))
                    return error_of(lambda: sock.connect(way)) or error_of(lambda: sock.recv(1))
            self.differs(ask, "ECONNREFUSED", "ECONNRESET", carried=False)

    def test_destination_without_a_route(self):
        """TCP has no route to a multicast address: the kernel reports it without a packet."""
        self.ways = (("224.0.0.1", 9), None)
        self.start_pair(self.ways[0])
        outbound = self.start("direct", [{"name": "out", "direction": "outbound", "mode": "static",
                                          "listen": "127.0.0.1:0", "upstream": "224.0.0.1:9"}])
        self.ways = (self.ways[0], outbound.address("out"))

        def ask(way):
            with socket.socket() as sock:
                sock.settimeout(seconds(20))
                return error_of(lambda: sock.connect(way)) or error_of(lambda: sock.recv(1))
        self.differs(ask, "ENETUNREACH", "ECONNRESET", carried=False)

    def test_full_backlog(self):
        """A server that does not accept keeps direct clients waiting; the sidecar has accepted theirs."""
        self.listen(backlog=0)

        def ask(way):
            clients = []
            poll = select.poll()
            for _ in range(4):
                sock = socket.socket()
                self.addCleanup(sock.close)
                sock.setblocking(False)
                sock.connect_ex(way)
                clients.append(sock)
                poll.register(sock, select.POLLOUT)
            if way == self.ways[0]:
                return len(poll.poll(BLOCKED_MS)) < len(clients)
            wait_until(lambda: len(poll.poll(0)) == len(clients), "all connections")
            return False
        self.differs(ask, True, False, carried=False)


class Ending(Transparency):
    def test_events_of_a_half_close_a_close_and_a_reset(self):
        """What poll(2) reports at each step."""
        listener = self.listen()

        def events(sock, want):
            poll = select.poll()
            poll.register(sock, select.POLLIN | select.POLLRDHUP)
            found = []

            def look():
                found[:] = [event for _, event in poll.poll(0)]
                return found and found[0] & want == want
            wait_until(look, f"the events {want:#x}; the last are {found}")
            return found[0]

        def ask(way):
            told = []
            client, server = self.pair(listener, way)
            server.shutdown(socket.SHUT_WR)
            told.append(events(client, select.POLLRDHUP))
            client.shutdown(socket.SHUT_WR)
            told.append(events(client, select.POLLHUP))
            told.append(events(server, select.POLLRDHUP | select.POLLHUP))
            client, server = self.pair(listener, way)
            peers.reset(server)
            # poll(2) takes no lock, so it can see the error of a reset before both halves have ended.
            told.append(events(client, select.POLLERR | select.POLLHUP | select.POLLRDHUP))
            told.append(client.getsockopt(SOL, socket.SO_ERROR))
            told.append(error_of(lambda: client.recv(1)))
            return told
        self.same(ask)

    def test_shutdown_orders(self):
        """Each side closes its half first, or both at once; the other half goes on."""
        listener = self.listen()

        def ask(way):
            told = []
            for first in ("client", "server", "both"):
                client, server = self.pair(listener, way)
                order = {"client": (client, server), "server": (server, client)}.get(first)
                if order is None:
                    client.shutdown(socket.SHUT_WR)
                    server.shutdown(socket.SHUT_WR)
                else:
                    early, late = order
                    early.shutdown(socket.SHUT_WR)
                    told.append(late.recv(10))
                    late.sendall(b"goes on")
                    late.shutdown(socket.SHUT_WR)
                    told.append(peers.receive_all(early))
                told += [client.recv(10), server.recv(10), error_of(lambda client=client: client.send(b"x"))]
            return told
        self.same(ask)

    def test_shutdown_of_reading(self):
        """SHUT_RD sends nothing to the other side."""
        def ask(client, server):
            client.shutdown(socket.SHUT_RD)
            at_end = client.recv(1)
            server.sendall(b"into the void")
            client.sendall(b"and back")
            return at_end, peers.receive_exactly(server, 8), error_of(lambda: server.send(b"more"))
        self.same_of_pairs(ask)

    def test_close_with_unread_data_is_a_reset(self):
        def ask(client, server):
            server.sendall(b"never read")
            self.assertTrue(readable(client))
            client.close()
            return error_of(lambda: server.recv(1))
        self.assertEqual(self.same_of_pairs(ask), "ECONNRESET")

    def test_close_with_a_linger_of_zero_is_a_reset(self):
        def ask(client, server):
            peers.reset(client)
            return error_of(lambda: server.recv(1))
        self.assertEqual(self.same_of_pairs(ask), "ECONNRESET")

    def test_close_with_a_linger_delivers_all(self):
        def ask(client, server):
            client.setsockopt(SOL, socket.SO_LINGER, struct.pack("ii", 1, int(seconds(20))))
            client.sendall(bytes(300_000))
            closing = peers.Task(client.close)
            got = len(peers.receive_all(server))
            closing.finish()
            return got
        self.assertEqual(self.same_of_pairs(ask), 300_000)

    def test_write_after_a_reset(self):
        """EPIPE, once the reset was reported."""
        def ask(client, server):
            peers.reset(server)
            return error_of(lambda: client.recv(1)), error_of(lambda: client.send(b"x"))
        self.assertEqual(self.same_of_pairs(ask), ("ECONNRESET", "EPIPE"))

    def wait_fin(self, sock):
        peers.wait_event(sock, select.POLLRDHUP, "no FIN came")

    def reset_error(self, sock):
        """Waits for a reset and returns the name of its error."""
        poll = select.poll()
        poll.register(sock, 0)
        wait_until(lambda: [True for _, event in poll.poll(0) if event & select.POLLERR], "news of a reset")
        return errno.errorcode[sock.getsockopt(SOL, socket.SO_ERROR)]

    def test_reset_behind_a_fin(self):
        """One side ends its half and is then reset, by itself or by its kernel; the other one is idle or writes."""
        listener = self.listen()

        def close_unread(ending, other):
            ending.shutdown(socket.SHUT_WR)
            self.wait_fin(other)
            other.sendall(b"unread")
            self.assertTrue(readable(ending))
            ending.close()

        def reset(ending, other):
            ending.shutdown(socket.SHUT_WR)
            self.wait_fin(other)
            peers.reset(ending)

        def late_byte(ending, other):
            ending.close()
            self.wait_fin(other)
            other.sendall(b"!")

        def late_byte_for_a_shut_socket(ending, other):
            ending.shutdown(socket.SHUT_RDWR)
            self.wait_fin(other)
            other.sendall(b"!")

        def ask(way):
            told = []
            for end in (close_unread, reset, late_byte, late_byte_for_a_shut_socket):
                client, server = self.pair(listener, way)
                end(client, server)
                told.append(self.reset_error(server))
                client, server = self.pair(listener, way)
                end(server, client)
                told.append(self.reset_error(client))
            return told
        self.assertEqual(self.same(ask), ["EPIPE"] * 8)
        self.wait_idle()

    def test_reset_behind_both_fins(self):
        """A client that closes without having read the whole answer; the server has finished."""
        def ask(client, server):
            client.shutdown(socket.SHUT_WR)
            self.wait_fin(server)
            server.sendall(b"unread")
            server.shutdown(socket.SHUT_WR)
            self.wait_fin(client)
            client.close()
            self.wait_idle()
            return server.getsockopt(SOL, socket.SO_ERROR), server.recv(1)
        self.assertEqual(self.same_of_pairs(ask), (0, b""))


class Rows(unittest.TestCase):
    def test_table_and_tests_are_the_same(self):
        """Each test of this file is named in the table, and each test that the table names exists."""
        text = TABLE.read_text()
        for group in ("transparency", "transparency_pods"):
            path = Path(__file__).with_name(f"{group}_test.py")
            tests = set(re.findall(r"(?m)^    def (test_\w+)", path.read_text()))
            tests.discard("test_table_and_tests_are_the_same")
            self.assertEqual(set(re.findall(rf"`{group}\.(test_\w+)`", text)), tests)
        settings = {("smc", "test_link_interval")}
        for name, test in set(re.findall(r"`(\w+)\.(test_\w+)`", text)) - settings:
            paths = [folder / f"{name}_test.py" for folder in (Path(__file__).parent, Path(__file__).parents[1] / "cni")]
            texts = [path.read_text() for path in paths if path.exists()]
            self.assertTrue(any(f"def {test}(" in text for text in texts), f"{name}.{test}")


if __name__ == "__main__":
    main()
