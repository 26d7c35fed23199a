"""A proxy is replaced by another process, and the applications do not notice."""
import hashlib
import json
import os
import socket
import subprocess
import threading
import time
import unittest

import peers
from harness import CONFINEMENT, VARIANT, Proxy, ProxyTest, amount, main, programs, seconds, wait_until
from ping_pong import PingPong
import keeper_record  # in the folder that harness adds  # pylint: disable=wrong-import-order

HAND_OVERS = amount(10)
GAP_MILLISECONDS = 250
PARK_SECONDS = 5  # kParkWait of proxy/app/connection_keeping.h


class FailingKeeper:
    """Takes no parcel."""

    def __init__(self, test, name):
        self.link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.link.settimeout(seconds(20))
        self.link.connect("\0" + test.keeper_sockets[name][1:])
        self.copies = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.link.close()
        for descriptor in self.copies:
            os.close(descriptor)

    def say(self, kind, **values):
        self.link.send(keeper_record.pack(kind, **values))

    def hear(self):
        data, descriptors, _, _ = socket.recv_fds(self.link, 64, 8)
        self.copies += descriptors
        return keeper_record.unpack(data)

    def ask_to_park(self):
        self.say(keeper_record.HELLO, flags=keeper_record.ANSWERS_OFFERS, count=1000, size=1 << 20)
        self.say(keeper_record.PARK)
        offer = self.hear()
        assert offer.kind == keeper_record.OFFER, offer
        self.say(keeper_record.ACCEPTED, count=offer.count)

    def receive_parcel(self):
        parcel = self.hear()
        assert parcel.kind == keeper_record.PARCEL, parcel
        while len(self.copies) < 2 + parcel.count:  # one with the offer, and the description
            self.hear()


