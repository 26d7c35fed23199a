"""A proxy dies, and another process takes its place: connections at rest go on, others are reset at once. No application
sees a wrong byte, an end that nobody has sent, or nothing at all."""
import json
import os
import random
import socket
import subprocess
import threading
import time
from pathlib import Path

import clc
import peers
from harness import (
    CONFINEMENT, Proxy, ProxyTest, amount, listener, main, programs, seconds, short_milliseconds, wait_until)
from last_words_test import Rendezvous, until_reset

CLIENTS = 8
PAUSES = (0, 0.001, 0.01, 0.1)  # seconds; a client with the longest one is nearly always at rest, however busy the machine is
KILLS = amount(20)
MESSAGE = 64


def sockets_of(pid):
    """How many sockets the process has open."""
    count = 0
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            count += os.readlink(link).startswith("socket:")
        except FileNotFoundError:
            pass
    return count


def message(number):
    return number.to_bytes(8, "big") * (MESSAGE // 8)


class Death(ProxyTest):
    def start_keeping_pair(self, handle, **options):
        self.server = peers.Server(handle)
        self.addCleanup(self.server.close)
        self.places = {name: f"@fairlead-keeper-{self.folder.name}-{name}" for name in ("in", "out")}
        keep = {name: {"hand_over": {"socket": place, "mode": "always"}, **options}
                for name, place in self.places.items()}
        self.start_pair(self.server.address, client=keep["out"], server=keep["in"])

    def proxy(self, name):
        return self.outbound if name == "out" else self.inbound

    def start_keeper(self, name, connections):
        """fairleadctl, once it holds the sockets of so many connections."""
        ctl = subprocess.Popen(
            [*CONFINEMENT, programs() / "ctl/fairleadctl", "-o", "json", "hand-over", "--on-death", "--keeper-socket",
             self.places[name]], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end_keeper, ctl)
        listeners = len(self.proxy(name).config["listeners"])
        wait_until(lambda: sockets_of(ctl.pid) >= 1 + listeners + 2 * connections,
                   f"the keeper to hold {connections} connections")
        return ctl

    @staticmethod
    def end_keeper(ctl):
        if ctl.poll() is None:
            ctl.kill()
        ctl.communicate()

    def start_next(self, name, ctl):
        """The next process in the place of one that was killed; returns what fairleadctl says."""
        old = self.proxy(name)
        config = json.loads(json.dumps(old.config))
        for one in config["listeners"]:
            one["listen"] = self.addresses[name, one["name"]]
        successor = Proxy(self.folder, name, config)
        self.proxies[self.proxies.index(old)] = successor
        if name == "in":
            self.inbound = successor
        else:
            self.outbound = successor
        successor.wait_ready()
        said, complaint = ctl.communicate(timeout=seconds(20))
        self.assertEqual(ctl.returncode, 0, complaint)
        self.assertRegex(successor.log(), r" event=taken_back .* after=death ")
        return json.loads(said)

    def note_addresses(self, *names):
        self.addresses = {}
        for name in names or ("in", "out"):
            for one in self.proxy(name).config["listeners"]:
                host, port = self.proxy(name).address(one["name"])
                self.addresses[name, one["name"]] = f"{host}:{port}"

    def check_rest(self, name, **options):
        self.start_keeping_pair(peers.echo, **options)
        self.note_addresses()
        socks = [peers.connect(self.entry) for _ in range(CLIENTS)]
        for number, sock in enumerate(socks):
            sock.sendall(message(number))
            self.assertEqual(peers.receive_exactly(sock, MESSAGE), message(number))
        ctl = self.start_keeper(name, CLIENTS)
        self.proxy(name).wait_rest()
        self.proxy(name).kill()
        said = self.start_next(name, ctl)
        self.assertEqual(said["reset"], 0)
        for number, sock in enumerate(socks):
            with sock:
                sock.sendall(message(number + 100))
                self.assertEqual(peers.receive_exactly(sock, MESSAGE), message(number + 100))
                sock.shutdown(socket.SHUT_WR)
                self.assertEqual(sock.recv(1), b"")
        self.server.results(CLIENTS)
        self.assertEqual(self.proxy(name).metrics().value("fairlead_taken_back_total", result="lost"), 0)

    def test_idle_in_tcp_behind_the_client(self):
        self.check_rest("out", smc={"enabled": False})

    def test_idle_in_tcp_before_the_server(self):
        self.check_rest("in", smc={"enabled": False})

    def test_idle_in_frames_behind_the_client(self):
        self.check_rest("out", smc={"defer_bytes": "64KiB", "defer_time": "1h"})

    def test_idle_in_frames_before_the_server(self):
        self.check_rest("in", smc={"defer_bytes": "64KiB", "defer_time": "1h"})

    def check_half_closed(self, name, **options):
        """The end that one side has said before is still known."""
        release = threading.Event()

        def answer_later(sock):
            heard = peers.receive_all(sock)
            release.wait(seconds(30))
            sock.sendall(heard)
        self.start_keeping_pair(answer_later, **options)
        self.note_addresses()
        with peers.connect(self.entry) as sock:
            sock.sendall(message(1))
            sock.shutdown(socket.SHUT_WR)
            ctl = self.start_keeper(name, 1)
            self.proxy(name).wait_rest()
            self.proxy(name).kill()
            self.start_next(name, ctl)
            release.set()
            self.assertEqual(peers.receive_all(sock), message(1))

    def test_half_closed_in_tcp(self):
        self.check_half_closed("out", smc={"enabled": False})

    def test_half_closed_in_frames(self):
        self.check_half_closed("in", smc={"defer_bytes": "64KiB", "defer_time": "1h"})

    def check_reset(self, name, **options):
        """Neither side takes the death of a proxy for an end of the other side."""
        ends = []

        def hear(sock):
            sock.sendall(peers.receive_exactly(sock, 1))
            ends.append(peers.ends_in_reset(sock))
        self.start_keeping_pair(hear, **options)
        self.note_addresses()
        with peers.connect(self.entry) as sock:
            sock.sendall(b"x")
            self.assertEqual(peers.receive_exactly(sock, 1), b"x")
            wait_until(lambda: self.outbound.metrics().connections("smcr") == 1, "SMC-R")
            ctl = self.start_keeper(name, 1)
            before = time.monotonic()
            self.proxy(name).kill()
            self.assertTrue(peers.ends_in_reset(sock))
            self.assertLess(time.monotonic() - before, seconds(2))
            self.assertEqual(self.start_next(name, ctl)["reset"], 1)
        self.server.results(1)
        self.assertEqual(ends, [True])

    def test_smcr_is_reset_at_once_behind_the_client(self):
        self.check_reset("out", smc={"defer_bytes": "0"})

    def test_smcr_is_reset_at_once_before_the_server(self):
        self.check_reset("in", smc={"defer_bytes": "0"})

    def check_random_moments(self, **options):
        """Each client gets its own bytes, or a reset. Then it comes again."""
        self.start_keeping_pair(peers.echo, **options)
        self.note_addresses()
        stop = threading.Event()
        rounds, resets = [0] * CLIENTS, [0] * CLIENTS

        def talk(index):
            while not stop.is_set():
                try:
                    with peers.connect(self.entry) as sock:
                        while not stop.is_set():
                            said = message((index << 32) + rounds[index])
                            sock.sendall(said)
                            if peers.receive_exactly(sock, MESSAGE) != said:
                                raise AssertionError(f"another answer in round {rounds[index]} of client {index}")
                            rounds[index] += 1
                            time.sleep(PAUSES[index % len(PAUSES)])
                except (ConnectionResetError, BrokenPipeError):
                    resets[index] += 1
        tasks = [peers.Task(talk, index) for index in range(CLIENTS)]
        moments = random.Random(1)
        kept = 0
        for number in range(KILLS):
            name = "out" if number % 2 else "in"
            ctl = self.start_keeper(name, 1)
            time.sleep(moments.uniform(0, 0.05))  # no wait for anything: the moment is what is tested
            self.proxy(name).kill()
            self.start_next(name, ctl)
            found = self.proxy(name).metrics().value("fairlead_taken_back_total", result="kept")
            kept += found
        before = list(rounds)

        def all_go_on():
            for task in tasks:
                if not task.is_alive():
                    task.finish()  # says why it has ended
            return all(now > then for now, then in zip(rounds, before))
        wait_until(all_go_on, "every client to go on")
        stop.set()
        for task in tasks:
            task.finish(60)
        print(f"death: {KILLS} kills, {kept:.0f} connections went on, {sum(resets)} were reset, "
              f"{sum(rounds)} answers were right")
        return kept

    def test_random_moments_in_tcp(self):
        self.assertGreater(self.check_random_moments(smc={"enabled": False}), 0)

    def test_random_moments_in_frames(self):
        in_frames = {"defer_bytes": "64KiB", "defer_turns": 1000, "defer_time": "1h"}
        self.assertGreater(self.check_random_moments(smc=in_frames), 0)

    def test_random_moments_with_the_defaults(self):
        self.check_random_moments()

    def test_a_keeper_that_comes_later_learns_of_all(self):
        self.check_rest("out", smc={"enabled": False})
        # The keeper of check_rest() has gone, and its successor comes to a proxy with connections.
        with peers.connect(self.entry) as sock:
            sock.sendall(message(7))
            self.assertEqual(peers.receive_exactly(sock, MESSAGE), message(7))
            first = self.start_keeper("out", 1)
            self.end_keeper(first)
            second = self.start_keeper("out", 1)
            self.outbound.wait_rest()
            self.outbound.kill()
            self.start_next("out", second)
            sock.sendall(message(8))
            self.assertEqual(peers.receive_exactly(sock, MESSAGE), message(8))

    def test_a_connection_that_was_dialled_again(self):
        """After a handshake in vain the connection has another socket, and that one outlives the proxy."""
        def be_silent(sock):
            clc.receive(sock, clc.PROPOSAL)
            peers.receive_all(sock)
        behaviours = [be_silent, peers.echo]
        self.server = peers.Server(lambda sock: behaviours.pop(0)(sock))
        self.addCleanup(self.server.close)
        self.places = {"out": f"@fairlead-keeper-{self.folder.name}-out"}
        self.outbound = self.start(
            "out", [listener("out", "outbound", self.server.address)],
            {"hand_over": {"socket": self.places["out"], "mode": "always"},
             "smc": {"assume": ["127.0.0.0/8"], "handshake_timeout": f"{short_milliseconds()}ms"}})
        self.note_addresses("out")
        with peers.connect(self.outbound.address("out")) as sock:
            sock.sendall(message(1))
            self.assertEqual(peers.receive_exactly(sock, MESSAGE), message(1))
            self.wait_fallback(self.outbound, "handshake_timeout")
            ctl = self.start_keeper("out", 1)
            self.outbound.wait_rest()
            self.outbound.kill()
            self.assertEqual(self.start_next("out", ctl)["reset"], 0)
            sock.sendall(message(2))
            self.assertEqual(peers.receive_exactly(sock, MESSAGE), message(2))

    def test_an_end_in_order_still_parks(self):
        self.start_keeping_pair(peers.echo)
        self.note_addresses()
        with peers.connect(self.entry) as sock:
            sock.sendall(message(1))
            self.assertEqual(peers.receive_exactly(sock, MESSAGE), message(1))
            ctl = self.start_keeper("out", 1)
            self.outbound.terminate()
            self.assertEqual(self.outbound.wait_exit(), 0)
            old = self.outbound
            self.assertIn(" event=parked ", old.log())
            config = json.loads(json.dumps(old.config))
            for one in config["listeners"]:
                one["listen"] = self.addresses["out", one["name"]]
            successor = Proxy(self.folder, "out", config)
            self.proxies[self.proxies.index(old)] = self.outbound = successor
            successor.wait_ready()
            ctl.communicate(timeout=seconds(20))
            sock.sendall(message(2))
            self.assertEqual(peers.receive_exactly(sock, MESSAGE), message(2))

    def test_many_short_connections_leave_nothing_at_the_keeper(self):
        self.start_keeping_pair(peers.echo)
        ctl = self.start_keeper("out", 0)
        before = sockets_of(ctl.pid)
        for number in range(amount(300)):
            self.assertEqual(peers.exchange(self.entry, message(number)), message(number))
        wait_until(lambda: sockets_of(ctl.pid) == before, "the keeper to let go of the sockets")


class WithoutAKeeper(ProxyTest):
    """The default: no application takes the death of a proxy for the end of the data."""

    def check(self, client=None, server=None):
        for killed in ("in", "out"):
            with self.subTest(killed=killed):
                meeting = Rendezvous()
                with peers.Server(meeting.handle) as application:
                    self.start_pair(application.address, client, server)
                    with peers.connect(self.entry) as client_side:
                        client_side.sendall(b"half a question")
                        server_side, done = meeting.meet()
                        peers.receive_exactly(server_side, len(b"half a question"))
                        server_side.sendall(b"half an answer")
                        peers.receive_exactly(client_side, len(b"half an answer"))
                        wait_until(lambda: all(self.lasts(proxy) for proxy in (self.inbound, self.outbound)),
                                   "the connection to last")
                        (self.inbound if killed == "in" else self.outbound).kill()
                        for side in (client_side, server_side):
                            self.assertEqual(until_reset(side), (b"", "reset"))
                        done.set()

    @staticmethod
    def lasts(proxy):
        """It has been carried for longer than relay::kLastingFrom."""
        return all(row["age_seconds"] > 1.5 for row in proxy.get_json("/connections")["connections"])

    def test_over_smcr(self):
        self.check()

    def test_in_frames(self):
        frames = {"smc": {"defer_bytes": "64KiB", "defer_turns": 1000, "defer_time": "1h"}}
        self.check(frames, frames)

    def test_over_tcp(self):
        self.check({"smc": {"enabled": False}}, {"smc": {"enabled": False}})

    def test_over_tcp_behind_a_decline(self):
        self.check({"smc": {"ueids": ["ONE"]}}, {"smc": {"ueids": ["TWO"]}})


main()
