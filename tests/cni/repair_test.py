"""Goal: what fairlead-node does with the API server: pods that were started before the plugin was there get
what ADD would have given them, and the node its labels. Method: namespaces as pods, the real agent, and an
API server of the test's own, which serves what it is told and remembers what it was asked. Then the way
back: a node is left, and all nodes are, by way of their DaemonSets."""
import json
import os
import re
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import plugin
from fake_api_server import FakeApiServer
from plugin import IN, PLUGIN, SLOWNESS, PluginTest, cgroup_root, main, wait_until

NODE = Path(os.environ.get("FAIRLEAD_NODE", PLUGIN.with_name("fairlead-node")))
LIST = {"cniVersion": "1.0.0", "name": "podnet", "plugins": [{"type": "bridge"}]}
SECONDS_MAX = 20
RUNS = {"name": "fairlead-proxy", "started": True, "state": {"running": {}}}


class Api(FakeApiServer):
    def __init__(self, folder):
        self.pods, self.events, self.labels, self.limits = [], [], {}, []
        self.sets, self.patches = {}, []  # DaemonSets by name: [nodes, those that are left a look]
        super().__init__(folder, "secret")

    def answer(self, method, path, body):
        url = urllib.parse.urlsplit(path)
        query = dict(urllib.parse.parse_qsl(url.query))
        if (method, url.path) == ("GET", "/api/v1/pods"):
            assert query["fieldSelector"] == "spec.nodeName=n1", query
            self.limits.append(int(query["limit"]))
            begin = int(query.get("continue", "0 /").split()[0])
            end = begin + self.limits[-1]
            more = {"continue": f"{end} /+&"} if end < len(self.pods) else {}
            return 200, {"kind": "PodList", "metadata": more, "items": self.pods[begin:end]}
        if (method, url.path) == ("PATCH", "/api/v1/nodes/n1"):
            for name, value in json.loads(body)["metadata"]["labels"].items():
                self.labels[name] = value
                if value is None:
                    del self.labels[name]
            return 200, {"metadata": {"labels": self.labels}}
        if (method, url.path) == ("POST", "/api/v1/namespaces/shop/events"):
            self.events.append(json.loads(body))
            return 201, {}
        if url.path.startswith("/apis/apps/v1/namespaces/fl/daemonsets/"):
            return self.daemonset(method, url.path.rsplit("/", 1)[1], body)
        return 404, {}

    def daemonset(self, method, name, body):
        """As the controller rolls it out, one step at each look."""
        if name not in self.sets:
            return 404, {}
        nodes, steps = self.sets[name]
        if method == "PATCH":
            self.patches.append((name, json.loads(body)))
            seen, done = 1, nodes  # the status is still that of the pods before
        else:
            seen, done = 2, steps.pop(0) if len(steps) > 1 else steps[0]
        return 200, {"metadata": {"generation": 2},
                     "status": {"observedGeneration": seen, "desiredNumberScheduled": nodes,
                                "updatedNumberScheduled": nodes, "numberReady": done}}

    def reasons(self):
        with self.lock:
            return [(event["involvedObject"]["name"], event["reason"]) for event in self.events]

    def rounds(self):
        with self.lock:
            return len(self.limits)