class HandOver(ProxyTest):
    """Each proxy of a pair in its turn."""

    def start_keeping_pair(self, handle, options=None):
        self.server = peers.serve(self, handle)
        self.keeper_sockets = {name: f"@fairlead-keeper-{self.folder.name}-{name}" for name in ("in", "out")}
        settle = f"{round(1000 * float(seconds(1)))}ms"
        keep = {name: {"hand_over": {"socket": place, "settle": settle}, **(options or {})}
                for name, place in self.keeper_sockets.items()}
        self.start_pair(self.server.address, client=keep["out"], server=keep["in"])

    def start_keeper(self, proxy):
        return subprocess.Popen(
            [*CONFINEMENT, programs() / "ctl/fairleadctl", "-o", "json", "hand-over",
             "--keeper-socket", self.keeper_sockets[proxy.name]], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def replace(self, proxy, options=None):
        """Starts another process in the place of `proxy`; returns it, and what fairleadctl says."""
        with self.start_keeper(proxy) as ctl:
            self.assertEqual(proxy.wait_exit(), 0, proxy.log())
            successor = self.succeed(proxy, options)
            said, complaint = ctl.communicate(timeout=seconds(20))
        self.assertEqual(ctl.returncode, 0, complaint)
        return successor, json.loads(said)

    def succeed(self, proxy, options=None):
        """Starts another process at the addresses of one that ends or has ended."""
        config = json.loads(json.dumps(proxy.config))
        for one in config["listeners"]:
            host, port = proxy.address(one["name"])
            one["listen"] = f"{host}:{port}"
        successor = Proxy(self.folder, proxy.name, {**config, **(options or {})})
        self.proxies[self.proxies.index(proxy)] = successor
        successor.wait_ready()
        if proxy is self.inbound:
            self.inbound = successor
        else:
            self.outbound = successor
        return successor

    def replace_each(self, count=HAND_OVERS):
        for number in range(count):
            proxy = self.outbound if number % 2 else self.inbound
            successor, _ = self.replace(proxy)
            self.assertRegex(successor.log(), r" event=taken_back connections=\d+ ended=0 ")
            self.assertEqual(successor.metrics().value("fairlead_taken_back_total", result="lost"), 0)

    def test_requests_go_on(self):
        self.start_keeping_pair(peers.echo)
        clients = [PingPong(self.entry) for _ in range(10)]
        self.replace_each()
        longest = [client.finish() for client in clients]
        self.assertGreater(min(client.rounds for client in clients), HAND_OVERS)
        print(f"hand_over: {HAND_OVERS} hand-overs, longest gap of 10 clients {max(longest) * 1000:.0f} ms")
        self.assertLess(max(longest) * 1000, GAP_MILLISECONDS * float(seconds(1)))

    def test_streams_lose_nothing(self):
        count = amount(400_000_000)

        def speak_and_listen(sock):
            sender = peers.Task(peers.send_random, sock, count, 2)
            received = peers.receive_digest(sock)
            return received, sender.finish()
        self.start_keeping_pair(speak_and_listen)
        socks = [peers.connect(self.entry) for _ in range(3)]

        def talk(sock, seed):
            sender = peers.Task(peers.send_random, sock, count, seed)
            sent = None

            def end():
                nonlocal sent
                sent = sender.finish(120)
                sock.shutdown(socket.SHUT_WR)
            ender = peers.Task(end)
            received = peers.Digest()
            while received.count < count:
                received.add(sock.recv(peers.BLOCK_BYTES))
            ender.finish(120)
            return sent, received.value()
        tasks = [peers.Task(talk, sock, seed) for seed, sock in enumerate(socks)]
        self.replace_each()
        said = [task.finish(120) for task in tasks]
        heard = self.server.results(3)
        self.assertEqual(sorted(sent for sent, _ in said), sorted(received for received, _ in heard))
        self.assertEqual(sorted(received for _, received in said), sorted(sent for _, sent in heard))
        for sock in socks:
            sock.close()

    def test_a_crowd_in_all_states(self):
        """200 connections, most of them slow or idle, and 50 hand-overs."""
        count = amount(200)

        def converse(sock):
            # The first byte says how: requests, or a stream to the end of it, with a digest as the answer.
            if sock.recv(1) == b"r":
                return peers.echo(sock)
            return sock.sendall(peers.receive_digest(sock)[1].encode())
        self.start_keeping_pair(converse)
        stop = threading.Event()
        gaps, rounds = [], []

        def request(pause):
            longest = number = 0
            with peers.connect(self.entry) as sock:
                sock.sendall(b"r")
                while not stop.wait(pause) or number == 0:
                    message = number.to_bytes(8, "big") * 16
                    before = time.monotonic()
                    peers.assert_echo(sock, message)
                    longest = max(longest, time.monotonic() - before)
                    number += 1
            gaps.append(longest)
            rounds.append(number)

        def stream(seed):
            with peers.connect(self.entry) as sock:
                sock.sendall(b"s")
                digest, part = peers.Digest(), bytes([seed % 256]) * 1000
                while not stop.wait(0.01):
                    sock.sendall(part)
                    digest.add(part)
                sock.shutdown(socket.SHUT_WR)
                self.assertEqual(peers.receive_all(sock).decode(), digest.value()[1])

        def stay_half_closed():
            with peers.connect(self.entry) as sock:
                sock.sendall(b"sabc")
                stop.wait()
                sock.shutdown(socket.SHUT_WR)
                self.assertEqual(peers.receive_all(sock).decode(), hashlib.sha256(b"abc").hexdigest())
        kinds = [lambda i: (request, 0.05 + i / 1000), lambda i: (stream, i), lambda i: (request, 3.0),
                 lambda i: (stay_half_closed,)]
        tasks = [peers.Task(*kinds[i % 4](i)) for i in range(count)]
        wait_until(lambda: len(self.server.tasks) == count, "all to be connected")
        self.replace_each(amount(50))
        stop.set()
        for task in tasks:
            task.finish()
        print(f"hand_over: {amount(50)} hand-overs of {count} connections, {sum(rounds)} requests, longest "
              f"{max(gaps) * 1000:.0f} ms, median of the longest {sorted(gaps)[len(gaps) // 2] * 1000:.0f} ms")

    def test_half_closed(self):
        self.start_keeping_pair(peers.echo_at_end)
        sock = peers.connect(self.entry)
        with sock:
            sock.sendall(b"question")
            self.replace_each(2)
            sock.shutdown(socket.SHUT_WR)
            self.assertEqual(peers.receive_all(sock), b"question")

    def test_half_closed_before(self):
        release = threading.Event()

        def answer_later(sock):
            question = peers.receive_all(sock)
            release.wait(seconds(30))
            sock.sendall(question * 2)
        self.start_keeping_pair(answer_later)
        with peers.connect(self.entry) as sock:
            sock.sendall(b"question")
            sock.shutdown(socket.SHUT_WR)
            self.replace_each(2)
            release.set()
            self.assertEqual(peers.receive_all(sock), b"question" * 2)

    def test_new_connections_wait(self):
        """Clients that come while no process is there find the next one."""
        self.start_keeping_pair(peers.echo_at_end)
        stop = threading.Event()
        made = []

        def come():
            while not stop.is_set():
                self.assertEqual(peers.exchange(self.entry, b"hello"), b"hello")
                made.append(1)
        tasks = [peers.Task(come) for _ in range(4)]
        self.replace_each()
        stop.set()
        for task in tasks:
            task.finish()
        self.assertGreater(len(made), HAND_OVERS)

    def test_urgent_byte_under_way(self):
        got = {}

        def hear(sock):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, 1)
            got["first"] = peers.receive_exactly(sock, 5)
            sock.sendall(b"!")
            got["rest"] = peers.receive_all(sock)
        self.start_keeping_pair(hear)
        with peers.connect(self.entry) as sock:
            sock.sendall(b"first")
            self.assertEqual(peers.receive_exactly(sock, 1), b"!")
            sock.send(b"u", socket.MSG_OOB)
            self.replace_each(2)
            sock.sendall(b"behind")
            sock.shutdown(socket.SHUT_WR)
            peers.receive_all(sock)
        self.server.results(1)
        self.assertEqual(got, {"first": b"first", "rest": b"ubehind"})

    def test_without_a_keeper_it_drains(self):
        self.start_keeping_pair(peers.echo)
        with peers.connect(self.entry) as sock:
            peers.assert_echo(sock, b"x")
            self.outbound.terminate()
            self.outbound.wait_exit()
            self.assertTrue(peers.ends_in_reset(sock))

    def check_a_keeper_that_dies(self, name):
        """What it held is lost, and no application may take that for the end of all bytes."""
        heard = []

        def listen(sock):
            sock.sendall(peers.receive_exactly(sock, 1))
            heard.append(peers.ends_in_reset(sock))
        self.start_keeping_pair(listen)
        proxy = {"out": self.outbound, "in": self.inbound}[name]
        with peers.connect(self.entry) as sock:
            peers.assert_echo(sock, b"x")
            with self.start_keeper(proxy) as ctl:
                self.assertEqual(proxy.wait_exit(), 0, proxy.log())
                self.assertIn(" event=parked ", proxy.log())
                ctl.kill()
            self.assertTrue(peers.ends_in_reset(sock))
        self.server.results(1)
        self.assertEqual(heard, [True])

    def check_failed_hand_over(self, fail, waits=0):
        """`fail` is what a keeper does, once it has accepted what the proxy offers. The connections go on in the proxy, which
        serves new ones too, and ends with the last."""
        self.start_keeping_pair(peers.echo, {"drain": {"timeout": f"{seconds(60):.0f}s"}})
        for name in ("in", "out"):
            with self.subTest(name), FailingKeeper(self, name) as keeper:
                client = PingPong(self.entry)
                wait_until(lambda c=client: c.rounds > 0, "the first answer")
                proxy = self.proxies[("in", "out").index(name)]
                keeper.ask_to_park()
                fail(keeper)
                wait_until(lambda p=proxy: " event=not_parked " in p.log(), "the proxy to go on", waits + 20)
                rounds = client.rounds
                wait_until(lambda c=client, r=rounds: c.rounds > r + 10, "the connection to go on")
                with peers.connect(self.entry) as sock:
                    peers.assert_echo(sock, b"new")
                client.finish()
                # Only now the keeper lets go of what it has.
                self.assertEqual(proxy.wait_exit(), 0, proxy.log())
            self.assertRegex(proxy.log(), r" event=not_parked connections=1 ")
            self.succeed(proxy)

    def test_a_keeper_that_refuses_what_it_has_accepted(self):
        self.check_failed_hand_over(lambda keeper: keeper.say(keeper_record.REFUSED, refusal=keeper_record.MALFORMED))

    def test_a_keeper_that_leaves_with_what_it_has_got(self):
        def leave(keeper):
            keeper.receive_parcel()
            keeper.link.close()
        self.check_failed_hand_over(leave)

    def test_a_keeper_that_answers_no_more(self):
        """It has copies of all sockets as long as the proxy lives, and the connections end all the same."""
        self.check_failed_hand_over(lambda keeper: keeper.receive_parcel(), waits=PARK_SECONDS)

    def test_a_keeper_that_accepts_and_reads_no_more(self):
        self.check_failed_hand_over(lambda keeper: None, waits=PARK_SECONDS)

    def test_a_keeper_that_dies_ends_no_stream_of_a_client_in_order(self):
        self.check_a_keeper_that_dies("out")

    def test_a_keeper_that_dies_ends_no_stream_of_a_server_in_order(self):
        self.check_a_keeper_that_dies("in")

    def test_a_reset_still_arrives(self):
        release = threading.Event()

        def go(sock):
            peers.receive_exactly(sock, 1)
            sock.sendall(b"x")
            release.wait(seconds(30))
            peers.reset(sock)
        self.start_keeping_pair(go)
        with peers.connect(self.entry) as sock:
            peers.assert_echo(sock, b"x")
            self.replace_each(2)
            release.set()
            self.assertTrue(peers.ends_in_reset(sock))


@unittest.skipUnless(VARIANT == "direct", "once is enough")
class HandOverInFrames(HandOver):
    """The same with connections that stay in frames."""

    options = {"smc": {"defer_bytes": "64KiB", "defer_turns": 1000, "defer_time": "1h"}}


if __name__ == "__main__":
    main()
