#!/usr/bin/env python3
"""Every panel of the dashboard shows data of a real scrape: dashboard_test.py <folder of fairlead-injector>

A real Prometheus scrapes two proxies with SMC-R and TCP connections, an injector with reviews, and a node agent with
pods, under the labels that a PodMonitor sets. The test sends it Grafana's queries. Without root there is no agent,
and the queries of its panels are only parsed.

Environment: FAIRLEAD_BIN as in tests/integration/harness.py; FAIRLEAD_PICTURE, a file to draw the dashboard into after
PICTURE_SECONDS, which needs python3-matplotlib.
"""
import json
import math
import os
import shutil
import sys
import threading
import time
import unittest
from pathlib import Path

import dashboard

TESTS = Path(__file__).parents[1]
sys.path[1:1] = [str(TESTS / "integration"), str(TESTS / "injection"), str(TESTS)]

# pylint: disable=wrong-import-position
import peers
from node_load import NodeLoad
from harness import ProxyTest, listener, main, wait_until
from injector import HOST, Client, Injector, make_certificate, review

INJECTOR = Path(sys.argv.pop(1)) / "fairlead-injector"
PODS = [json.loads((TESTS / "injection" / "cases" / f"{name}.json").read_text())["pod"]
        for name in ("annotated", "annotated", "annotated", "host_network")]
SCRAPE_SECONDS = 1
RATE_INTERVAL = "5s"
PICTURE_SECONDS = 90


def values(prometheus, expression):
    """Values that are numbers; 0/0 is not."""
    found = [float(row["value"][1]) for row in prometheus.ask("query", query=expression)]
    return [value for value in found if not math.isnan(value)]


class Load(threading.Thread):
    """Calls `step` with 0, 1, 2, … at a steady pace until it is closed."""

    def __init__(self, step, pause):
        super().__init__(daemon=True)
        self.step, self.pause, self.ended = step, pause, threading.Event()
        self.failure = None
        self.start()

    def run(self):
        count = 0
        try:
            while not self.ended.wait(self.pause):
                self.step(count)
                count += 1
        except Exception as error:  # pylint: disable=broad-except
            self.failure = error

    def close(self):
        self.ended.set()
        self.join()
        assert self.failure is None, repr(self.failure)


class Dashboard(ProxyTest):
    def setUp(self):
        super().setUp()
        if shutil.which("prometheus") is None:
            raise unittest.SkipTest("prometheus is not installed; scripts/bootstrap.sh test")

    def start_proxies(self, application):
        self.start_pair(application)
        plain = self.start("plain", [listener("out", "outbound", application)])  # its peer does not speak SMC

        def connect(count):
            peers.exchange(self.outbound.address("out"), bytes(200_000 * (1 + count % 20)))
            if count % 5 == 0:
                peers.exchange(plain.address("out"), bytes(1000))
        return Load(connect, 0.02)

    def start_injector(self):
        certificate = self.folder / "certificate"
        make_certificate(certificate, HOST, f"DNS:{HOST}")
        injector = self.enterContext(Injector(INJECTOR, "--cert-dir", certificate))
        client = Client(injector.port_of("reviews"), (certificate / "tls.crt").read_text())
        return injector, Load(lambda count: client.post("/mutate/pods", review(PODS[count % len(PODS)])), 0.1)

    def start_node(self):
        """None if there can be no value."""
        try:
            node = NodeLoad(self.folder / "node")
        except unittest.SkipTest as why:
            print(f"skipped: the panels of nodes: {why}")
            return None
        self.addCleanup(node.close)
        node.start()
        load = Load(node.step, 0.2)
        self.addCleanup(load.close)
        return node

    def start_prometheus(self, injector, node):
        targets = [(proxy.admin, {"namespace": "shop", "pod": f"{proxy.name}-0", "container": "fairlead-proxy"})
                   for proxy in self.proxies]
        targets.append((f"127.0.0.1:{injector.admin_port}", {"namespace": "fairlead-system", "pod": "injector-0"}))
        if node:
            targets.append((node.address, {"namespace": "fairlead-system", "pod": "node-0"}))
        prometheus = dashboard.Prometheus(self.folder, targets, SCRAPE_SECONDS)
        self.addCleanup(prometheus.close)
        return prometheus

    def test_every_panel_has_data(self):
        server = self.enterContext(peers.Server(peers.echo_at_end))
        connections = self.start_proxies(server.address)
        injector, reviews = self.start_injector()
        self.addCleanup(connections.close)
        node = self.start_node()
        prometheus = self.start_prometheus(injector, node)
        begin = time.monotonic()
        for panel in dashboard.PANELS:
            for expression in dashboard.expressions(panel, RATE_INTERVAL):
                if node is None and "fairlead_node_" in expression:
                    prometheus.ask("query", query=expression)
                    continue
                wait_until(lambda: values(prometheus, expression),  # pylint: disable=cell-var-from-loop
                           f"{panel['title']}: {expression}", 30)
        (share,) = (panel for panel in dashboard.PANELS if panel["title"].startswith("Share"))
        (expression,) = dashboard.expressions(share, RATE_INTERVAL)
        wait_until(lambda: 0 < values(prometheus, expression)[0] < 1, "a share of SMC-R", 30)
        if picture := os.environ.get("FAIRLEAD_PICTURE"):
            threading.Event().wait(max(0.0, begin + PICTURE_SECONDS - time.monotonic()))
            dashboard.draw(prometheus, PICTURE_SECONDS, RATE_INTERVAL, picture)
        reviews.close()


if __name__ == "__main__":
    main()
