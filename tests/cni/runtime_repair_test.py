"""Goal: pods that started before the plugin was installed get the same setup as by ADD, and the agent asks the API
server for no pod. Method: clustered.py, and a container runtime that creates no containers (nri_runtime.py)."""
import os
import shutil
import subprocess
import tempfile
import urllib.request
from pathlib import Path

import plugin
from clustered import SECONDS_MAX, ClusterTest
from nri_runtime import Runtime, container_message, pod_message
from plugin import IN, main, seconds

READY = {"/readyz": {}, "/stats?format=json": {"total": {}}, "/fallbacks": {}}


class RuntimeRepair(ClusterTest):
    # Each check of the agent ends with a report.
    OWN = ("--repair", "--report-status", "--report-interval", "0.1", "--report-namespace", "fl")

    def setUp(self):
        super().setUp()
        # A short path: the address of a Unix socket has at most 107 bytes.
        sockets = Path(tempfile.mkdtemp(prefix="nri-"))
        self.addCleanup(shutil.rmtree, sockets)
        self.socket = sockets / "nri.sock"
        self.runtime = Runtime(self.socket, seconds(SECONDS_MAX))
        self.addCleanup(self.runtime.stop)

    def start(self, *words):
        return self.start_agent(*self.OWN, "--nri-socket", self.socket, *words)

    def connect(self, *pods):
        """What the runtime lists when the agent connects; a pod is as injected() returns it."""
        connection = self.runtime.connection()
        connection.accept(pods, [container_message(pod[1]) for pod in pods])
        return connection

    def late_pod(self, address, answers=None, uid=2201):
        """A pod for which the plugin was not called, with a sidecar."""
        pod = self.running_pod((address,))
        pod.answers = self.sidecar(pod, READY if answers is None else answers, uid)
        return pod

    @staticmethod
    def injected(pod, **changes):
        fields = {"name": pod.name, "uid": f"0000-{pod.container}", "annotations": IN, "netns": pod.path,
                  "ips": [address.split("/")[0] for address in pod.addresses], **changes}
        return pod_message(pod.container, **fields)

    def rounds(self):
        with self.api.lock:
            return len(self.api.reports)

    def wait_rounds(self, count):
        wanted = self.rounds() + count + 1
        self.wait(lambda: self.rounds() >= wanted, "the next look")

    def wait_event(self, *events):
        self.wait(lambda: sorted(self.api.reasons()) == sorted(events), f"the events {events}")

    def untouched(self, *pods):
        self.wait_rounds(3)
        for pod in pods:
            self.assertEqual((pod.redirect(), pod.alias()), (plugin.NO_REDIRECT, ""), pod.name)

    def test_gives_a_running_pod_what_add_gives(self):
        model, late, crio = self.pod(("10.88.20.1/24",)), self.late_pod("10.88.20.2/24"), self.late_pod("10.88.20.3/24")
        self.start()
        # CRI-O passes no addresses.
        connection = self.connect(self.injected(late), self.injected(crio, ips=()))
        self.wait_event((late.name, "FairleadRepaired"), (crio.name, "FairleadRepaired"))
        self.add(model, pnet=[{"id": "NETA", "rnics": ["mlx5_0/1"]}])
        for pod in (late, crio):
            self.assert_set_up(pod)
            self.assertEqual((pod.redirect(), pod.alias()), (model.redirect(), model.alias()))
        new = self.late_pod("10.88.20.4/24")
        made = connection.create(self.injected(new), container_message(new.container))
        self.assertEqual(made.devices, [])
        self.wait(lambda: (new.name, "FairleadRepaired") in self.api.reasons(), "the repair of a new pod")
        self.wait_rounds(2)
        self.assertEqual(len(self.api.reasons()), 3)
        self.assertEqual(self.metric('fairlead_node_repairs_total{result="repaired"}'), 3)
        self.assertEqual(self.metric('fairlead_node_repairs_total{result="failed"}'), 0)
        # No right to read pods is needed, and no question for one is answered.
        self.assertEqual((self.api.limits, self.api.asked), ([], 0))
        self.assertFalse((self.run_dir / "agent.sock").exists())
        self.assertEqual(self.report()["nri"], "connected")

    def test_of_two_families_each_gets_its_rules(self):
        pods = [self.running_pod(("10.88.21.1/24", "fd88:21::1/64")) for _ in range(2)]
        for pod in pods:
            self.sidecar(pod, READY)
        self.start()
        self.connect(self.injected(pods[0]), self.injected(pods[1], ips=()))
        self.wait_event(*((pod.name, "FairleadRepaired") for pod in pods))
        for pod in pods:
            self.assert_set_up(pod)
            self.assertEqual(pod.redirect(), pods[0].redirect())

    def test_leaves_all_others_alone(self):
        pods = [self.late_pod(f"10.88.22.{number}/24") for number in range(1, 6)]
        known, application = pods[3], pods[4]
        self.add(known)
        before = known.redirect(), known.programs()
        self.start()
        plain = [self.injected(pods[0], annotations={}),
                 self.injected(pods[1], annotations={**IN, "fairlead.io/inject": "disabled"}),
                 self.injected(pods[2], annotations={"fairlead.io/inject": "enabled"}),
                 self.injected(known, uid="another"), self.injected(application)]
        connection = self.runtime.connection()
        connection.accept(plain, [*(container_message(pod[1]) for pod in plain[:4]),
                                  container_message(application.container, name="app")])
        self.untouched(*pods[:3], application)
        self.assertEqual((known.redirect(), known.programs()), before)
        self.assertEqual(self.api.reasons(), [])
        self.assertEqual(len(self.states()), 1)

    def test_waits_for_the_sidecar(self):
        """In pods whose sidecar is not ready, does not answer, is of another user, or is not there."""
        late = self.late_pod("10.88.23.1/24", {**READY, "status": 503})
        silent = [self.late_pod(f"10.88.23.{number}/24", {}) for number in range(2, 5)]
        stranger = self.late_pod("10.88.23.5/24", uid=2202)
        empty = self.running_pod(("10.88.23.6/24",))
        good = self.late_pod("10.88.23.7/24")
        self.start()
        self.connect(*(self.injected(pod) for pod in (late, *silent, stranger, empty, good)))
        self.wait_event((good.name, "FairleadRepaired"))
        self.untouched(late, *silent, stranger, empty)
        self.assertEqual(self.metric('fairlead_node_repairs_total{result="failed"}'), 0)
        self.set_answers(late.answers, READY)
        self.wait_event((good.name, "FairleadRepaired"), (late.name, "FairleadRepaired"))
        self.assert_set_up(late)

    def test_agent_restarted(self):
        first, second = self.late_pod("10.88.24.1/24"), self.late_pod("10.88.24.2/24")
        agent = self.start()
        self.connect(self.injected(first))
        self.wait_event((first.name, "FairleadRepaired"))
        agent.terminate()
        agent.wait()
        self.start()
        self.connect(self.injected(first), self.injected(second))
        self.wait_event((first.name, "FairleadRepaired"), (second.name, "FairleadRepaired"))
        self.wait_rounds(2)
        self.assertEqual(len(self.api.reasons()), 2)
        self.assertEqual(len(self.states()), 2)

    def test_runtime_restarted(self):
        """Nothing is repaired meanwhile, and pods that the runtime no longer lists are forgotten."""
        waiting, forgotten = (self.late_pod(f"10.88.25.{number}/24", {**READY, "status": 503}) for number in (1, 2))
        self.start()
        connection = self.connect(self.injected(waiting), self.injected(forgotten))
        self.wait_rounds(2)
        self.runtime.stop()
        connection.close()
        self.wait(lambda: self.report().get("nri") == "not_connected", "the report to say so")
        self.set_answers(waiting.answers, READY)
        self.set_answers(forgotten.answers, READY)
        self.untouched(waiting, forgotten)
        os.unlink(self.socket)
        self.runtime.start()
        self.connect(self.injected(waiting))
        self.wait_event((waiting.name, "FairleadRepaired"))
        self.untouched(forgotten)
        self.assertEqual((self.api.limits, self.report()["nri"]), ([], "connected"))

    def test_without_a_runtime_nothing_is_repaired(self):
        pod = self.late_pod("10.88.26.1/24")
        self.runtime.stop()
        os.unlink(self.socket)
        self.start()
        self.untouched(pod)
        self.assertEqual(self.report()["nri"], "not_connected")
        self.assertIn("nri event=not_connected", self.log.read_text())

    def test_other_modes_of_devices_need_the_api_server(self):
        pod = self.late_pod("10.88.27.1/24")
        self.start("--rnic-access", "resource")
        self.assertIn('event=no_repair what="--repair-from runtime needs --rnic-access nri"', self.log.read_text())
        self.untouched(pod)
        self.assertEqual((self.api.limits, self.report()["nri"]), ([], "off"))

    def test_pod_gone_meanwhile(self):
        """Its path may belong to another pod by then."""
        gone = self.late_pod("10.88.28.1/24", {**READY, "status": 503})
        self.start()
        self.connect(self.injected(gone))
        self.wait_rounds(2)
        gone.close()
        self.wait_rounds(2)
        subprocess.run(["ip", "netns", "add", gone.name], check=True)
        plugin.run("ip", "-n", gone.name, "link", "set", "lo", "up")
        self.sidecar(gone, READY)
        self.untouched(gone)
        self.assertEqual((self.api.reasons(), self.states()), ([], []))

    def test_hostile_annotations(self):
        wrong, fat, strange = (self.late_pod(f"10.88.29.{number}/24") for number in (1, 2, 3))
        subnets = "fairlead.io/skip-subnets"
        self.start()
        self.connect(self.injected(wrong, annotations={**IN, subnets: "all"}),
                     self.injected(fat, annotations={**IN, subnets: "10.0.0.0/8," * 20_000, "other": "x" * 200_000}),
                     self.injected(strange, uid="../../x"))
        self.wait_event(*((pod.name, "FairleadNotRepaired") for pod in (wrong, fat, strange)))
        messages = {event["involvedObject"]["name"]: event["message"] for event in self.api.events}
        self.assertIn(subnets, messages[wrong.name])
        self.assertIn(subnets, messages[fat.name])
        self.assertIn("its uid is no name", messages[strange.name])
        self.untouched(wrong, fat, strange)
        self.assertEqual(self.states(), [])

    def test_hostile_paths(self):
        """Also the node's own network, in which nothing may change."""
        fifo = self.folder / "fifo"
        os.mkfifo(fifo)
        paths = ["", "relative", "run/netns/x", "/etc/passwd", "/", "/proc/self/ns/mnt", str(fifo), "/" + "x" * 5000,
                 "/run/netns/\0x", f"/proc/{os.getpid()}/ns/net", "/proc/self/ns/net"]
        before = plugin.run("nft", "list", "ruleset")
        good = self.late_pod("10.88.30.1/24")
        self.start()
        pods = [pod_message(f"hostile{number}", name=f"hostile-{number}", uid=f"9-{number}", annotations=IN, netns=path,
                            ips=["10.88.30.1"]) for number, path in enumerate(paths)]
        # The sandbox's id is part of no path.
        pods.append(pod_message("../../x", name="x", annotations=IN, netns=good.path))
        self.connect(*pods, self.injected(good))
        self.wait_event((good.name, "FairleadRepaired"))
        self.wait_rounds(2)
        self.assertEqual(len(self.api.reasons()), 1)
        self.assertEqual(plugin.run("nft", "list", "ruleset"), before)
        with urllib.request.urlopen(f"http://{self.address}/livez", timeout=seconds(SECONDS_MAX)) as answer:
            self.assertEqual(answer.status, 200)


if __name__ == "__main__":
    main()
