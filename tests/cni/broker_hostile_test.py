"""Goal: a hostile pod gets from the broker what is its own, and keeps nobody else from it. Method: as in
broker_test.py, but the devices are sockets of the test, which say what no sidecar would."""
import contextlib
import select
import socket
import struct
import subprocess
import threading
import time

import brokered
import plugin
from brokered import INTRODUCE, INTRODUCED, LIMIT, REFUSED, REGISTER, TAKEN, UNKNOWN_PEER, VISITOR, WELCOME, record
from wired import harness

# Of one pod: cni/node/broker_book.h.
REQUESTS_PER_SECOND = 256
REQUESTS_BURST = 1024
# The broker hangs up on who leaves some forty answers unread.
UNREAD_MAX = 16


@contextlib.contextmanager
def flood(device):
    """A device that asks for nobody without a pause; gives the answers it has had so far."""
    answers = []
    over = threading.Event()

    def ask():
        for _ in range(UNREAD_MAX):
            device.say(INTRODUCE, b"nobody00")
        while not over.is_set():
            answers.append(device.hear())
            device.say(INTRODUCE, b"nobody00")
    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield answers
    finally:
        over.set()
        thread.join()


class Hostile(brokered.BrokerTest):
    def test_pod_that_ends_is_let_go(self):
        pod = self.wired_pod(plugin.IN)
        self.wait_node(1, "fairlead_node_broker_pods", state="open")
        device = self.device(pod)
        self.assertEqual(device.enroll(b"A" * 8)[0], WELCOME)
        self.good("DEL", pod, cniVersion="1.0.0")
        self.assertIsNone(device.hear())
        self.wait_node(0, "fairlead_node_broker_pods", state="open")
        self.assertEqual(self.node("fairlead_node_broker_devices"), 0)

    def test_pod_that_ends_without_a_word_is_let_go(self):
        """Else its network namespace would live as long as the broker."""
        pod = self.wired_pod(plugin.IN)
        self.wait_node(1, "fairlead_node_broker_pods", state="open")
        subprocess.run(["ip", "netns", "del", pod.name], check=True)
        self.wait_node(0, "fairlead_node_broker_pods", state="open")

    def test_other_users_and_other_words_are_sent_away(self):
        pod = self.wired_pod(plugin.IN)
        self.wait_node(1, "fairlead_node_broker_pods", state="open")
        self.assertIsNone(self.device(pod, uid=1000).hear())
        for words in (b"", b"x", record(REGISTER, b"A" * 8) + b"x", record(REGISTER, b"A" * 8, magic=b"FLsh"),
                      record(REGISTER, b"A" * 8, version=2), record(INTRODUCE, b"A" * 8),
                      record(0, b"A" * 8), record(WELCOME, b"A" * 8), record(7, b"A" * 8)):
            device = self.device(pod)
            device.socket.send(words)
            self.assertIsNone(device.hear(), words)
        device = self.device(pod)
        with open("/dev/null", "rb") as null:
            socket.send_fds(device.socket, [record(REGISTER, b"A" * 8)], [null.fileno()])
        self.assertIsNone(device.hear())
        device = self.device(pod)
        self.assertEqual(device.enroll(b"A" * 8), (WELCOME, 0, b"A" * 8))
        self.assertIsNone(device.enroll(b"B" * 8))

    def test_nobody_is_known_by_the_name_of_another(self):
        victim, thief = self.wired_pod(plugin.IN), self.wired_pod(plugin.IN)
        self.wait_node(2, "fairlead_node_broker_pods", state="open")
        good = self.device(victim)
        self.assertEqual(good.enroll(b"victim01")[0], WELCOME)
        self.assertEqual(self.device(thief).enroll(b"victim01"), (REFUSED, TAKEN, b"victim01"))
        self.assertEqual(self.device(thief).enroll(bytes(8)), (REFUSED, TAKEN, bytes(8)))
        # Nor while the victim is away, nor when the broker has been another meanwhile.
        good.close()
        self.wait_node(0, "fairlead_node_broker_devices")
        self.assertEqual(self.device(thief).enroll(b"victim01"), (REFUSED, TAKEN, b"victim01"))
        self.agent.kill()
        self.agent.wait()
        self.agent = self.start_agent()
        self.wait_node(2, "fairlead_node_broker_pods", state="open")
        self.assertEqual(self.device(thief).enroll(b"victim01"), (REFUSED, TAKEN, b"victim01"))
        self.assertEqual(self.device(victim).enroll(b"victim01")[0], WELCOME)
        # Each is told who the other is.
        caller = self.device(thief)
        self.assertEqual(caller.enroll(b"thief001")[0], WELCOME)
        caller.say(INTRODUCE, b"nobody00")
        self.assertEqual(caller.hear(), (REFUSED, UNKNOWN_PEER, b"nobody00"))
        caller.say(INTRODUCE, b"thief001")
        self.assertEqual(caller.hear(), (VISITOR, 0, b"thief001"))
        self.assertEqual(caller.hear(), (INTRODUCED, 0, b"thief001"))

    def test_a_pair_gets_two_ends_of_one_socket(self):
        pods = [self.wired_pod(plugin.IN), self.wired_pod(plugin.IN)]
        self.wait_node(2, "fairlead_node_broker_pods", state="open")
        one, two = [self.device(pod) for pod in pods]
        self.assertEqual(one.enroll(b"one00000")[0], WELCOME)
        self.assertEqual(two.enroll(b"two00000")[0], WELCOME)
        one.say(INTRODUCE, b"two00000")
        self.assertEqual(one.hear(), (INTRODUCED, 0, b"two00000"))
        self.assertEqual(two.hear(), (VISITOR, 0, b"one00000"))
        one.passed[0].send(b"hello")
        self.assertEqual(two.passed[0].recv(10), b"hello")

    def test_a_greedy_pod_waits_and_others_do_not(self):
        greedy, modest = self.wired_pod(plugin.IN), self.wired_pod(plugin.IN)
        self.wait_node(2, "fairlead_node_broker_pods", state="open")
        target = self.device(modest)
        self.assertEqual(target.enroll(b"target00")[0], WELCOME)
        device = self.device(greedy)
        self.assertEqual(device.enroll(b"greedy00")[0], WELCOME)
        begin = time.monotonic()
        with flood(device) as answers:
            harness.wait_until(lambda: len(answers) >= REQUESTS_BURST + REQUESTS_PER_SECOND,
                               "the flood to have had its burst and a second's share", 20)
            # What the flood has to wait for does not delay the others.
            asked = time.monotonic()
            caller = self.device(modest)
            self.assertEqual(caller.enroll(b"caller00")[0], WELCOME)
            caller.say(INTRODUCE, b"target00")
            self.assertEqual(caller.hear(), (INTRODUCED, 0, b"target00"))
            self.assertLess(time.monotonic() - asked, harness.seconds(2))
        # It got no more than its share.
        share = REQUESTS_BURST + REQUESTS_PER_SECOND * (time.monotonic() - begin)
        self.assertEqual(set(answers), {(REFUSED, UNKNOWN_PEER, b"nobody00")})
        self.assertLessEqual(len(answers), share)

    def test_a_pod_has_so_many_devices_and_silent_guests_go(self):
        pod = self.wired_pod(plugin.IN)
        self.wait_node(1, "fairlead_node_broker_pods", state="open")
        silent = [self.device(pod) for _ in range(17)]
        self.assertIsNone(silent[0].hear())
        for number in range(64):
            self.assertEqual(self.device(pod).enroll(struct.pack(">Q", number + 1))[0], WELCOME)
        self.assertEqual(self.device(pod).enroll(b"toomany0"), (REFUSED, LIMIT, b"toomany0"))

    def test_one_that_does_not_read_its_answers_is_hung_up_on(self):
        pod = self.wired_pod(plugin.IN)
        self.wait_node(1, "fairlead_node_broker_pods", state="open")
        device = self.device(pod)
        self.assertEqual(device.enroll(b"deaf0000")[0], WELCOME)
        with self.assertRaises((BrokenPipeError, ConnectionResetError)):
            for _ in range(REQUESTS_BURST):
                device.say(INTRODUCE, b"nobody00")
        self.wait_node(0, "fairlead_node_broker_devices")

    def test_one_that_does_not_read_is_told_of_so_many(self):
        pods = [self.wired_pod(plugin.IN), self.wired_pod(plugin.IN)]
        self.wait_node(2, "fairlead_node_broker_pods", state="open")
        deaf, caller = [self.device(pod) for pod in pods]
        self.assertEqual(deaf.enroll(b"deaf0000")[0], WELCOME)
        self.assertEqual(caller.enroll(b"caller00")[0], WELCOME)
        refused = None
        for _ in range(900):
            caller.say(INTRODUCE, b"deaf0000")
            kind, refused, _ = caller.hear()
            if kind == REFUSED:
                break
            caller.passed.pop().close()
        self.assertEqual(kind, REFUSED)
        self.assertFalse(select.select([caller.socket], [], [], 0)[0])


if __name__ == "__main__":
    plugin.main()
