"""A proxy is killed: its connections are reset, and no application takes that for an end of the other side."""
import peers
from harness import ProxyTest, main, wait_until
from last_words_test import Rendezvous, until_reset


class Death(ProxyTest):
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
