"""fairlead-node broker: the broker without the agent."""
import os
import subprocess
import unittest

import peers
from harness import ProxyTest, listener, main, seconds, wait_until
from node_broker import PROGRAM, NodeBroker


class Alone(ProxyTest):
    def setUp(self):
        super().setUp()
        self.server = peers.Server(peers.echo)
        self.addCleanup(self.server.close)

    def talk(self):
        with peers.connect(self.entry) as sock:
            peers.assert_echo(sock, b"x" * 10_000)

    def test_proxies_of_another_user_are_ignored(self):
        self.broker = NodeBroker("--uid", str(os.geteuid() + 1))
        self.waits_for_broker = False
        self.start_pair(self.server.address)
        wait_until(lambda: "listener_of_another_user" in self.broker.log(), "the broker to see the proxies")
        self.talk()
        self.wait_fallback(self.outbound, "no_rdma_device")
        self.assertNotIn('"active"', self.inbound.get("/devices"))

    def test_the_next_broker_takes_over(self):
        self.start_pair(self.server.address)
        with peers.connect(self.entry) as sock:
            peers.assert_echo(sock, b"before")
            self.broker.restart()
            peers.assert_echo(sock, b"without a broker, or with the next one")
            # Only the next broker can bring them together. It has the identity of the fabric from the first.
            late = self.start("late", [listener("out", "outbound", self.inbound.address("in"))])
            self.entry = late.address("out")
            self.talk()
            peers.assert_echo(sock, b"after")
        self.assert_smcr()

    def test_a_wrong_command_line_names_the_option(self):
        for words, said in ((["--socket-name", "name"], '--socket-name: "name" is not allowed; allowed: "@" and a name'),
                            (["--socket-name", "@" + "x" * 104], "at most 103 characters"),
                            (["--netns-dir", "here"], "--netns-dir: "), (["--uid", "x"], "--uid")):
            with self.subTest(words):
                done = subprocess.run([PROGRAM, "broker", *words], capture_output=True, text=True, check=False, timeout=seconds(10))
                self.assertEqual(done.returncode, 64)
                self.assertIn(said, done.stderr)
                self.assertLessEqual(done.stderr.count(words[0]), 1)


if __name__ == "__main__":
    main()