class Repair(PluginTest):
    def setUp(self):
        super().setUp()
        self.folder = Path(tempfile.mkdtemp(prefix="fairlead-repair-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.api = Api(self.folder / "account")
        self.addCleanup(self.api.close)
        self.conf = self.folder / "net.d"
        self.conf.mkdir()
        (self.conf / "10-podnet.conflist").write_text(json.dumps(LIST))
        self.log = self.folder / "log"
        self.kubelet = cgroup_root() / f"flkubelet{os.getpid()}" if cgroup_root() else None
        if self.kubelet:
            self.kubelet.mkdir()
            self.addCleanup(self.kubelet.rmdir)

    def start_agent(self, *words, environment=None, sign="ready"):
        settings = {"pnet": [{"id": "NETA", "rnics": ["mlx5_0/1"]}]}
        with open(self.log, "wb") as log:
            agent = subprocess.Popen(
                plugin.with_rights_of_the_chart(
                    NODE, "run", "--conf-dir", self.conf, "--run-dir", self.run_dir, "--bin-dir", self.folder / "bin",
                    "--plugin", PLUGIN, "--listen", "127.0.0.1:0", "--settings", json.dumps(settings),
                    "--api-interval", "0.2", *words),
                stdout=log, stderr=log, env={**os.environ, "NODE_NAME": "n1", **self.api.environment(),
                                             **(environment or {})})
        self.addCleanup(agent.wait)
        self.addCleanup(agent.kill)
        self.wait(lambda: f" node event={sign}" in self.log.read_text(), "the agent")
        self.address = re.search(r"event=listening address=(\S+)", self.log.read_text()).group(1)
        return agent

    def wait(self, condition, what):
        wait_until(condition, what, SECONDS_MAX)

    def wait_rounds(self, count):
        """So many more looks, each of which is over when the next has begun."""
        wanted = self.api.rounds() + count + 1
        self.wait(lambda: self.api.rounds() >= wanted, "the next look")

    def metric(self, name):
        with urllib.request.urlopen(f"http://{self.address}/metrics", timeout=SECONDS_MAX * SLOWNESS) as answer:
            found = re.search(rf"^{re.escape(name)} (\d+)$", answer.read().decode(), re.M)
        return int(found.group(1)) if found else None

    def running_pod(self, *arguments, annotations=IN, status=RUNS, spec=None):
        """A pod that nobody called the plugin for, and its object."""
        pod = plugin.Pod(*arguments, with_cgroup=False)
        uid = f"0000-{pod.container}"
        if self.kubelet:
            pod.cgroup = self.kubelet / f"kubepods-pod{uid.replace('-', '_')}.slice"
            pod.cgroup.mkdir()
        self.addCleanup(pod.close)
        with self.api.lock:
            self.api.pods.append({
                "metadata": {"namespace": "shop", "name": pod.name, "uid": uid, "annotations": annotations},
                "spec": spec or {},
                "status": {"phase": "Running", "initContainerStatuses": [status],
                           "podIPs": [{"ip": address.split("/")[0]} for address in pod.addresses]}})
        return pod

    def states(self):
        return [json.loads(path.read_text()) for path in (self.run_dir / "attachments").rglob("*.json")]

    def test_gives_a_running_pod_what_add_gives(self):
        # Addresses that no pod of another test has meanwhile: the node looks at all namespaces.
        model = self.pod(("10.88.5.1/24", "fd88:5::1/64"))
        late = self.running_pod(("10.88.5.2/24", "fd88:5::2/64"))
        self.start_agent("--repair")
        self.wait(lambda: self.api.reasons() == [(late.name, "FairleadRepaired")], "the event")
        self.assert_set_up(late)
        config = {"pnet": [{"id": "NETA", "rnics": ["mlx5_0/1"]}]}
        self.add(model, **config)
        self.assertEqual(late.nft(), model.nft())
        self.assertEqual(late.alias(), model.alias())
        self.wait_rounds(2)
        self.assertEqual(len(self.api.reasons()), 1)
        self.assertEqual(self.metric('fairlead_node_repairs_total{result="repaired"}'), 1)
        self.assertEqual(self.metric('fairlead_node_repairs_total{result="failed"}'), 0)
        self.wait(lambda: self.metric('fairlead_node_broker_pods{state="open"}') == 2, "the broker's doors")
        # A runtime that knows nothing of it neither takes it off nor hinders the pod from going.
        self.good("DEL", late)
        self.good("GC", **{"cni.dev/valid-attachments": []})
        self.assert_set_up(late)
        subprocess.run(["ip", "netns", "del", late.name], check=True)
        done = subprocess.run([NODE, "gc", "--run-dir", self.run_dir], capture_output=True, text=True, check=True)
        self.assertIn(" 1 collected", done.stdout)
        self.assertEqual(late.programs(), [])

    def test_leaves_all_others_alone(self):
        others = [self.running_pod(("10.88.1.1/24",), annotations={}),
                  self.running_pod(("10.88.1.2/24",), annotations={**IN, "fairlead.io/inject": "disabled"}),
                  self.running_pod(("10.88.1.3/24",), status={**RUNS, "started": False}),
                  self.running_pod(("10.88.1.4/24",), status={**RUNS, "state": {"terminated": {}}}),
                  self.running_pod(("10.88.1.5/24",), status={**RUNS, "name": "other"}),
                  self.running_pod(("10.88.1.6/24",), spec={"hostNetwork": True})]
        known = self.running_pod(("10.88.1.7/24",))
        self.add(known)
        before = [pod.snapshot() for pod in [*others, known]]
        self.start_agent("--repair")
        self.wait_rounds(2)
        self.assertEqual([pod.snapshot() for pod in [*others, known]], before)
        self.assertEqual(self.api.reasons(), [])
        self.assertEqual(len(self.states()), 1)

    def test_an_address_that_two_have_is_nobodys(self):
        victim = self.running_pod(("10.88.2.1/24",))
        thief = self.pod(("10.88.2.2/24", "10.88.2.1/24"))
        gone = self.running_pod(("10.88.2.3/24",))
        gone.close()
        self.start_agent("--repair")
        self.wait(lambda: len(self.api.reasons()) == 2, "the events")
        self.wait_rounds(2)
        self.assertEqual(sorted(self.api.reasons()), sorted((pod.name, "FairleadNotRepaired") for pod in (victim, gone)))
        self.assertEqual(self.metric('fairlead_node_repairs_total{result="failed"}'), 2)
        messages = [event["message"] for event in self.api.events]
        self.assertTrue(any("two network namespaces have the address 10.88.2.1" in text for text in messages), messages)
        self.assertNotIn("fairlead", victim.nft() + thief.nft())
        self.assertEqual(self.states(), [])
        plugin.run("ip", "-n", thief.name, "address", "del", "10.88.2.1/24", "dev", "eth0")
        self.wait(lambda: self.api.reasons()[2:] == [(victim.name, "FairleadRepaired")], "the repair")
        self.assert_set_up(victim)

    def test_fat_pods_keep_nobody_from_repair(self):
        fat = {"annotations": {"blob": "x" * 1_500_000}}
        with self.api.lock:
            self.api.pods += [{"metadata": {"namespace": "shop", "name": f"fat{i}", "uid": f"f{i}", **fat}}
                              for i in range(3)]
        late = self.running_pod(("10.88.3.1/24",))
        self.start_agent("--repair")
        self.wait(lambda: self.api.reasons() == [(late.name, "FairleadRepaired")], "the event")
        self.assertIn(1, self.api.limits)

    def test_labels_its_node_while_the_plugin_is_installed(self):
        ours = {"fairlead.io/ready": "true", "fairlead.io/pnet.NETA": "true"}
        others = {"fairlead-pool": "a", "fairlead.io/other": "x"}
        self.api.labels = {**others, "fairlead.io/pnet.OLD": "true"}
        self.start_agent("--label-node")
        self.wait(lambda: self.api.labels == {**others, **ours}, "the labels")
        (self.conf / "10-podnet.conflist").unlink()
        self.wait(lambda: self.api.labels == others, "the labels to go")
        self.assertEqual(self.api.limits, [])

    def ready(self):
        try:
            with urllib.request.urlopen(f"http://{self.address}/readyz", timeout=SECONDS_MAX * SLOWNESS):
                return True
        except urllib.error.HTTPError as error:
            with error:
                return False

    def test_a_node_is_left_without_a_trace(self):
        others = {"fairlead-pool": "a", "fairlead.io/other": "x"}
        self.api.labels = dict(others)
        before = {path.name: path.read_text() for path in self.conf.iterdir()}
        late = self.running_pod(("10.88.4.1/24",))
        agent = self.start_agent("--label-node", "--repair")
        self.wait(lambda: len(self.api.labels) == 4 and self.api.reasons(), "labels and repair")
        self.assert_set_up(late)
        agent.terminate()
        self.assertEqual(agent.wait(SECONDS_MAX * SLOWNESS), 0)
        self.assertEqual(len(self.api.labels), 4)
        token = self.folder / "account" / "token"
        token.write_text("wrong")
        agent = self.start_agent("--label-node", "--repair", environment={"FAIRLEAD_LEAVE": "true"}, sign="not_left")
        self.assertFalse(self.ready())
        token.write_text("secret")
        self.wait(self.ready, "the node to be left")
        self.assertEqual(self.api.labels, others)
        self.assertEqual({path.name: json.loads(path.read_text()) for path in self.conf.iterdir()},
                         {name: json.loads(text) for name, text in before.items()})
        self.assertEqual((list(self.run_dir.iterdir()), list((self.folder / "bin").iterdir())), ([], []))
        self.assertEqual((late.nft(), late.alias(), late.programs()), ("", "", []))
        self.assertEqual(len(self.api.reasons()), 1)  # and nobody repairs it again
        agent.terminate()
        self.assertEqual(agent.wait(SECONDS_MAX * SLOWNESS), 0)

    def withdraw(self, *words):
        done = subprocess.run([NODE, "withdraw", "--namespace", "fl", *words], capture_output=True, text=True,
                              env={**os.environ, **self.api.environment()}, timeout=60 * SLOWNESS, check=False)
        return done.returncode, done.stderr

    def test_all_nodes_are_left_before_it_says_so(self):
        self.api.sets = {"a": [3, [0, 2, 3]], "b": [0, [0]]}
        code, log = self.withdraw("a", "b", "gone")
        self.assertEqual((code, log.count("event=all_left"), log.count("nodes=3 left=3")), (0, 3, 1), log)
        self.assertEqual(self.api.sets["a"][1], [3])
        self.assertEqual([name for name, _ in self.api.patches], ["a", "b"])
        spec = self.api.patches[0][1]["spec"]
        self.assertEqual(spec["template"]["spec"]["containers"],
                         [{"name": "node", "env": [{"name": "FAIRLEAD_LEAVE", "value": "true"}]}])
        self.assertEqual(spec["updateStrategy"]["rollingUpdate"]["maxUnavailable"], "100%")

    def test_nodes_that_do_not_answer_are_given_up(self):
        self.api.sets = {"a": [3, [2]], "b": [1, [1]]}
        for words, code in (((), 1), (("--best-effort",), 0)):
            ended, log = self.withdraw("--timeout", "1.5", "a", "b", *words)
            self.assertEqual(ended, code, log)
            self.assertIn("event=not_all_left daemonset=a nodes=3 left=2", log)
            self.assertIn("event=all_left daemonset=b", log)
        (self.folder / "account" / "token").write_text("wrong")
        ended, log = self.withdraw("--timeout", "0.5", "a")
        self.assertEqual(ended, 1)
        self.assertIn("status 401", log)

    def test_without_an_api_server_the_node_works(self):
        (self.folder / "account" / "token").write_text("wrong")
        agent = self.start_agent("--repair", "--label-node")
        self.wait(lambda: (self.metric("fairlead_node_api_errors_total") or 0) >= 4, "errors to be counted")
        text = self.log.read_text()
        self.assertEqual((text.count("event=not_labelled"), text.count("event=pods_not_listed")), (1, 1), text)
        self.assertIn("status 401", text)
        self.assertEqual(self.metric("fairlead_node_install_ready"), 1)
        agent.terminate()
        self.assertEqual(agent.wait(SECONDS_MAX * SLOWNESS), 0)
        self.start_agent("--repair", environment={"KUBERNETES_SERVICE_HOST": "", "KUBERNETES_SERVICE_PORT": "x"})
        self.assertIn("event=no_cluster", self.log.read_text())


if __name__ == "__main__":
    main()
