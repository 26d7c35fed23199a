#!/usr/bin/env python3
"""Fairlead in a real cluster of one node, by the commands of the README: cluster_test.py <build folder>

A kubelet starts the pods and containerd calls the plugin; Pod Security admission enforces `restricted` where the
applications are. The chart is installed by helm, two Deployments are restarted, and their connections move to SMC-R.
Then both sidecars get another image, and the connections go on. After that a pod is deleted, the chart uninstalled, and
installed again in policy mode, first without its node side: pods that run then are repaired. At last the sidecars are
killed, and come back.
"""
import contextlib
import json
import shlex
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import cluster
import containers
import helm
import leftovers
import workload
from workload import SHOP

sys.path.insert(1, str(Path(__file__).parents[1]))

import documented  # pylint: disable=wrong-import-position
from suite import main, wait_until  # pylint: disable=wrong-import-position

BUILD = Path(sys.argv.pop(1))
SYSTEM = ("-n", "fairlead-system")
CAP_SYS_RESOURCE = 24
PATCHED = "0.1.1"


def rnic_access():
    """The node agent gives RNICs with CAP_SYS_RESOURCE, which root of a nested machine may not have to give."""
    known = int(Path("/proc/self/status").read_text(encoding="ascii").split("CapBnd:")[1].split()[0], 16)
    if known >> CAP_SYS_RESOURCE & 1:
        return ()
    print("without node.rnicAccess=nri: this machine's root lacks CAP_SYS_RESOURCE", flush=True)
    return ("--set", "node.rnicAccess=none")


