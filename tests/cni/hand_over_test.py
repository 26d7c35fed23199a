"""Goal: a sidecar of a pod is replaced and its connections go on; a pod that abuses the keeper costs nobody else. Method:
wired pods with unprivileged sidecars, fairlead-node, Redis clients that stay, and a hostile end of the keeper's protocol."""
import os
import socket
import threading
import urllib.request

import brokered
import plugin
import keeper_record
from brokered import BY_BROKER, SIDECAR_UID
from keeper_record import DESCRIPTORS, HELLO, PARCEL, PARK, REFUSED, TAKEN
from wired import harness, listen_in

KEEPING = {**BY_BROKER, "hand_over": {"socket": "@fairlead-keeper"}}


class HostileSidecar:
    """Listens for the keeper in a pod, as its sidecar's user."""

    def __init__(self, pod, uid=SIDECAR_UID):
        self.listener = listen_in(pod, "fairlead-keeper", uid)
        self.link = None

    def accept(self):
        if self.link:
            self.link.close()
        self.link = self.listener.accept()[0]
        self.link.settimeout(harness.seconds(20))
        return self.hear()

    def hear(self):
        """Kind, refusal, whether a parcel follows, and a number; None at the end."""
        try:
            data, descriptors, _, _ = socket.recv_fds(self.link, 64, 8)
        except ConnectionResetError:
            return None
        for descriptor in descriptors:
            os.close(descriptor)
        if not data:
            return None
        heard = keeper_record.unpack(data)
        return heard.kind, heard.refusal, heard.holds, heard.count

    def say(self, kind, number=0, count_bytes=0, descriptors=(), version=1):
        record = keeper_record.pack(kind, count=number, size=count_bytes, version=version)
        socket.send_fds(self.link, [record], descriptors)

    def close(self):
        self.listener.close()
        if self.link:
            self.link.close()


