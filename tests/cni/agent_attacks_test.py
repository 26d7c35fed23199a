"""Goal: whatever a pod does to the node agent where the agent keeps connections and sends descriptors, the agent lives,
and other pods keep their connections and get new ones. Method: two honest pods with sidecars and a crowd of connections,
beside pods whose processes attack; a sidecar of the honest ones is replaced meanwhile, which is when it needs the agent.
"""
import resource
import select
import signal
import time

import attacked
import plugin
from attacked import BUSY_SHARE_MAX, CROWD, KEEPING, busy_share, sockets_of
from brokered import SIDECAR_UID
from wired import harness, listen_in

SOCKETS_OF_SIDECARS = ("fairlead-client-address", "fairlead-keeper", "fairlead-proxy-0")


class AgentAttacks(attacked.Attacked):
    def check_deaf_senders(self, *hows):
        self.start_victims()
        attackers = [self.attacker(self.wired_pod(plugin.IN), "deaf_sender", how) for how in hows]
        for attacker in attackers:
            self.wait_said(attacker, "done")
        self.assertEqual(self.replace(may_drain=False), "handed over")
        self.assert_agent_lives()

    def test_one_that_parks_nothing_and_does_not_hear_the_answer(self):
        self.check_deaf_senders("shut")

    def test_others_that_park_and_do_not_hear_the_answer(self):
        self.check_deaf_senders("closed", "unread", "descriptors")

    def test_one_that_parks_again_at_once_and_does_not_hear_the_answer(self):
        self.check_deaf_senders("early")

    def test_a_sidecar_is_replaced_while_the_agent_does_not_run(self):
        """It drains. The agent finds what the old process has sent when it runs again."""
        self.start_victims()
        self.agent.send_signal(signal.SIGSTOP)
        self.addCleanup(self.agent.send_signal, signal.SIGCONT)
        self.assertEqual(self.replace(), "drained")
        self.agent.send_signal(signal.SIGCONT)
        self.assertEqual(self.replace(may_drain=False), "handed over")
        self.assert_agent_lives()

    def check_lingering(self, *hows):
        self.start_victims()
        attackers = [self.attacker(self.wired_pod(plugin.IN), "linger", how, 1401, 0) for how in hows]
        for attacker in attackers:
            self.wait_said(attacker, "refused")
        self.assertEqual(self.replace(may_drain=False), "handed over")
        # One that starts now is served, too.
        one_more = self.sidecar(self.wired_pod(plugin.IN), "other", KEEPING)
        self.wait_for_agent(one_more)
        one_more.finish()
        self.assert_agent_lives()

    def test_a_socket_that_lingers_is_closed(self):
        self.check_lingering("tcp")

    def test_a_socket_that_lingers_within_another_is_closed(self):
        self.check_lingering("unix")

    def test_sockets_of_several_pods_that_linger_are_closed(self):
        self.check_lingering("tcp", "unix", "tcp")

    def check_end(self, how):
        self.start_victims()
        attacker = self.attacker(self.wired_pod(plugin.IN), "linger", how, 17000, 8)
        self.wait_said(attacker, "refused")
        print(f"{attacker.said()}, ended after {self.end_agent():.2f} s")
        self.agent = self.start_agent()
        self.assertEqual(self.replace(may_drain=False), "handed over")

    def test_an_agent_ends_whatever_it_has_to_close(self):
        self.check_end("tcp")

    def test_an_agent_ends_whatever_lies_in_what_it_has_to_close(self):
        self.check_end("unix")

    def check_hoards(self, pods, announced, sent):
        self.start_victims()
        attackers = [self.attacker(self.wired_pod(plugin.IN), "hoard", announced, sent) for _ in range(pods)]
        for attacker in attackers:
            self.wait_said(attacker, "ready")
        for attacker in attackers:
            attacker.go_on()
        for attacker in attackers:
            self.wait_said(attacker, "sent", "answered")
        self.replace()
        self.assert_agent_lives()
        for attacker in attackers:
            attacker.close()
        self.wait_node(0, "fairlead_node_keeper_descriptors")
        self.assertEqual(self.replace(may_drain=False), "handed over")

    def test_pods_that_announce_more_than_the_agent_can_have(self):
        self.check_hoards(4, 32700, 6000)

    def test_pods_that_hoard_what_they_announce(self):
        self.check_hoards(4, 8000, 7999)

    def check_in_flight(self, uid):
        most = max(4096, 4 * CROWD)
        self.limits = [(resource.RLIMIT_NOFILE, most)]
        self.start_victims()
        stranger = plugin.Pod()
        self.addCleanup(stranger.close)
        attacker = self.attacker(stranger, "fill_socket", most + 1, uid=uid)
        self.wait_said(attacker, "filled")
        return self.replace()

    def test_another_pod_has_descriptors_in_flight_under_the_same_user_id(self):
        self.check_in_flight(SIDECAR_UID)

    def check_knocking(self, *wheres):
        self.start_victims()
        attackers = [self.attacker(self.wired_pod(plugin.IN), "knock", where) for where in wheres]
        for attacker in attackers:
            self.wait_said(attacker, "ready")
        # It may use more at first.
        busy_share(self.agent.pid, 2)
        share = busy_share(self.agent.pid, 3)
        print(f"the agent used {share * 100:.0f} % of a processor")
        self.assertLess(share, BUSY_SHARE_MAX)
        self.replace()
        self.assert_agent_lives()

    def test_one_that_is_expensive_to_connect_to(self):
        self.check_knocking("listener")

    def test_one_that_is_expensive_to_greet(self):
        self.check_knocking("connection")

    def test_one_that_is_expensive_to_read(self):
        self.check_knocking("records")

    def test_several_that_are_expensive(self):
        self.check_knocking("listener", "connection", "records")

    def test_what_was_accepted_of_the_agent_does_not_outlive_the_pod(self):
        """Sockets that another process has got. The pod is gone, and the agent has nothing more of it."""
        self.start_victims()
        self.wait_for_agent(self.inbound, self.outbound, name="@fairlead-client-address")
        before = sockets_of(self.agent.pid)
        pods = [self.wired_pod(plugin.IN) for _ in range(3)]
        listeners = [(name, listen_in(pod, name)) for pod in pods for name in SOCKETS_OF_SIDECARS]
        accepted = [(name, listener.accept()[0]) for name, listener in listeners]
        for _, sock in [*listeners, *accepted]:
            self.addCleanup(sock.close)
        self.assertGreaterEqual(len(sockets_of(self.agent.pid) - before), len(accepted))
        for _, listener in listeners:
            listener.close()
        for pod in pods:
            self.good("DEL", pod, cniVersion="1.0.0")
        # The agent looks at client addresses every two seconds.
        deadline = time.monotonic() + 5 * harness.SLOWNESS
        for name, sock in accepted:
            while not self.has_ended(sock):
                self.assertLess(time.monotonic(), deadline, f"the agent keeps {name} of a pod that is gone")
        while sockets_of(self.agent.pid) - before:
            self.assertLess(time.monotonic(), deadline, "the agent keeps sockets of pods that are gone")
        self.assertEqual(self.replace(may_drain=False), "handed over")
        # The next sidecar gets its map, too.
        self.wait_for_agent(self.inbound, name="@fairlead-client-address")

    @staticmethod
    def has_ended(sock):
        poll = select.poll()
        poll.register(sock, select.POLLRDHUP)
        return bool(poll.poll(20))

    def check_unread(self, pods):
        self.start_victims()
        attackers = [self.attacker(self.wired_pod(plugin.IN), "park_and_do_not_read", 2000) for _ in range(pods)]
        for attacker in attackers:
            self.wait_said(attacker, "parked")
        other = self.attacker(self.wired_pod(plugin.IN), "send_descriptors", 200, uid=0)
        self.wait_said(other, "done")
        self.assertIn("refused=0", other.said())
        self.replace()
        self.assert_agent_lives()

    def test_what_is_not_read_of_the_agent_costs_no_other_root(self):
        self.check_unread(1)

    def test_what_several_do_not_read_of_the_agent_costs_no_other_root(self):
        self.check_unread(4)

if __name__ == "__main__":
    plugin.main()
