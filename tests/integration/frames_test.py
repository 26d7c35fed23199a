"""Raw clients and servers announce frames and then send arbitrary ones. Each loses only its own connection: the proxy
delivers the preceding valid data, resets, and keeps no state. Also proxies with different settings."""
import contextlib
import os
import random
import unittest

import clc
import frames
import peers
from free_port import free_port
from harness import ProxyTest, listener, main, short_milliseconds, wait_until

DEFER = {"smc": {"defer_bytes": "16KiB", "defer_turns": 4}}
END = frames.frame(frames.END)
AFTER_END = "behind an end"


class FramesTest(ProxyTest):
    options = DEFER
    handshake_timeout = "60s"

    def setUp(self):
        super().setUp()
        if os.environ.get("FAIRLEAD_VARIANT", "direct") not in ("direct", "confined"):
            raise unittest.SkipTest("has settings of its own")
        self.options = {"smc": {**DEFER["smc"], "handshake_timeout": self.handshake_timeout}}

    def refused(self, proxy):
        return proxy.metrics().value("fairlead_connections_refused_total", reason="handshake")

    def wait_refused(self, proxy, count):
        wait_until(lambda: self.refused(proxy) == count,
                   f"{count} refused connections, there are {self.refused(proxy)}")

    def assert_connection_earns_smcr(self, entry):
        with peers.connect(entry) as sock:
            peers.assert_echo(sock, b"short")
            peers.assert_echo(sock, b"x" * 100_000)
            peers.assert_echo(sock, b"and more")


class ClientTest(FramesTest):
    """A raw client of the inbound proxy, beside an honest one."""

    def setUp(self):
        super().setUp()
        self.server = peers.serve(self, peers.echo)
        self.start_pair(self.server.address)

    def connect(self):
        return frames.connect(self.inbound.address("in"), self.inbound)

    def begin(self, sock):
        """Five bytes each way."""
        sock.sendall(frames.PREFACE + frames.data(5))
        self.assertEqual(frames.receive_data(sock, 5), b"xxxxx")

    def finish(self, refused=0, fallbacks=None):
        """Everything is counted, no state is left, and an honest client switches to SMC-R."""
        self.wait_refused(self.inbound, refused)
        self.wait_idle()
        self.assertEqual(self.inbound.metrics().fallbacks(), fallbacks or {})
        self.assert_connection_earns_smcr(self.entry)
        self.wait_idle()
        self.assertEqual(self.inbound.smcr_connections(), 1)
        self.assertEqual(self.outbound.metrics().fallbacks(), {})


