#!/usr/bin/env python3
"""The webhook, called as by an API server: webhook_test.py <folder of fairlead-injector>

Uses the real process and real TLS. Golden pods equal those of the library. Hostile reviews affect only their
own request. Certificates are reloaded, created and renewed, and Events are created.
"""
import base64
import json
import socket
import sys
import tempfile
import time
import unittest
from pathlib import Path

from injector import HERE, HOST, ApiServer, Client, Injector, make_certificate, openssl, review, wait_for
from slow_clients import assert_probes_are_answered

BINARY = Path(sys.argv.pop(1)) / "fairlead-injector"
REQUEST_SECONDS_MAX = 5  # of the server, from accept to the last byte of a request (HttpLimits)


def apply_patch(document, patch):
    """RFC 6902, as far as the injector uses it: add, and move inside of a list."""
    document = json.loads(json.dumps(document))

    def find(path):
        *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]
        place = document
        for part in parents:
            place = place[int(part) if isinstance(place, list) else part]
        return place, last

    for step in patch:
        assert step["op"] in ("add", "move"), step
        place, last = find(step["path"])
        if step["op"] == "move":
            origin, index = find(step["from"])
            step["value"] = origin.pop(int(index))
        if isinstance(place, list):
            place.insert(len(place) if last == "-" else int(last), step["value"])
        else:
            place[last] = step["value"]
    return document


HANDSHAKES_PER_SECOND = 100  # of the 200 that a source may begin; an idle machine does more


class WithFiles(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.temporary.name)
        make_certificate(cls.folder, HOST, f"DNS:{HOST}")
        cls.injector = Injector(BINARY, "--cert-dir", cls.folder)
        cls.client = Client(cls.injector.port_of("reviews"), (cls.folder / "tls.crt").read_text())

    @classmethod
    def tearDownClass(cls):
        cls.injector.__exit__()
        cls.temporary.cleanup()

    def test_golden_pods(self):
        for path in sorted((HERE / "cases").glob("*.json")):
            case = json.loads(path.read_text())
            expected = json.loads((HERE / "expected" / path.name).read_text())
            where = "/mutate/namespaces" if case["namespace_opted_in"] else "/mutate/pods"
            status, body = self.client.post(where, review(case["pod"], uid=path.stem))
            self.assertEqual(status, 200, body)
            answer = json.loads(body)["response"]
            self.assertTrue(answer["allowed"])
            self.assertEqual(answer["uid"], path.stem)
            patch = json.loads(base64.b64decode(answer.get("patch", "W10=")))
            self.assertEqual(apply_patch(case["pod"], patch), expected["pod"], path.name)
            self.assertEqual(answer.get("warnings", []), expected["warnings"], path.name)

    def test_hostile_reviews_cost_their_own_request(self):
        deep = "[" * 1_000_000
        bodies = [(b"", 400), (b"{", 400), (deep.encode(), 400), (b'{"kind":"\xc3\x28"}', 400), (b"7", 400),
                  (review([]).encode(), 200), (review({"metadata": 1, "spec": "x"}).encode(), 200),
                  (b"[" + b"0," * 1_500_000 + b"0]", 400), (b" " * (3 << 20), 400),
                  (b'{"a":"' + b"x" * (4 << 20) + b'"}', 413)]
        for body, status in bodies:
            began = time.monotonic()
            try:
                self.assertEqual(self.client.post("/mutate/pods", body)[0], status, body[:20])
            except (BrokenPipeError, ConnectionResetError):
                # It did not wait for the rest, which was too long, or took longer than a request may on a busy machine.
                took = time.monotonic() - began
                self.assertTrue(status == 413 or took >= REQUEST_SECONDS_MAX, f"{body[:20]}: closed after {took:.1f} s")
        self.test_golden_pods()

    def test_wrong_paths_and_methods(self):
        self.assertEqual(self.client.post("/", "{}")[0], 404)
        connection = self.client.connect()
        connection.request("GET", "/mutate/pods")
        self.assertEqual(connection.getresponse().status, 405)
        connection.close()
        self.assertEqual(self.injector.get("/nowhere")[0], 404)

    def test_idle_and_plain_connections_hold_nobody_up(self):
        idle = [socket.create_connection(("127.0.0.1", self.client.port)) for _ in range(8)]
        idle[0].sendall(b"POST /mutate/pods HTTP/1.1\r\n\r\n")  # no TLS
        self.test_golden_pods()
        for connection in idle:
            connection.close()

    def test_slow_clients_delay_neither_reviews_nor_probes(self):
        pod = json.loads((HERE / "cases/host_network.json").read_text())["pod"]

        def ask_for_review():
            self.assertEqual(self.client.post("/mutate/pods", review(pod))[0], 200)
        # The first bytes of a TLS handshake, from another address than the API server's: the rate of
        # handshakes is limited for each.
        assert_probes_are_answered(self, ("127.0.0.1", self.client.port), ask_for_review,
                                   b"\x16\x03\x01\x02\x00\x01", "127.0.0.2", 1 / HANDSHAKES_PER_SECOND)
        assert_probes_are_answered(self, ("127.0.0.1", self.injector.admin_port),
                                   lambda: self.assertEqual(self.injector.get("/livez")[0], 200),
                                   b"GET /livez HTTP/1.1\r\nX-Slow: ")
        metrics = self.injector.metrics()
        for server in ("reviews", "admin"):
            self.assertGreater(sum(
                metrics[f'fairlead_injector_http_refused_total{{server="{server}",reason="{reason}"}}']
                for reason in ("crowded", "rate")), 0)

    def test_probes_and_metrics(self):
        self.assertEqual(self.injector.get("/livez")[0], 200)
        self.assertEqual(self.injector.get("/readyz")[0], 200)
        before = self.injector.metrics()
        self.client.post("/mutate/pods", review(json.loads((HERE / "cases/host_network.json").read_text())["pod"]))
        self.client.post("/mutate/pods", "{")
        after = self.injector.metrics()
        for name in ('fairlead_injector_requests_total{result="skipped",reason="host_network"}',
                     'fairlead_injector_requests_total{result="refused",reason="malformed_review"}'):
            self.assertEqual(after[name] - before[name], 1)
        self.assertGreater(after["fairlead_injector_cert_expiry_timestamp_seconds"], 1e9)


