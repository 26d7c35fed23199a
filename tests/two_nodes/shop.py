"""The applications of the cluster, two pods of each Deployment, one a node; and the transports of their
connections."""
import contextlib
import json
import subprocess
import tempfile
import time
from dataclasses import dataclass

import workload
from expect import Failed, expect, wait_until
from node import ROOT
from workload import PORT, REQUESTS_TO_EARN, SHOP

APPLICATIONS = ("redis", "web")
SECONDS_TO_ROLL = 300
SECONDS_TO_CARRY = 30
# A connection that waits for an item that is never added.
WAIT_SECONDS = 30
BETWEEN, ON_NODE, TCP = "SMC-R between nodes", "SMC-R on a node", "TCP"
RNICS = {"rxe0": BETWEEN, "shm0": ON_NODE}


@dataclass(frozen=True)
class Pod:
    name: str
    uid: str
    address: str
    address_v6: str
    node: str
    restarts: int  # of the sidecar


@dataclass(frozen=True)
class Path:
    """The result of a connection."""
    way: str  # BETWEEN, ON_NODE or TCP
    reason: str
    peer_host: str


def spread(app):
    """Placement of pods: one of a kind on each node, also while new ones replace old ones."""
    return {"topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
         "labelSelector": {"matchLabels": {"app": app}}, "matchLabelKeys": ["pod-template-hash"]}],
        # A node that is switched off keeps its pods.
        "tolerations": [{"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute"}
                        for key in ("not-ready", "unreachable")]}