class HostileClient(ClientTest):
    def test_an_honest_client_in_raw_frames(self):
        with self.connect() as sock:
            sock.sendall(frames.PREFACE + frames.data(70_000))
            self.assertEqual(frames.receive_data(sock, 70_000), b"x" * 70_000)
            sock.sendall(END)
            self.assertEqual(frames.receive(sock), (frames.END, b""))
            self.assertEqual(sock.recv(1), b"")
        self.finish()
        self.assertEqual(self.inbound.metrics().connections("short"), 1)

    def test_one_that_never_hands_over(self):
        """It may use its whole limit; further data is refused."""
        with self.connect() as sock:
            sock.sendall(frames.PREFACE + frames.data(frames.LIMIT))
            self.assertEqual(frames.receive_data(sock, frames.LIMIT), b"x" * frames.LIMIT)
            self.assert_connection_earns_smcr(self.entry)
            sock.sendall(frames.data(1))
            self.assertTrue(peers.ends_in_reset(sock))
        self.wait_refused(self.inbound, 1)
        self.wait_idle()

    def test_frames_that_break_the_rules(self):
        """The data before it is delivered."""
        bad = {
            "type 0": frames.frame(0), "type 5": frames.frame(5, b"x"), "type 255": frames.frame(255),
            "no data": frames.frame(frames.DATA),
            "too much data": frames.frame(frames.DATA, b"x" * (frames.FRAME_MAX + 1)),
            "length without end": frames.frame(frames.DATA, b"", length=0xFFFFFF),
            "no urgent byte": frames.frame(frames.URGENT),
            "two urgent bytes": frames.frame(frames.URGENT, b"xx"),
            "an end with data": frames.frame(frames.END, b"x"),
            "hand-over without position": frames.frame(frames.HAND_OVER),
            "hand-over with a long position": frames.frame(frames.HAND_OVER, bytes(9)),
            "hand-over before its position": frames.hand_over(4),
            "hand-over behind its position": frames.hand_over(6),
            "hand-over at the last position": frames.hand_over(2**64 - 1),
            "data behind the end": END + frames.data(1),
            "urgent data behind the end": END + frames.frame(frames.URGENT, b"x"),
            "two ends": END + END,
            "hand-over behind the end": END + frames.hand_over(5),
            "preface again": frames.PREFACE,
        }
        for name, wrong in bad.items():
            with self.subTest(name), self.connect() as sock:
                sock.sendall(frames.PREFACE + frames.data(5) + wrong)
                self.assertTrue(peers.ends_in_reset(sock))
        self.finish(refused=len(bad))
        self.assertEqual(self.inbound.metrics().value("fairlead_bytes_total", transport="short", flow="rx"),
                         5 * len(bad) + 100_000 + 13 - self.inbound.metrics().value(
                             "fairlead_bytes_total", transport="smcr", flow="rx"))

    def test_a_client_with_windows(self):
        """It may send 4096 bytes at first. The server opens the window as they are used."""
        with self.connect() as sock:
            sock.sendall(frames.PREFACE_WINDOWS + frames.window(frames.LIMIT) + frames.data(frames.FIRST_WINDOW))
            kinds = {frames.DATA: b"", frames.WINDOW: b""}
            while len(kinds[frames.DATA]) < frames.FIRST_WINDOW or not kinds[frames.WINDOW]:
                kind, body = frames.receive(sock)
                kinds[kind] += body
            self.assertEqual(kinds[frames.WINDOW], frames.LIMIT.to_bytes(8, "big"))
            sock.sendall(frames.data(60_000) + END)
            self.assertEqual(frames.receive_data(sock, 60_000), b"x" * 60_000)
            self.assertEqual(frames.receive(sock), (frames.END, b""))
        self.finish()

    def test_windows_that_break_the_rules(self):
        begun = frames.PREFACE_WINDOWS + frames.data(5)
        bad = {
            "not larger": begun + frames.window(frames.FIRST_WINDOW), "zero": begun + frames.window(0),
            "larger than the limit": begun + frames.window(frames.LIMIT + 1),
            "largest number": begun + frames.window(2**64 - 1),
            "smaller again": begun + frames.window(10_000) + frames.window(9_999),
            "no position": begun + frames.frame(frames.WINDOW), "long position": begun + frames.frame(frames.WINDOW, bytes(9)),
            "without windows": frames.PREFACE + frames.data(5) + frames.window(10_000),
            "more than the window": frames.PREFACE_WINDOWS + frames.data(frames.FIRST_WINDOW + 1),
        }
        for name, sent in bad.items():
            with self.subTest(name), self.connect() as sock:
                sock.sendall(sent)
                self.assertTrue(peers.ends_in_reset(sock))
        self.finish(refused=len(bad))

    def test_frames_behind_the_hand_over(self):
        bad = {"hand-over again": frames.hand_over(5), "data": frames.data(5), "end": END,
               "a Confirm": clc.answer(clc.CONFIRM, bytes(16)), "noise": b"\xff" * 200}
        for name, wrong in bad.items():
            for at_once in (True, False):
                with self.subTest(name, at_once=at_once), self.connect() as sock:
                    self.begin(sock)
                    sock.sendall(frames.hand_over(5) + (wrong if at_once else b""))
                    if not at_once:
                        self.assertEqual(frames.receive(sock, frames.HAND_OVER)[1], (5).to_bytes(8, "big"))
                        sock.sendall(wrong)
                    self.assertTrue(peers.ends_in_reset(sock))
        self.finish(refused=2 * len(bad))

    def test_a_decline_behind_the_hand_over_means_tcp(self):
        for message in (clc.decline(clc.NO_DEVICE), clc.decline_v1(clc.NO_DEVICE)):
            with self.connect() as sock:
                self.begin(sock)
                sock.sendall(frames.hand_over(5) + message + b"right behind")
                frames.receive(sock, frames.HAND_OVER)
                self.assertEqual(peers.receive_exactly(sock, 12), b"right behind")
                peers.assert_echo(sock, b"plain" * 50_000)
        self.finish(fallbacks={("no_device", "peer"): 2})

    def test_clc_instead_of_frames(self):
        honest = clc.Gid(self.outbound)
        with self.connect() as sock:
            sock.sendall(clc.proposal(peer_id=honest.peer_id, fabric=bytes(5)))
            self.assertEqual(clc.receive(sock, clc.DECLINE).reason, clc.NO_RDMA_DEVICE)
            peers.assert_echo(sock, b"and so it is TCP")
        self.finish(fallbacks={("no_rdma_device", "local"): 1})

    def test_neither_frames_nor_clc(self):
        """The option may belong to another host: the application gets every byte."""
        plain = [b"GET / HTTP/1.1\r\n\r\n", frames.PREFACE[:3] + b"?", frames.PREFACE[:2] + b"abcdef"]
        for sent in plain:
            with self.connect() as sock:
                peers.assert_echo(sock, sent)
        self.finish(fallbacks={("option_stripped", "local"): len(plain)})

    def test_any_cut(self):
        with self.connect() as sock:
            for byte in frames.PREFACE + frames.data(5):
                sock.sendall(bytes([byte]))
            self.assertEqual(frames.receive_data(sock, 5), b"xxxxx")
            for byte in frames.hand_over(5) + clc.decline(clc.NO_DEVICE) + b"plain":
                sock.sendall(bytes([byte]))
            frames.receive(sock, frames.HAND_OVER)
            self.assertEqual(peers.receive_exactly(sock, 5), b"plain")
        self.finish(fallbacks={("no_device", "peer"): 1})

    def test_disconnect_at_each_byte(self):
        whole = frames.PREFACE + frames.data(3) + frames.hand_over(3) + clc.proposal()[:40]
        for leave in (lambda sock: sock.close(), peers.reset):
            for count in range(len(whole)):
                sock = self.connect()
                sock.sendall(whole[:count])
                leave(sock)
        # The end is noticed at once, and not by a timer of the handshake.
        wait_until(lambda: not self.inbound.get_json("/connections")["connections"], "the end of all connections")
        self.wait_idle()
        self.assert_connection_earns_smcr(self.entry)
        self.assertEqual(self.outbound.metrics().fallbacks(), {})

    def test_random_damage(self):
        generator = random.Random(3)
        good = frames.PREFACE + frames.data(40) + frames.frame(frames.URGENT, b"!") + frames.data(9) + \
            frames.hand_over(50) + clc.proposal()
        for _ in range(300):
            damaged = bytearray(good)
            damaged[generator.randrange(4, len(damaged))] = generator.randrange(256)
            if generator.randrange(3) == 0:
                del damaged[generator.randrange(4, len(damaged)):]
            with contextlib.suppress(OSError), self.connect() as sock:
                sock.sendall(damaged)
                sock.shutdown(2)
        self.wait_idle()
        self.assert_connection_earns_smcr(self.entry)
        self.assertEqual(self.outbound.metrics().fallbacks(), {})

    def test_an_end_without_a_frame_is_a_reset(self):
        got = []

        def remember(sock):
            got.append(peers.receive_exactly(sock, 5))
            got.append(peers.ends_in_reset(sock))
        self.server.handle = remember
        with self.connect() as sock:
            sock.sendall(frames.PREFACE + frames.data(5))
        wait_until(lambda: len(got) == 2, "the application's connection to end")
        self.assertEqual(got, [b"xxxxx", True])
        self.server.handle = peers.echo
        self.finish()