class RealCluster(unittest.TestCase):
    def setUp(self):
        self.helm, why = helm.find_helm()
        why = why or cluster.why_not() or containers.why_not(*containers.REDIS_PROGRAMS)
        if why:
            self.skipTest(why)
        temporary = tempfile.TemporaryDirectory(prefix="fairlead-cluster-")
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        self.folder.chmod(0o755)
        plugins = next(path for path in containers.PLUGIN_DIRS if (path / "bridge").exists())
        self.cluster = cluster.Cluster(self.folder, plugins)
        self.addCleanup(self.cluster.close)
        self.cluster.start()
        self.add_images()

    def add_images(self):
        images = containers.image_folder(BUILD, self.folder / "images")
        runtime = containers.Runtime(images, self.folder)
        for archive in (*workload.archives(runtime), runtime.patched(containers.FAIRLEAD, PATCHED)):
            self.cluster.add_image(archive)

    def shown(self, *words, check=True):
        """Runs a command as a user enters it, and returns its output."""
        done = self.cluster.in_node("env", f"KUBECONFIG={self.cluster.config}", *words, check=check)
        names = {str(self.helm): "helm", self.cluster.programs["kubectl"]: "kubectl", str(helm.CHART): "helm/fairlead"}
        print("$", " ".join(names.get(str(word), str(word)) for word in words), f"\n{done}", flush=True)
        return done

    def kubectl(self, *words, check=True):
        return self.shown(self.cluster.programs["kubectl"], *words, check=check)

    def typed(self, line, *more):
        """Runs a command of a page, with this machine's programs, chart and image."""
        places = {"helm": self.helm, "kubectl": self.cluster.programs["kubectl"], "helm/fairlead": helm.CHART}
        words = [places.get(word, word) for word in shlex.split(line.replace("registry.example/fairlead", containers.FAIRLEAD))]
        return self.shown(*words, *more)

    def install(self, verb, *settings):
        self.shown(self.helm, verb, "fairlead", helm.CHART, *SYSTEM, "--create-namespace", "--wait", "--set",
                   f"image.repository={containers.FAIRLEAD},proxy.sharedMemory=enabled", *rnic_access(), *settings)

    def wait_agent(self):
        """With one node, --wait treats a DaemonSet without a ready pod as ready, because one may be unavailable."""
        self.kubectl(*SYSTEM, "rollout", "status", "ds", "-l", "app.kubernetes.io/instance=fairlead", "--timeout=120s")

    def rolled_out(self, name):
        self.kubectl(*SHOP, "rollout", "status", f"deploy/{name}", "--timeout=120s")

    def restart(self):
        self.kubectl(*SHOP, "rollout", "restart", "deploy")
        self.wait_restarted()

    def wait_restarted(self):
        for name in ("redis", "web"):
            self.rolled_out(name)
        wait_until(lambda: len(self.pods()) == 2, "the old pods to be gone", 60)
        self.kubectl(*SHOP, "get", "pods")

    def pods(self):
        return json.loads(self.cluster.kubectl(*SHOP, "get", "pods", "-o", "json"))["items"]

    def would_be_injected(self):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "dry", "namespace": "shop"},
               "spec": workload.deployment("dry")["spec"]["template"]["spec"]}
        made = self.cluster.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", input=json.dumps(pod))
        return "initContainers" in json.loads(made)["spec"]

    def in_web(self, container, *words, check=True):
        return self.cluster.kubectl(*SHOP, "exec", "deploy/web", "-c", container, "--", *words, check=check)

    def service_address(self):
        return self.cluster.kubectl(*SHOP, "get", "service", "redis", "-o", "jsonpath={.spec.clusterIP}")

    def ping(self, times=1):
        """From a pod through the Service, over one connection."""
        return "PONG" in self.in_web("redis", "redis-cli", "-h", self.service_address(), "-r", str(times), "PING", check=False)

    @contextlib.contextmanager
    def lasting(self, pause):
        """A connection from web to redis that asks for its own number every `pause` seconds: the list of answers so far.
        It is one connection as long as all answers are equal."""
        address = self.service_address()
        log = self.folder / "lasting.log"
        with open(log, "wb") as file, self.cluster.start_kubectl(
                *SHOP, "exec", "deploy/web", "-c", "redis", "--", "redis-cli", "-h", address, "-r", "1000000", "-i", str(pause),
                "CLIENT", "ID", stdout=file, stderr=file) as client:
            try:
                yield lambda: log.read_text(encoding="ascii").splitlines()
            finally:
                client.kill()

    def sidecars(self):
        """Name of the pod, and how often and since when its sidecar runs, for each application."""
        return {pod["metadata"]["labels"]["app"]: (pod["metadata"]["name"], pod["status"]["initContainerStatuses"][0])
                for pod in self.pods()}

    def wait_started_again(self, app, restarts):
        def again():
            _, status = self.sidecars()[app]
            return status["restartCount"] == restarts and status["started"] and status["ready"]
        wait_until(again, f"the sidecar of {app} to run again", 60)

    def show_hand_over(self, app):
        for line in self.sidecar_log(app).splitlines():
            if " hand_over " in line:
                print(line, flush=True)

    def assert_replaced_alone(self):
        """Kubelet replaces a container whose image was changed, and no other: the application's connection goes on."""
        line = documented.commands("docs/hand-over.md", "In Kubernetes")[0]
        with self.lasting(0.02) as answers:
            for app in ("web", "redis"):
                wait_until(lambda: len(answers()) > workload.REQUESTS_TO_EARN, "answers", 30)
                name, status = self.sidecars()[app]
                self.assertEqual(status["restartCount"], 0)
                self.typed(line.replace("pod/web-0", f"pod/{name}").replace("registry.example.com", "localhost")
                           .replace(":0.2.0", f":{PATCHED}"), *SHOP)
                self.wait_started_again(app, 1)
                self.assertIn(f"{containers.FAIRLEAD}:{PATCHED}", self.sidecars()[app][1]["image"])
                wait_until(lambda app=app: "event=taken_back" in self.sidecar_log(app), f"the new sidecar of {app}", 30)
                self.show_hand_over(app)
                known = len(answers())
                wait_until(lambda known=known: len(answers()) > known + workload.REQUESTS_TO_EARN, "answers go on", 30)
            self.assertEqual(len(set(answers())), 1, answers()[-3:])
            for pod in self.pods():
                self.assertEqual([status["restartCount"] for status in pod["status"]["containerStatuses"]], [0])
        wait_until(lambda: self.cluster.kubectl(*SHOP, "get", "events").count("FairleadHandOver") >= 2,
                   "the Events of both pods", 120)

    def assert_killed_sidecars_come_back(self):
        """After SIGKILL of both sidecars, new connections are carried by the next ones."""
        before = {app: status["restartCount"] for app, (_, status) in self.sidecars().items()}
        self.cluster.in_node("pkill", "-KILL", "-x", "fairlead-proxy")
        for app, restarts in before.items():
            self.wait_started_again(app, restarts + 1)
        wait_until(self.ping, "a new connection", 30)

    def sidecar_log(self, name):
        return self.cluster.kubectl(*SHOP, "logs", f"deploy/{name}", "-c", "fairlead-proxy")

    def assert_carried(self):
        """The next lasting connection or one soon after uses SMC-R: sidecars search the broker each second."""
        def carried():
            if not self.ping(workload.REQUESTS_TO_EARN):
                return False
            why = json.loads(self.in_web("fairlead-proxy", "fairleadctl", "-o", "json", "why"))
            return why["decisions"][0]["transport"] == "smcr"

        wait_until(carried, "a connection over SMC-R", 30)
        self.kubectl(*SHOP, "exec", "deploy/web", "-c", "fairlead-proxy", "--", "fairleadctl", "why")

    def assert_sidecars_are_native(self):
        for pod in self.pods():
            (sidecar,) = pod["spec"]["initContainers"]
            self.assertEqual((sidecar["name"], sidecar["restartPolicy"]), ("fairlead-proxy", "Always"))
            (status,) = pod["status"]["initContainerStatuses"]
            self.assertTrue(status["started"] and status["ready"] and status["restartCount"] == 0, status)

    def assert_ends_after_its_application(self):
        """The kubelet stops the sidecar last, and the sidecar exits at once."""
        (name,) = [pod["metadata"]["name"] for pod in self.pods() if pod["metadata"]["labels"]["app"] == "web"]
        log = self.folder / "web.log"
        with open(log, "wb") as file:
            follower = subprocess.Popen(
                [*self.cluster.enter, "env", f"KUBECONFIG={self.cluster.config}", self.cluster.programs["kubectl"],
                 *SHOP, "logs", "-f", name, "-c", "fairlead-proxy"], stdout=file, stderr=file)
        wait_until(lambda: "event=ready" in log.read_text(), "the sidecar's log", 30)
        begun = time.monotonic()
        self.kubectl(*SHOP, "delete", "pod", name)
        self.assertLess(time.monotonic() - begun, workload.GRACE_SECONDS)
        follower.wait(30)
        self.assertIn("event=drain signal=Terminated", log.read_text())
        self.assertIn("event=stopped", log.read_text())
        self.rolled_out("web")

    def assert_uninstalled(self):
        self.assertEqual(leftovers.on_node(self.cluster.in_node), [])
        wait_until(lambda: not leftovers.objects_left(self.cluster.kubectl), "everything of the release to be gone", 60)

    def test_readme(self):
        self.cluster.apply(workload.NAMESPACE)
        self.cluster.apply(workload.deployment("redis"), workload.deployment("web"), workload.SERVICE)
        for name in ("redis", "web"):
            self.rolled_out(name)
        wait_until(self.ping, "redis by its Service", 60)

        install, agent, label, restart, pods, why = documented.commands("README.md", "On Kubernetes")
        self.typed(install, *rnic_access())
        self.typed(agent, "--timeout=120s")
        self.typed(label)
        self.typed(restart)
        self.wait_restarted()
        self.typed(pods)
        self.assert_sidecars_are_native()
        self.assert_carried()
        self.assertIn(": SMC-R\n", self.typed(why))
        self.assertIn("event=established", self.sidecar_log("redis"))
        self.assert_replaced_alone()
        self.assert_ends_after_its_application()
        self.assert_carried()

        self.shown(self.helm, "test", "fairlead", *SYSTEM)

        self.shown(self.helm, "uninstall", "fairlead", *SYSTEM)
        self.assert_uninstalled()
        self.assertTrue(self.ping())  # by TCP, without the sidecars, which still run

        self.install("install", "--set", "injector.mode=policy,node.enabled=false")
        wait_until(self.would_be_injected, "the API server to know the policy", 60)
        self.restart()
        self.assert_sidecars_are_native()
        self.assertTrue(self.ping())
        # Debian's containerd has no NRI that could name the pods.
        self.install("upgrade", "--set", "injector.mode=policy,node.repair=api")
        self.wait_agent()
        wait_until(lambda: self.cluster.kubectl(*SHOP, "get", "events").count("FairleadRepaired") == 2,
                   "both pods to be repaired", 60)
        ready = "option_program what=\"attached by the node side\""
        for name in ("redis", "web"):
            wait_until(lambda name=name: ready in self.sidecar_log(name), f"the sidecar of {name}", 60)
        self.assert_carried()
        self.assert_killed_sidecars_come_back()


if __name__ == "__main__":
    main()
