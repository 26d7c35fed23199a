"""fairlead-node with an API server: the real agent in the test's own folders, namespaces as pods, and the test's
own API server, which serves given objects and records requests."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import plugin
from fake_api_server import METADATA_ONLY, FakeApiServer
from plugin import IN, PLUGIN, PluginTest, cgroup_root, seconds, wait_until

NODE = Path(os.environ.get("FAIRLEAD_NODE", PLUGIN.with_name("fairlead-node")))
LIST = {"cniVersion": "1.0.0", "name": "podnet", "plugins": [{"type": "bridge"}]}
SECONDS_MAX = 20
FROM_API = ("--repair", "--repair-from", "api")
RUNS = {"name": "fairlead-proxy", "started": True, "state": {"running": {}}}


class Api(FakeApiServer):
    def __init__(self, folder, token):
        self.pods, self.events, self.labels, self.limits = [], [], {}, []
        self.refusals = {}  # path to the status with which a POST is refused
        self.refused_events = 0
        self.asked, self.asked_whole = 0, 0  # number of requests for the metadata of a single pod, or for all of it
        self.gone = 0  # requests for a next page that are answered with 410
        self.no_next_pages = False  # or with 429
        self.reports = []  # ConfigMaps as they were applied, with the query
        self.sets, self.patches = {}, []  # DaemonSets by name: [nodes, ready nodes at successive requests]
        super().__init__(folder, token)

    def answer(self, method, path, body):
        url = urllib.parse.urlsplit(path)
        query = dict(urllib.parse.parse_qsl(url.query))
        if (method, url.path) == ("GET", "/api/v1/pods"):
            assert query["fieldSelector"] == "spec.nodeName=n1", query
            self.limits.append(int(query["limit"]))
            if "continue" in query and self.gone > 0:
                self.gone -= 1
                return 410, {"kind": "Status", "reason": "Expired"}
            if "continue" in query and self.no_next_pages:
                return 429, {"kind": "Status", "reason": "TooManyRequests"}
            return 200, self.page("PodList", self.pods, query)
        if (method, url.path) == ("PATCH", "/api/v1/nodes/n1"):
            for name, value in json.loads(body)["metadata"]["labels"].items():
                self.labels[name] = value
                if value is None:
                    del self.labels[name]
            return 200, {"metadata": {"labels": self.labels}}
        if (method, url.path) == ("PUT", "/api/v1/namespaces/fl/configmaps/fairlead-node-n1"):
            if not self.reports:
                return 404, {}
            self.reports.append((query, json.loads(body)))
            return 200, {}
        if (method, url.path) == ("POST", "/api/v1/namespaces/fl/configmaps"):
            self.reports.append((query, json.loads(body)))
            return 201, {}
        if method == "GET" and url.path.startswith("/api/v1/namespaces/shop/pods/"):
            if METADATA_ONLY in self.accept:
                self.asked += 1
            else:
                self.asked_whole += 1
            found = [pod for pod in self.pods if pod["metadata"]["name"] == url.path.rsplit("/", 1)[1]]
            return (200, self.shaped(found[0])) if found else (404, {})
        if method == "POST" and url.path in self.refusals:
            self.refused_events += 1
            return self.refusals[url.path], {"message": "the namespace is being terminated"}
        if (method, url.path) == ("POST", "/api/v1/namespaces/shop/events"):
            self.events.append(json.loads(body))
            return 201, {}
        if url.path.startswith("/apis/apps/v1/namespaces/fl/daemonsets/"):
            return self.daemonset(method, url.path.rsplit("/", 1)[1], body)
        return 404, {}

    def daemonset(self, method, name, body):
        """Imitates the controller's roll-out, one step at each request."""
        if name not in self.sets:
            return 404, {}
        nodes, steps = self.sets[name]
        if method == "PATCH":
            self.patches.append((name, json.loads(body)))
            seen, done = 1, nodes  # the status is still that of the previous pods
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


