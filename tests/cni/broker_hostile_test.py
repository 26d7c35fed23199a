"""Goal: a hostile pod gets only its own objects from the broker, and cannot exclude other pods. Method: as in
broker_test.py, but the devices are sockets of the test, which send messages that no sidecar sends."""
import contextlib
import fcntl
import os
import re
import resource
import select
import signal
import socket
import struct
import subprocess
import threading
import time
from pathlib import Path

import brokered
import plugin
from agent_attackers import watchers
from attacked import processor_seconds
from brokered import (BLANK, CHANNEL, CHANNEL_BYTES, CONNECT, FREE, GRANT, GRANTED, LAYOUT, REFUSED, REGISTER,
                      REQUEST, ROOM, SLOTS, TAKE, TAKEN, UNKNOWN_PEER, VERSION, WELCOME)
from wired import harness

# Limits of one pod: cni/node/broker/broker_book.h.
REQUESTS_PER_SECOND = 1024
REQUESTS_BURST = 4096
PER_CONNECT = 4
SECONDS_PER_REQUEST = 50e-6
UNREAD_PER_POD = 8  # cni/node/broker/broker_unread.h
FIRST_OWN_USER = 1 << 31  # cni/node/pods/thread_user.h


@contextlib.contextmanager
def flood(device):
    """A device that requests an unknown peer without a pause; yields the number of answers so far."""
    answers = []
    over = threading.Event()

    def ask():
        for _ in range(16):
            device.say(CONNECT, b"nobody00")
        while not over.is_set():
            answers.append(device.hear())
            device.say(CONNECT, b"nobody00")
    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield answers
    finally:
        over.set()
        thread.join()