class SilentClient(ClientTest):
    handshake_timeout = f"{2 * short_milliseconds()}ms"

    def finish(self, refused=0, fallbacks=None):
        self.wait_refused(self.inbound, refused)
        self.wait_idle()
        self.assertEqual(self.inbound.metrics().fallbacks(), fallbacks or {})

    def test_silence_behind_the_hand_over(self):
        with self.connect() as one, self.connect() as other:
            for sock, behind in ((one, b""), (other, clc.proposal()[:50])):
                sock.sendall(frames.PREFACE + frames.data(5) + frames.hand_over(5) + behind)
            for sock in (one, other):
                self.assertTrue(peers.ends_in_reset(sock))
        self.finish(refused=2)

    def test_silence_in_a_frame_is_an_idle_connection(self):
        with self.connect() as sock:
            sock.sendall(frames.PREFACE + frames.data(5)[:6])
            self.assertEqual(frames.receive_data(sock, 2), b"xx")
            sock.settimeout(3 * short_milliseconds() / 1000)
            with self.assertRaises(TimeoutError):
                sock.recv(1)
        self.finish()


class ServerTest(FramesTest):
    """A raw server of the outbound proxy, whose SYN-ACKs announce frames."""

    def setUp(self):
        super().setUp()
        # It attaches the program that writes the options of the raw server.
        self.bystander = self.start("bystander", [listener("in", "inbound", ("127.0.0.1", 9))])

    def serve(self, handle):
        server = frames.serve(handle, self.bystander)
        self.addCleanup(server.close)
        self.outbound = self.start("out", [listener("out", "outbound", server.address)])
        return server

    def expect_preface(self, sock):
        self.assertEqual(peers.receive_exactly(sock, 4), frames.PREFACE)

    def expect_hand_over(self, sock):
        self.expect_preface(sock)
        while frames.receive(sock)[0] != frames.HAND_OVER:
            pass

    def assert_each_costs_its_connection(self, cases, client, refused):
        """`client(sock)` does something wrong, and the proxy resets the connection."""
        says = iter(cases.values())

        def handle(sock):
            say = next(says)
            with contextlib.suppress(OSError, AssertionError):
                say(sock)
                peers.receive_all(sock)
        self.serve(handle)
        for name in cases:
            with self.subTest(name):
                try:
                    with peers.connect(self.outbound.address("out")) as sock:
                        client(sock)
                        was_reset = peers.ends_in_reset(sock)
                except (ConnectionResetError, BrokenPipeError):
                    was_reset = True
                # An application that has read a FIN reads no reset behind it.
                self.assertTrue(was_reset or name.endswith(AFTER_END))
        self.wait_refused(self.outbound, refused)
        self.wait_idle(self.outbound)