class ClusterTest(PluginTest):
    TOKEN = "secret"  # of the agent

    def setUp(self):
        super().setUp()
        self.folder = Path(tempfile.mkdtemp(prefix="fairlead-cluster-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.api = Api(self.folder / "account", self.TOKEN)
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
            agent = self.spawn(
                plugin.with_rights_of_the_chart(
                    NODE, "run", "--conf-dir", self.conf, "--run-dir", self.run_dir, "--bin-dir", self.folder / "bin",
                    "--plugin", PLUGIN, "--listen", "127.0.0.1:0", "--settings", json.dumps(settings),
                    "--api-interval", "0.2", *words),
                stdout=log, stderr=log, env={**os.environ, "NODE_NAME": "n1", **self.api.environment(),
                                             **(environment or {})})
        self.wait(lambda: f" node event={sign}" in self.log.read_text(), "the agent")
        self.address = re.search(r"event=listening address=(\S+)", self.log.read_text()).group(1)
        return agent

    def report(self):
        """The last one of the node, or nothing."""
        with self.api.lock:
            return json.loads(self.api.reports[-1][1]["data"]["status.json"]) if self.api.reports else {}

    def wait(self, condition, what):
        wait_until(condition, what, SECONDS_MAX)

    def wait_rounds(self, count):
        """Waits for this many more checks of the agent; a check is over when the next one has begun."""
        wanted = self.api.rounds() + count + 1
        self.wait(lambda: self.api.rounds() >= wanted, "the next look")

    def metric(self, name):
        with urllib.request.urlopen(f"http://{self.address}/metrics", timeout=seconds(SECONDS_MAX)) as answer:
            found = re.search(rf"^{re.escape(name)} (\d+)$", answer.read().decode(), re.M)
        return int(found.group(1)) if found else None

    def running_pod(self, *arguments, annotations=IN, status=RUNS, spec=None):
        """A pod for which the plugin was not called, and its object."""
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

    @staticmethod
    def set_answers(file, answers):
        """The played sidecar reads the old ones or the new ones, never a part."""
        whole = file.with_suffix(".new")
        whole.write_text(json.dumps(answers))
        whole.chmod(0o644)
        whole.rename(file)

    def sidecar(self, pod, answers, uid=2201):
        """Serves these at the admin socket in the pod's network namespace. A number means an answer of this many
        bytes, "status" the status of all answers. The returned file has the answers; set_answers() changes them."""
        text = "import json, os, socket, sys\n" \
               "listener = socket.socket(socket.AF_UNIX)\n" \
               "os.setuid(int(sys.argv[1]))\n" \
               "listener.bind('\\0fairlead-admin')\n" \
               "listener.listen(9)\n" \
               "print('listening', flush=True)\n" \
               "while True:\n" \
               "    peer, _ = listener.accept()\n" \
               "    path = (peer.recv(4096).split() + [b'', b''])[1].decode()\n" \
               "    answers = json.load(open(sys.argv[2]))\n" \
               "    body = answers.get(path)\n" \
               "    if body is not None:\n" \
               "        body = 'x' * body if isinstance(body, int) else json.dumps(body)\n" \
               "        head = f'HTTP/1.1 {answers.get(\"status\", 200)} OK\\r\\nX: y\\r\\n\\r\\n'\n" \
               "        peer.sendall((head + body).encode())\n" \
               "        peer.close()\n" \
               "    else:\n" \
               "        kept = peer\n"
        file = Path(tempfile.mkstemp(prefix="fairlead-answers-", suffix=".json")[1])
        self.addCleanup(file.unlink)
        self.set_answers(file, answers)
        server = self.spawn(["ip", "netns", "exec", pod.name, sys.executable, "-c", text, str(uid), file],
                                  stdout=subprocess.PIPE, text=True)
        self.assertEqual(server.stdout.readline(), "listening\n")
        return file

    def states(self):
        return [json.loads(path.read_text()) for path in (self.run_dir / "attachments").rglob("*.json")]

    def ready(self):
        try:
            with urllib.request.urlopen(f"http://{self.address}/readyz", timeout=seconds(SECONDS_MAX)):
                return True
        except urllib.error.HTTPError as error:
            with error:
                return False