class Reload(unittest.TestCase):
    def test_a_new_certificate_is_served_without_restart(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            make_certificate(folder, HOST, f"DNS:{HOST}")
            first = (folder / "tls.crt").read_text()
            with Injector(BINARY, "--cert-dir", folder) as injector:
                client = Client(injector.port_of("reviews"), first)
                old = client.served_certificate()
                (folder / "tls.crt").write_text("garbage")
                wait_for("the complaint", lambda: injector.metrics()["fairlead_injector_cert_errors_total"] > 0)
                self.assertEqual(client.served_certificate(), old)
                make_certificate(folder, HOST, f"DNS:{HOST}")
                client = Client(client.port, first + (folder / "tls.crt").read_text())
                wait_for("the new certificate", lambda: client.served_certificate() != old)


MADE, LOST = (f'fairlead_injector_events_total{{result="{result}"}}' for result in ("made", "lost"))


def refused_pod(controller):
    """A pod that asks for the sidecar and gets none, which is worth an Event about its controller."""
    return {"metadata": {"annotations": {"fairlead.io/inject": "enabled"},
                         "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": controller,
                                              "uid": "r-1", "controller": True}]},
            "spec": {"hostNetwork": True, "containers": [{"name": "app", "image": "app"}]}}


class OwnCertificates(unittest.TestCase):
    ARGUMENTS = ("--namespace", "fairlead-system", "--secret", "certs", "--service", "fairlead-injector",
                 "--webhook", "fairlead")

    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.api = ApiServer(Path(self.temporary.name) / "account", "secret-token")

    def tearDown(self):
        self.api.server.shutdown()
        self.temporary.cleanup()

    def start(self):
        return Injector(BINARY, *self.ARGUMENTS, environment=self.api.environment())

    def test_made_shared_and_vouched_for(self):
        with self.start() as first, self.start() as second:
            ports = [first.port_of("reviews"), second.port_of("reviews")]
            bundles = self.api.bundles()
            self.assertEqual(bundles[0], bundles[1])
            served = [Client(port, bundles[0]).served_certificate() for port in ports]
            self.assertEqual(served[0], served[1])
            renewals = [one.metrics()["fairlead_injector_cert_renewals_total"] for one in (first, second)]
            self.assertEqual(sum(renewals), 1)
        self.assertEqual(self.api.refused, [])

    def test_a_due_leaf_is_renewed_under_the_same_authority(self):
        with self.start() as injector:
            injector.port_of("reviews")
        bundle = self.api.bundles()[0]
        data = self.api.secret["data"]
        old = base64.b64decode(data["tls.crt"])
        # 1 of 30 days is left of this one, and the injector's authority has not signed it.
        make_certificate(Path(self.temporary.name) / "other", HOST, f"DNS:{HOST}")
        data["tls.crt"] = base64.b64encode((Path(self.temporary.name) / "other/tls.crt").read_bytes()).decode()
        with self.start() as injector:
            client = Client(injector.port_of("reviews"), bundle)
            client.served_certificate()
        self.assertEqual(self.api.bundles()[0], bundle)
        self.assertNotEqual(base64.b64decode(self.api.secret["data"]["tls.crt"]), old)
        text = openssl("x509", "-noout", "-text", input=base64.b64decode(self.api.secret["data"]["tls.crt"])).stdout
        self.assertIn(b"TLS Web Server Authentication", text)

    def test_events_are_made_about_the_controller_and_once(self):
        pod = json.loads((HERE / "cases/bad_values.json").read_text())["pod"]
        pod["metadata"]["ownerReferences"] = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1",
                                               "uid": "r-1", "controller": True}]
        with self.start() as injector:
            client = Client(injector.port_of("reviews"), self.api.bundles()[0])
            for _ in range(3):
                client.post("/mutate/pods", review(pod))
            client.post("/mutate/pods", review(pod, dryRun=True))
            wait_for("the Event", lambda: self.api.events)
            made = 'fairlead_injector_events_total{result="made"}'
            wait_for("its count", lambda: injector.metrics()[made] == 1)
        self.assertEqual(len(self.api.events), 1)
        self.assertEqual(self.api.events[0]["involvedObject"]["name"], "web-1")
        self.assertIn('"loud" is not allowed', self.api.events[0]["message"])

    def test_names_that_no_object_has_are_neither_logged_nor_remembered(self):
        count = 3
        with self.start() as injector:
            client = Client(injector.port_of("reviews"), self.api.bundles()[0])
            before = injector.log.stat().st_size
            for number in range(count):
                self.assertEqual(client.post("/mutate/pods", review(refused_pod("x" * 1_400_000 + str(number))))[0], 200)
            wait_for("their count", lambda: injector.metrics()[LOST] == count)
            self.assertLess(injector.log.stat().st_size - before, 16 << 10)
        self.assertEqual(self.api.events, [])

    def test_a_namespace_has_its_share_of_the_events(self):
        share, more = 128, 12
        with self.start() as injector:
            client = Client(injector.port_of("reviews"), self.api.bundles()[0])
            for number in range(share + more):
                client.post("/mutate/pods", review(refused_pod(f"web-{number}"), namespace="greedy"))
            wait_for("all Events", lambda: injector.metrics()[MADE] + injector.metrics()[LOST] == share + more)
            self.assertLessEqual(len(self.api.events), share)
            client.post("/mutate/pods", review(refused_pod("web"), namespace="shop"))
            wait_for("the other namespace's Event",
                     lambda: self.api.events[-1]["involvedObject"]["namespace"] == "shop")


if __name__ == "__main__":
    unittest.main(verbosity=1)