class HandOver(brokered.BrokerTest):
    def start_pods(self):
        self.server, self.client = self.wired_pod(plugin.IN), self.wired_pod(plugin.IN)
        self.inbound = self.sidecar(self.server, "server", KEEPING)
        self.outbound = self.sidecar(self.client, "client", KEEPING)
        self.redis(self.server)
        self.wait_node(2, "fairlead_node_keeper_sidecars")

    def replace(self, proxy, pod):
        proxy.terminate()
        self.assertEqual(proxy.wait_exit(), 0)
        successor = self.sidecar(pod, proxy.name, KEEPING)
        self.assertIn("event=taken_back", successor.log())
        return successor

    def test_connections_outlive_their_sidecars(self):
        self.start_pods()
        with self.client_that_stays(self.client, self.server.address()) as first, \
                self.client_that_stays(self.client, self.server.address(True)) as second:
            for ask in (first, second):
                ask()
            for number in range(4):
                if number % 2:
                    self.outbound = self.replace(self.outbound, self.client)
                else:
                    self.inbound = self.replace(self.inbound, self.server)
                for ask in (first, second):
                    ask()
                self.wait_node(2, "fairlead_node_keeper_sidecars")
        self.assertEqual(self.node("fairlead_node_keeper_parcels_total", result="given"), 4)
        self.assertEqual(self.node("fairlead_node_keeper_descriptors"), 0)

    def test_a_new_agent_keeps_too(self):
        self.start_pods()
        self.agent.kill()
        self.agent.wait()
        self.agent = self.start_agent()
        self.wait_node(2, "fairlead_node_keeper_sidecars")
        with self.client_that_stays(self.client, self.server.address()) as ask:
            ask()
            self.inbound = self.replace(self.inbound, self.server)
            ask()

    def test_an_agent_that_shall_not_keep(self):
        self.agent.terminate()
        self.assertEqual(self.agent.wait(), 0)
        self.agent = self.start_agent(options=["--no-hand-over"])
        server = self.wired_pod(plugin.IN)
        inbound = self.sidecar(server, "server", KEEPING)
        self.wait_node(1, "fairlead_node_pod_threads", state="running")
        self.redis(server)
        inbound.terminate()
        self.assertEqual(inbound.wait_exit(), 0)
        self.assertIn('event=not_parked connections=0 what="no keeper"', inbound.log())
        with urllib.request.urlopen(f"http://{self.node_address}/metrics", timeout=harness.seconds(10)) as answer:
            self.assertNotIn("fairlead_node_keeper_", answer.read().decode())

    def test_a_pod_that_ends_is_forgotten(self):
        self.start_pods()
        with self.client_that_stays(self.client, self.server.address()) as ask:
            ask()
            self.outbound.terminate()
            self.assertEqual(self.outbound.wait_exit(), 0)
            self.assertIn("event=parked", self.outbound.log())
            harness.wait_until(lambda: self.node("fairlead_node_keeper_descriptors") > 0, "something to be kept")
            self.good("DEL", self.client, cniVersion="1.0.0")
            self.wait_node(0, "fairlead_node_keeper_descriptors")
        self.assertEqual(self.node("fairlead_node_keeper_parcels_total", result="pod_ended"), 1)

    def hostile(self):
        hostile = HostileSidecar(self.wired_pod(plugin.IN))
        self.addCleanup(hostile.close)
        return hostile

    def test_what_is_no_parcel_is_refused(self):
        hostile = self.hostile()
        for record in ((DESCRIPTORS, 1), (TAKEN, 0), (HELLO, 0), (PARK, 0)):
            kind, _, holds, limit = hostile.accept()
            self.assertEqual((kind, holds), (HELLO, 0))
            hostile.say(*record)
            heard = hostile.hear()
            while heard is not None:
                self.assertEqual(heard[0], REFUSED)
                heard = hostile.hear()
        hostile.accept()
        hostile.say(PARCEL, limit + 1, 10, [hostile.listener.fileno()])
        self.assertEqual(hostile.hear()[:2], (REFUSED, 1))
        hostile.accept()
        hostile.say(PARCEL, 1, 1 << 40, [hostile.listener.fileno()])
        self.assertEqual(hostile.hear()[:2], (REFUSED, 2))
        hostile.accept()
        hostile.link.send(b"nonsense")
        self.assertIsNone(hostile.hear())
        self.assertEqual(self.node("fairlead_node_keeper_descriptors"), 0)

    def test_a_parcel_without_end_is_given_up(self):
        """The next connection comes when the first has taken too long, and other pods are served meanwhile."""
        hostile = self.hostile()
        hostile.accept()
        hostile.say(PARCEL, 100, 10, [hostile.listener.fileno()])
        self.start_pods()
        self.assertIsNone(hostile.hear())
        self.assertEqual(hostile.accept()[0], HELLO)

    def test_one_that_takes_back_without_end(self):
        """What is kept for it stays one parcel, and is offered again."""
        hostile = self.hostile()
        hostile.accept()
        hostile.say(PARCEL, 2, 10, [hostile.listener.fileno()])
        hostile.say(DESCRIPTORS, 2, 0, [hostile.listener.fileno()] * 2)
        self.assertEqual(hostile.hear()[0], TAKEN)
        for _ in range(3):
            self.assertEqual(hostile.accept()[2], 1)
            hostile.link.close()
        self.assertEqual(self.node("fairlead_node_keeper_descriptors"), 3)

    def test_another_users_listener_gets_nothing(self):
        stranger = HostileSidecar(self.wired_pod(plugin.IN), uid=1000)
        self.addCleanup(stranger.close)
        accepted = threading.Thread(target=lambda: self.assertIsNone(stranger.accept()), daemon=True)
        accepted.start()
        accepted.join(harness.seconds(20))
        self.assertFalse(accepted.is_alive())
        self.assertEqual(self.node("fairlead_node_keeper_sidecars"), 0)


if __name__ == "__main__":
    plugin.main()