class Shop:
    def __init__(self, cluster):
        self.cluster = cluster
        self.counts = {BETWEEN: 0, ON_NODE: 0, TCP: 0}
        self.talks = 0

    def deploy(self):
        self.cluster.apply(workload.NAMESPACE)
        for app in APPLICATIONS:
            thing = workload.deployment(app, **spread(app))
            thing["spec"]["replicas"] = 2
            self.cluster.apply(thing)
        self.cluster.apply(workload.SERVICE)
        self.rolled_out()

    def rolled_out(self):
        for app in APPLICATIONS:
            self.kubectl("rollout", "status", f"deploy/{app}", f"--timeout={SECONDS_TO_ROLL}s",
                         timeout=SECONDS_TO_ROLL + 30)
        self.wait_pods()

    def restart(self):
        self.kubectl("rollout", "restart", "deploy")
        self.rolled_out()

    def kubectl(self, *words, **options):
        return self.cluster.kubectl(*SHOP, *words, **options)

    def pods(self, app):
        """{node: Pod} of those that are ready."""
        found = {}
        for item in json.loads(self.kubectl("get", "pods", "-l", f"app={app}", "-o", "json"))["items"]:
            conditions = {one["type"]: one["status"] for one in item["status"].get("conditions", [])}
            if item["metadata"].get("deletionTimestamp") or conditions.get("Ready") != "True":
                continue
            sidecars = item["status"].get("initContainerStatuses", [])
            found[item["spec"]["nodeName"]] = Pod(
                item["metadata"]["name"], item["metadata"]["uid"], item["status"]["podIP"],
                next((one["ip"] for one in item["status"]["podIPs"] if ":" in one["ip"]), ""), item["spec"]["nodeName"],
                sum(one["restartCount"] for one in sidecars))
        return found

    def wait_pods(self):
        for app in APPLICATIONS:
            wait_until(lambda app=app: len(self.pods(app)) == 2 and self.count(app) == 2, f"two pods of {app}",
                       SECONDS_TO_ROLL)

    def count(self, app):
        return len(self.kubectl("get", "pods", "-l", f"app={app}", "-o", "name").split())

    def pod(self, app, node):
        return self.pods(app)[node]

    def replace(self, app, node):
        """Replaces the pod on the node by a new one."""
        old = self.pod(app, node)
        self.kubectl("delete", "pod", old.name, timeout=SECONDS_TO_ROLL)
        self.wait_pods()
        return self.pod(app, node)

    def in_pod(self, pod, container, *words, **options):
        return self.kubectl("exec", pod.name, "-c", container, "--", *words, **options)

    def ctl(self, pod, *words):
        """The answer of its sidecar, as JSON."""
        return json.loads(self.in_pod(pod, "fairlead-proxy", "fairleadctl", "-o", "json", *words))

    def service_addresses(self):
        """Of IPv4 and IPv6."""
        return self.kubectl("get", "service", "redis", "-o", "jsonpath={.spec.clusterIPs[*]}").split()

    def ping(self, pod, address, times=1):
        return "PONG" in self.in_pod(pod, "redis", "redis-cli", "-h", address, "-r", str(times), "PING", check=False)

    def path(self, client, address):
        """The transport of one connection, determined while it is open."""
        with self.waiting(client, address, WAIT_SECONDS) as (row, _):
            if row["transport"] == "tcp":
                return Path(TCP, row["reason"], "")
            groups = self.ctl(client, "linkgroups")["link_groups"]
            group = next((one for one in groups if one["id"] == row["group"]), None)
            expect(group is not None, f"no link group {row['group']} in {groups}")
            (rnic,) = {link["rnic"] for link in group["links"]}
            return Path(RNICS[rnic], "", group["peer_host"])

    @contextlib.contextmanager
    def waiting(self, client, address, seconds):
        """The row of a connection that waits for an item of a list, 0 seconds without an end; and the name of that list."""
        self.talks += 1
        key, begun = f"nothing{self.talks}", time.monotonic()
        waits = self.start_lasting(client, address, f"BLPOP {key} {seconds}")
        try:
            yield wait_until(lambda: self.row(client, address, waits, begun), f"a connection to {address}", WAIT_SECONDS), key
        finally:
            waits.kill()
            waits.wait()

    @contextlib.contextmanager
    def held(self, client, address):
        """A connection over SMC-R that stays open, and still carries data at the end."""
        with self.waiting(client, address, 0) as (row, key):
            expect(row["transport"] == "smcr", f"the connection that stays open is {row}")
            yield row
            now = {one["id"]: one["transport"] for one in self.ctl(client, "connections")["connections"]}
            expect(now.get(row["id"]) == "smcr", f"connection {row['id']} is gone: {now}")
            self.in_pod(client, "redis", "redis-cli", "-h", address, "LPUSH", key, "arrived")
            wait_until(lambda: row["id"] not in [one["id"] for one in self.ctl(client, "connections")["connections"]],
                       "the held connection to get its answer", WAIT_SECONDS)

    def start_lasting(self, client, address, command):
        """A connection of redis-cli that has made enough requests to earn SMC-R, and then this one."""
        with tempfile.TemporaryFile("w+") as commands:
            commands.write("PING\n" * REQUESTS_TO_EARN + command + "\n")
            commands.seek(0)
            return self.cluster.start_kubectl(*SHOP, "exec", "-i", client.name, "-c", "redis", "--", "redis-cli", "-h", address,
                                              stdin=commands, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def row(self, client, address, process, begun):
        """The connection that the client's application has had open to this destination since `begun`, once its
        transport is decided."""
        peer = f"[{address}]:{PORT}" if ":" in address else f"{address}:{PORT}"
        rows = [row for row in self.ctl(client, "connections")["connections"]
                if row["direction"] == "outbound" and row["peer"] == peer and row["state"] != "handshake" and row["transport"] != "short"
                and row["age_seconds"] < time.monotonic() - begun]
        if not rows and process.poll() is not None:
            raise Failed(f"{client.name} has no connection to {address}: redis-cli ended with {process.returncode}")
        return min(rows, key=lambda row: row["age_seconds"]) if rows else None

    def expect_path(self, client, address, way, *reasons):
        """The transport of a connection, now or soon, because sidecars scan for devices every 5 s. Counts it."""
        seen = []

        def as_wanted():
            seen.append(self.path(client, address))
            return seen[-1].way == way and (not reasons or seen[-1].reason in reasons)
        try:
            wait_until(as_wanted, f"{way} from {client.name} to {address}", SECONDS_TO_CARRY)
        except Failed as error:
            raise Failed(f"{error}; it was {seen}") from None
        self.counts[way] += 1
        return seen[-1]

    def look_into(self, pod, nodes, program="fairlead-proxy"):
        """The kernel's facts about a program of the pod, by guest_process.py."""
        node = next(one for one in nodes if one.name == pod.node)
        told = json.loads(node.run(["python3", "-B", ROOT / "tests/two_nodes/guest_process.py", pod.uid, program], 120))
        expect(told, f"{program} of {pod.name} does not run on {pod.node}")
        return told