class HostileServer(ServerTest):
    def test_frames_that_break_the_rules(self):
        bad = {
            "hand-over without the client's": frames.hand_over(0),
            "type 9": frames.frame(9), "no data": frames.frame(frames.DATA),
            f"data {AFTER_END}": END + frames.data(1), f"an end {AFTER_END}": END + END,
            "more than the limit": frames.data(frames.LIMIT + 1),
            "Decline without hand-over": clc.decline(clc.NO_DEVICE),
        }

        def saying(wrong):
            def say(sock):
                self.expect_preface(sock)
                sock.sendall(wrong)
            return say
        self.assert_each_costs_its_connection({name: saying(wrong) for name, wrong in bad.items()},
                                              lambda sock: sock.sendall(b"hello"), len(bad))

    def test_answers_to_a_hand_over(self):
        """The client's bytes reach the limit for SMC-R at once."""
        def answering(wrong):
            def say(sock):
                self.expect_hand_over(sock)
                clc.receive(sock, clc.PROPOSAL)
                sock.sendall(wrong)
            return say
        bad = {
            "another position": frames.hand_over(1), "the last position": frames.hand_over(2**64 - 1),
            "twice": frames.hand_over(0) * 2, "data behind": frames.hand_over(0) + frames.data(3),
            "an end behind": frames.hand_over(0) + END,
            "too much before": frames.data(frames.LIMIT + 1) + frames.hand_over(frames.LIMIT + 1),
            "an Accept for one": clc.answer(clc.ACCEPT, bytes(16)),
            "half an Accept with damage": frames.hand_over(0) + b"\xe2\xd4\xc3\xd9\xff" + bytes(60),
        }
        self.assert_each_costs_its_connection({name: answering(wrong) for name, wrong in bad.items()},
                                              lambda sock: sock.sendall(b"x" * 20_000), len(bad))

    def test_a_decline_behind_the_hand_over_means_tcp(self):
        def decline(sock):
            self.expect_preface(sock)
            got = 0
            while (frame := frames.receive(sock))[0] != frames.HAND_OVER:
                got += len(frame[1])
            self.assertEqual(int.from_bytes(frame[1], "big"), got)
            clc.receive(sock, clc.PROPOSAL)
            sock.sendall(frames.data(7, b"y") + frames.hand_over(7) + clc.decline(clc.NO_DEVICE) + b"plain")
            while got < 50_000:
                got += len(sock.recv(50_000))
            sock.sendall(b"all")
        server = self.serve(decline)
        with peers.connect(self.outbound.address("out")) as sock:
            sock.sendall(b"x" * 50_000)
            self.assertEqual(peers.receive_exactly(sock, 15), b"yyyyyyyplainall")
        server.results()
        self.wait_fallback(self.outbound, "no_device", "peer")
        self.wait_idle(self.outbound)

    def test_disconnect_in_each_step(self):
        for leave in (lambda sock: sock.close(), peers.reset):
            def at_once(sock, leave=leave):
                leave(sock)

            def behind_preface(sock, leave=leave):
                self.expect_preface(sock)
                leave(sock)

            def behind_hand_over(sock, leave=leave):
                self.expect_hand_over(sock)
                leave(sock)

            def behind_answer(sock, leave=leave):
                self.expect_hand_over(sock)
                sock.sendall(frames.hand_over(0))
                leave(sock)
            for handle in (at_once, behind_preface, behind_hand_over, behind_answer):
                with self.subTest(handle.__name__):
                    self.serve(handle)
                    with contextlib.suppress(OSError), peers.connect(self.outbound.address("out")) as sock:
                        sock.sendall(b"x" * 20_000)
                        self.assertTrue(peers.ends_in_reset(sock))
                    self.wait_idle(self.outbound)