class Hostile(brokered.BrokerTest):
    def enrolled(self, *peers):
        """A device in a pod of its own for each peer id."""
        devices = [self.device(self.wired_pod(plugin.IN)) for _ in peers]
        for device, peer in zip(devices, peers):
            self.assertEqual(device.enroll(peer)[0], WELCOME)
        return devices

    def test_pod_that_ends_is_let_go(self):
        pod = self.wired_pod(plugin.IN)
        self.wait_node(1, "fairlead_node_broker_pods", state="open")
        device = self.device(pod)
        self.assertEqual(device.enroll(b"A" * 8)[0], WELCOME)
        self.good("DEL", pod, cniVersion="1.0.0")
        self.assertIsNone(device.hear())
        self.wait_node(0, "fairlead_node_broker_pods", state="open")
        self.assertEqual(self.node("fairlead_node_broker_devices"), 0)
        self.assertEqual(self.node("fairlead_node_broker_buffers"), 0)

    def test_pod_that_ends_without_a_word_is_let_go(self):
        """Otherwise its network namespace would exist as long as the broker."""
        pod = self.wired_pod(plugin.IN)
        self.wait_node(1, "fairlead_node_broker_pods", state="open")
        subprocess.run(["ip", "netns", "del", pod.name], check=True)
        self.wait_node(0, "fairlead_node_broker_pods", state="open")

    def test_nothing_can_be_sent_to_the_broker(self):
        device = self.device(self.wired_pod(plugin.IN)).accept()
        with open("/dev/null", "rb") as null:
            with self.assertRaises(BrokenPipeError):
                socket.send_fds(device.link, [b"x"], [null.fileno()])
        with self.assertRaises(BrokenPipeError):
            device.link.send(b"x")
        self.assertEqual(device.enroll(b"A" * 8)[0], WELCOME)
        self.assertEqual(device.wait_blank().kind, BLANK)

    def test_other_users_and_other_words_are_sent_away(self):
        pod = self.wired_pod(plugin.IN)
        self.wait_node(1, "fairlead_node_broker_pods", state="open")
        stranger = self.device(pod, uid=1000)
        self.wait_node(1, "fairlead_node_broker_rejected_total")
        stranger.close()
        good = REQUEST.pack(REGISTER, LAYOUT, CHANNEL_BYTES, b"A" * 8, 0, 0)
        for words in (REQUEST.pack(CONNECT, 0, 0, b"A" * 8, 0, 0),
                      REQUEST.pack(TAKE, 0, 0, bytes(8), 0, 1), bytes(REQUEST.size),
                      REQUEST.pack(6, 0, 0, b"A" * 8, 0, 0), good[:2] + b"xx" + good[4:],
                      REQUEST.pack(REGISTER, LAYOUT, 0, b"A" * 8, 0, 0),
                      REQUEST.pack(REGISTER, LAYOUT, (1 << 20) + 1, b"A" * 8, 0, 0)):
            with self.subTest(words=words):
                device = self.device(pod).accept()
                device.put(words)
                device.wake()
                self.assertIsNone(device.hear())
                device.close()
        for tail in (SLOTS + 1, (1 << 64) - 1):
            device = self.device(pod).accept()
            device.ring[0:8] = struct.pack("=Q", tail)
            device.wake()
            self.assertIsNone(device.hear())
            device.close()
        device = self.device(pod)
        self.assertEqual(device.enroll(b"A" * 8), (WELCOME, 0, b"A" * 8))
        self.assertIsNone(device.enroll(b"B" * 8))

    def test_buffers_of_others_cannot_be_named(self):
        one, two = self.enrolled(b"one00000", b"two00000")
        theirs = one.wait_blank()
        for kind in (TAKE, GRANT, FREE):
            thief = self.device(self.wired_pod(plugin.IN))
            self.assertEqual(thief.enroll(b"thief%03d" % kind)[0], WELCOME)
            thief.say(kind, b"two00000", number=theirs.number)
            self.assertIsNone(thief.hear())
        # An id of another broker, an unknown id, and one that is already in use.
        own = two.wait_blank()
        two.say(TAKE, number=own.number)
        two.say(TAKE, number=own.number)
        self.assertIsNone(two.hear())
        one.say(TAKE, number=theirs.number, instance=one.instance + 1)
        self.assertIsNone(one.hear())

    def test_a_buffer_reaches_its_peer_and_its_memory_is_bounded(self):
        one, two = self.enrolled(b"one00000", b"two00000")
        blank = one.wait_blank()
        seals = fcntl.fcntl(blank.descriptors[0], fcntl.F_GET_SEALS)
        self.assertEqual(seals, fcntl.F_SEAL_SHRINK)
        os.ftruncate(blank.descriptors[0], 4096)
        fcntl.fcntl(blank.descriptors[0], fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        os.pwrite(blank.descriptors[0], b"hello", 0)
        one.say(TAKE, number=blank.number)
        one.say(GRANT, b"two00000", number=blank.number)
        self.assertEqual(two.hear(), (GRANTED, 0, b"one00000"))
        self.assertEqual((two.last.instance, two.last.number), (one.instance, blank.number))
        self.assertEqual(os.pread(two.last.descriptors[0], 5, 0), b"hello")
        with self.assertRaises(PermissionError):
            os.ftruncate(two.last.descriptors[0], 8192)
        # A device that sends Take without end gets no more than its limit.
        taken = 1
        before = self.node("fairlead_node_broker_buffers_refused_total")
        while self.node("fairlead_node_broker_buffers_refused_total") == before:
            one.link.settimeout(harness.seconds(1))
            try:
                blank = one.wait_blank()
            except TimeoutError:
                break
            os.close(blank.descriptors[0])
            one.descriptors.remove(blank.descriptors[0])
            one.say(TAKE, number=blank.number)
            taken += 1
        self.assertLessEqual(taken, 1024)
        self.assertGreater(taken, 1000)
        self.assertEqual(two.wait_blank().kind, BLANK)  # other devices still get theirs

    def test_nobody_is_known_by_the_name_of_another(self):
        victim, thief = self.wired_pod(plugin.IN), self.wired_pod(plugin.IN)
        self.wait_node(2, "fairlead_node_broker_pods", state="open")
        good = self.device(victim)
        self.assertEqual(good.enroll(b"victim01")[0], WELCOME)

        def is_taken(pod, peer):
            device = self.device(pod)
            self.assertEqual(device.enroll(peer), (REFUSED, TAKEN, peer))
            self.assertIsNone(device.hear())
            device.close()
        is_taken(thief, b"victim01")
        is_taken(thief, bytes(8))
        # Nor while the victim is absent, nor after a restart of the broker.
        good.close()
        self.wait_node(0, "fairlead_node_broker_devices")
        is_taken(thief, b"victim01")
        self.agent.kill()
        self.agent.wait()
        self.agent = self.start_agent()
        self.wait_node(2, "fairlead_node_broker_pods", state="open")
        is_taken(thief, b"victim01")
        self.assertEqual(self.device(victim).enroll(b"victim01")[0], WELCOME)
        # Each learns the identity of the other.
        caller = self.device(thief)
        self.assertEqual(caller.enroll(b"thief001")[0], WELCOME)
        caller.say(CONNECT, b"nobody00")
        self.assertEqual(caller.hear(), (REFUSED, UNKNOWN_PEER, b"nobody00"))
        caller.say(CONNECT, b"thief001")
        self.assertEqual(caller.hear(), (CHANNEL, 0, b"thief001"))
        self.assertEqual(caller.last.side, 1)
        self.assertEqual(caller.hear(), (CHANNEL, 0, b"thief001"))
        self.assertEqual(caller.last.side, 0)

    def test_a_pair_gets_one_memory_and_bells_that_carry_nothing(self):
        one, two = self.enrolled(b"one00000", b"two00000")
        one.say(CONNECT, b"two00000")
        self.assertEqual(one.hear(), (CHANNEL, 0, b"two00000"))
        self.assertEqual(two.hear(), (CHANNEL, 0, b"one00000"))
        self.assertNotEqual(one.last.pod, two.last.pod)
        os.pwrite(one.last.descriptors[0], b"hello", 0)
        self.assertEqual(os.pread(two.last.descriptors[0], 5, 0), b"hello")
        self.assertEqual(os.fstat(two.last.descriptors[0]).st_size, CHANNEL_BYTES)
        for descriptor in one.last.descriptors[1:] + two.last.descriptors[1:]:
            with socket.socket(fileno=os.dup(descriptor)) as bell:
                for send in (lambda: bell.send(b"x"), lambda: socket.send_fds(bell, [b"x"], [0])):
                    with self.assertRaises(BrokenPipeError):
                        send()

    def test_devices_of_other_layouts_get_no_channel(self):
        one, two, three = [self.device(self.wired_pod(plugin.IN)) for _ in range(3)]
        self.assertEqual(one.enroll(b"one00000")[0], WELCOME)
        self.assertEqual(two.enroll(b"two00000", layout=LAYOUT + 1)[0], WELCOME)
        self.assertEqual(three.enroll(b"three000", channel_bytes=4096)[0], WELCOME)
        for peer in (b"two00000", b"three000"):
            one.say(CONNECT, peer)
            self.assertEqual(one.hear(), (REFUSED, VERSION, peer))

    def test_a_greedy_pod_waits_and_others_do_not(self):
        greedy, modest = self.wired_pod(plugin.IN), self.wired_pod(plugin.IN)
        self.wait_node(2, "fairlead_node_broker_pods", state="open")
        target = self.device(modest)
        self.assertEqual(target.enroll(b"target00")[0], WELCOME)
        device = self.device(greedy)
        self.assertEqual(device.enroll(b"greedy00")[0], WELCOME)
        begin = time.monotonic()
        with flood(device) as answers:
            harness.wait_until(lambda: len(answers) >= (REQUESTS_BURST + REQUESTS_PER_SECOND) / (PER_CONNECT + 2),
                               "the flood to have had its burst and a second's share", 30)
            # Requests of the flood wait, and do not delay the others.
            caller = self.device(modest)
            self.assertEqual(caller.enroll(b"caller00")[0], WELCOME)
            caller.say(CONNECT, b"target00")
            self.assertEqual(caller.hear(), (CHANNEL, 0, b"target00"))
        # It received no more than its share.
        share = (REQUESTS_BURST + REQUESTS_PER_SECOND * (time.monotonic() - begin)) / PER_CONNECT
        self.assertEqual(set(answers), {(REFUSED, UNKNOWN_PEER, b"nobody00")})
        self.assertLessEqual(len(answers), share + 1)

    def test_root_of_a_pod_shares_no_count_with_the_agent(self):
        """The kernel counts sockets in flight by real user id, and lets users that have many wait. The thread of the broker has
        a user of its own, and so has that of each pod."""
        self.assertEqual(self.device(self.wired_pod(plugin.IN)).enroll(b"A" * 8)[0], WELCOME)
        threads = [re.search(r"^Uid:\t(\d+)\t(\d+)\t(\d+)", status.read_text(encoding="ascii"), re.M).groups()
                   for status in Path(f"/proc/{self.agent.pid}/task").glob("*/status")]
        own = [ids for ids in threads if int(ids[0]) >= FIRST_OWN_USER]
        self.assertEqual([ids[1:] for ids in own], [("0", "0")] * 2, threads)
        self.assertEqual(len({real for real, _, _ in own}), 2, threads)
        self.assertEqual({ids for ids in threads if int(ids[0]) < FIRST_OWN_USER}, {("0", "0", "0")})

    def test_watchers_of_its_socket_cost_the_pod_alone(self):
        """Each record to it wakes them all, which takes milliseconds."""
        resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
        hostile, one, two = self.enrolled(b"hostile0", b"one00000", b"two00000")
        pause = threading.Event()
        with watchers(hostile.link, 200), flood(hostile) as answers:
            harness.wait_until(lambda: len(answers) > 2, "the flood to begin", 30)
            used, begin = processor_seconds(self.agent.pid), time.monotonic()
            for _ in range(40):
                one.say(CONNECT, b"two00000")
                self.assertEqual(one.hear(), (CHANNEL, 0, b"two00000"))
                self.assertEqual(two.hear(), (CHANNEL, 0, b"one00000"))
                one.drop_descriptors()
                two.drop_descriptors()
                pause.wait(0.2)
            used, passed = processor_seconds(self.agent.pid) - used, time.monotonic() - begin
        print(f"the agent used {used:.2f} s of {passed:.1f} s; {len(answers)} answers to the hostile pod")
        # The share of the hostile pod, and something for the others.
        share = SECONDS_PER_REQUEST * (REQUESTS_BURST + REQUESTS_PER_SECOND * passed)
        self.assertLess(used, share + 0.01 * passed + 0.5)

    def test_silent_guests_go_and_a_pod_has_so_many_devices(self):
        pod = self.wired_pod(plugin.IN)
        self.wait_node(1, "fairlead_node_broker_pods", state="open")
        silent = []
        for _ in range(17):  # cni/node/broker/broker_book.h: 16 unregistered connections
            silent.append(self.device(pod).accept())
        self.assertIsNone(silent[0].hear())
        for device in silent:
            device.close()
        for number in range(64):
            self.assertEqual(self.device(pod).enroll(struct.pack(">Q", number + 1))[0], WELCOME)
        self.assertEqual(self.node("fairlead_node_broker_devices"), 64)

    def test_one_that_does_not_read_is_told_of_so_many(self):
        deaf, caller = [self.device(self.wired_pod(plugin.IN)) for _ in range(2)]
        self.assertEqual(deaf.enroll(b"deaf0000")[0], WELCOME)
        self.assertEqual(caller.enroll(b"caller00")[0], WELCOME)
        kind = CHANNEL
        for _ in range(3000):
            caller.say(CONNECT, b"deaf0000")
            kind, _, _ = caller.hear()
            if kind == REFUSED:
                break
            for descriptor in caller.last.descriptors:
                os.close(descriptor)
                caller.descriptors.remove(descriptor)
        self.assertEqual(kind, REFUSED)

    def deaf_devices(self, pod, count):
        """Enrolled as deaf0000, deaf0001, ...; they read when the test does."""
        devices = [self.device(pod) for _ in range(count)]
        for number, device in enumerate(devices):
            self.assertEqual(device.enroll(b"deaf%04d" % number)[0], WELCOME)
        return devices

    def test_pods_that_do_not_read_leave_descriptors_to_others(self):
        """Channels between devices of one pod that never read; the broker keeps the descriptors of unread records."""
        self.agent.kill()
        self.agent.wait()
        self.agent = self.start_agent("prlimit", "--nofile=2048:2048")
        deaf_pod = self.wired_pod(plugin.IN)
        deaf = self.deaf_devices(deaf_pod, 8)
        for _ in range(150):
            for number in range(8):
                deaf[0].say(CONNECT, b"deaf%04d" % number)
            harness.wait_until(lambda: deaf[0].tail - struct.unpack("=Q", deaf[0].ring[64:72])[0] < 64,
                               "the broker to take the requests", 30)
        self.assertGreater(self.node("fairlead_node_broker_introductions_total", result="busy"), 0)
        # A quarter of the broker's descriptors are for waiting records.
        with open(f"/proc/{self.agent.pid}/limits", encoding="ascii") as limits:
            self.assertIn(" 2048 ", [line for line in limits if line.startswith("Max open files")][0])
        self.assertLess(len(os.listdir(f"/proc/{self.agent.pid}/fd")), 1024)
        one, two = self.enrolled(b"one00000", b"two00000")
        one.say(CONNECT, b"two00000")
        self.assertEqual(one.hear(), (CHANNEL, 0, b"two00000"))
        self.assertEqual(two.hear(), (CHANNEL, 0, b"one00000"))

    def test_few_channels_are_unread_in_the_kernel(self):
        """Their bells are sockets in flight. The kernel delays a sender by its garbage collector if there are many."""
        pod = self.wired_pod(plugin.IN)
        deaf = self.deaf_devices(pod, 4)
        for _ in range(16):
            for number in range(4):
                deaf[0].say(CONNECT, b"deaf%04d" % number)
        self.wait_node(64, "fairlead_node_broker_introductions_total", result="good")

        def read(seconds):
            channels = 0
            while ready := select.select([device.link for device in deaf], [], [], seconds)[0]:
                for device in deaf:
                    if device.link in ready:
                        channels += device.hear_any().kind == CHANNEL
                        device.drop_descriptors()
                if channels == 128:  # two for each introduction
                    break
            return channels
        self.agent.send_signal(signal.SIGSTOP)
        try:
            os.waitpid(self.agent.pid, os.WUNTRACED)
            unread = read(0)
        finally:
            self.agent.send_signal(signal.SIGCONT)
        self.assertEqual(unread, UNREAD_PER_POD)
        # The others arrive as the devices read.
        read_until = time.monotonic() + harness.seconds(10)
        while unread < 128 and time.monotonic() < read_until:
            unread += read(0.1)
        self.assertEqual(unread, 128)

    def test_a_full_ring_is_told_when_there_is_room(self):
        (device,) = self.enrolled(b"full0000")
        blank = device.wait_blank()
        device.say(TAKE, number=blank.number)
        device.ring[128:136] = struct.pack("=Q", 1)
        device.wake()
        self.assertEqual(device.hear()[0], ROOM)


if __name__ == "__main__":
    plugin.main()