class SilentServer(ServerTest):
    handshake_timeout = f"{2 * short_milliseconds()}ms"

    def test_silence_behind_the_hand_over(self):
        def answer(sock):
            self.expect_hand_over(sock)
            sock.sendall(frames.hand_over(0))
        self.assert_each_costs_its_connection({"no hand-over": self.expect_preface, "no Accept": answer},
                                              lambda sock: sock.sendall(b"x" * 20_000), 2)


class Settings(FramesTest):
    def talk(self, client, server):
        """A short connection and one that lasts; returns the transports, as both proxies count them."""
        with peers.Server(peers.echo) as application:
            self.start_pair(application.address, client, server)
            with peers.connect(self.entry) as sock:
                peers.assert_echo(sock, b"short")
            self.assert_connection_earns_smcr(self.entry)
            self.wait_idle()
        counts = []
        for proxy in (self.outbound, self.inbound):
            metrics = proxy.metrics()
            self.assertEqual(metrics.fallbacks(), {})
            counts.append({name: int(metrics.connections(name)) for name in ("short", "smcr", "tcp")})
        return counts

    def test_one_end_does_not_defer(self):
        off = {"smc": {"defer_bytes": 0}}
        for client, server in ((off, {}), ({}, off)):
            self.assertEqual(self.talk(client, server), [{"short": 0, "smcr": 2, "tcp": 0}] * 2)

    def test_both_ends_defer_differently(self):
        early, late = {"smc": {"defer_bytes": "1KiB"}}, {"smc": {"defer_bytes": "64KiB", "defer_turns": 1000}}
        for client, server in ((early, late), (late, early)):
            self.assertEqual(self.talk(client, server), [{"short": 1, "smcr": 1, "tcp": 0}] * 2)

    def test_denied_fallback_means_a_handshake_at_once(self):
        deny = {"fallback": "deny"}
        for client, server in ((deny, {}), ({}, deny)):
            self.assertEqual(self.talk(client, server), [{"short": 0, "smcr": 2, "tcp": 0}] * 2)

    def test_what_why_and_lists_say(self):
        with peers.Server(peers.echo) as application:
            self.start_pair(application.address)
            with peers.connect(self.entry) as sock:
                peers.assert_echo(sock, b"short")
                for proxy in (self.outbound, self.inbound):
                    row, = proxy.ctl("connections")["connections"]
                    self.assertEqual((row["transport"], row["state"]), ("short", "active"))
            self.wait_idle()
        for proxy in (self.outbound, self.inbound):
            decision, = proxy.ctl("why")["decisions"]
            self.assertEqual((decision["transport"], decision.get("reason", "")), ("short", ""))
            self.assertIn("it ended before it had earned SMC-R", decision["steps"])

    def test_what_why_says_of_a_refusal(self):
        """The peer accepts the connection and resets it, here because its application does not listen."""
        self.start_pair(("127.0.0.1", free_port()))
        with peers.connect(self.entry) as sock, self.assertRaises(ConnectionResetError):
            sock.sendall(b"request")
            sock.recv(1)
        self.wait_idle()
        decision, = self.outbound.ctl("why")["decisions"]
        self.assertIn("the peer reset it before it said anything: see the peer's log for the reason", decision["steps"])

    def transports(self):
        """Of the connections of the inbound proxy."""
        return [row["transport"] for row in self.inbound.get_json("/connections")["connections"]]

    def test_without_memory_for_frames_no_connection_is_refused(self):
        """A server does not announce frames while they might take the memory that others need."""
        count = 620
        for workers in (1, 2):
            with self.subTest(workers=workers), peers.Server(peers.echo) as application, contextlib.ExitStack() as stack:
                self.start_pair(application.address, {"memory": {"limit": "512MiB"}},
                                {"memory": {"limit": "24MiB"}, "concurrency": workers})
                for _ in range(count):
                    peers.assert_echo(stack.enter_context(peers.connect(self.entry)), b"hello")
                metrics = self.inbound.metrics()
                self.assertEqual(metrics.value("fairlead_memory_refused_total"), 0)
                carried = self.transports()
                self.assertEqual(len(carried), count)
                self.assertGreaterEqual(carried.count("short"), 5)
                self.assertGreaterEqual(carried.count("smcr") + carried.count("tcp"), 5)
                stack.close()
                self.wait_idle()
                # With each of these the workers see that there is memory again.
                def short_again():
                    with peers.connect(self.entry) as sock:
                        peers.assert_echo(sock, b"hello")
                        return self.transports() == ["short"]
                wait_until(short_again, "a connection in frames")
                self.wait_idle()

    def test_drain_lets_them_go_on(self):
        """A connection that should switch to SMC-R while its proxy drains continues as TCP, for that reason."""
        self.options = {**self.options, "drain": {"timeout": "60s"}}
        with peers.Server(peers.echo) as application:
            self.start_pair(application.address)
            with peers.connect(self.entry) as sock:
                peers.assert_echo(sock, b"short")
                self.outbound.terminate()
                wait_until(lambda: self.outbound.metrics().value("fairlead_draining") == 1, "draining")
                peers.assert_echo(sock, b"x" * 100_000)
                peers.assert_echo(sock, b"more")
                self.wait_fallback(self.outbound, "draining")
            self.assertEqual(self.outbound.wait_exit(), 0)
            self.wait_idle(self.inbound)


if __name__ == "__main__":
    main()
