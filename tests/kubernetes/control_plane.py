"""etcd, API server, controller manager and scheduler, and kubectl, in namespaces of their own.

The namespaces are for mounts, network and processes; whatever runs there ends with its first process. The programs of
Kubernetes are looked for in the path and in the user's cache, where scripts/kubernetes.sh builds them.
"""
import json
import os
import subprocess
from pathlib import Path

import apiserver
import go_programs
from suite import wait_until

OTHERS = ("etcd", "nsenter", "setpriv", "unshare", "ip")
SERVICES = "10.96.0.0/16"
API_PORT = 6443
SECONDS_MAX = 180


def why_not(*others):
    """Missing programs, including `others`; or nothing."""
    if os.geteuid() != 0:
        return "not root"
    if missing := go_programs.CLUSTER.missing():
        return f"no {', '.join(missing)}; scripts/kubernetes.sh builds them"
    if missing := [name for name in (*OTHERS, *others) if not find(name)]:
        return f"{', '.join(missing)} not installed; scripts/bootstrap.sh k8s"
    return ""


def find(name):
    return go_programs.find(name, go_programs.CLUSTER.folder)


def cni_network(*pods):
    """The pod network of these subnets, one a family. It is not a bridge, because replies between its ports would
    bypass the translation of Services."""
    routes = [{"dst": "::/0" if ":" in subnet else "0.0.0.0/0"} for subnet in pods]
    return {"cniVersion": "0.4.0", "name": "pods", "plugins": [
        {"type": "ptp",
         "ipam": {"type": "host-local", "ranges": [[{"subnet": subnet}] for subnet in pods], "routes": routes}}]}


class ControlPlane:
    """Uses a folder, which the caller removes.

    `setup` is a Bash script that runs as first process. It gets the folder and `arguments`, gives the network
    namespace `address`, creates the file node.ready in the folder, and keeps running. (Bash, because the first
    process must reap orphaned processes.)
    """

    def __init__(self, folder, address, setup, *arguments, others=(), services=SERVICES):
        self.folder, self.address, self.services = Path(folder), address, services
        self.setup = ["bash", "-c", setup, "setup", self.folder, *arguments]
        self.config = self.folder / "kubeconfig"
        self.programs = {name: str(find(name)) for name in (*go_programs.CLUSTER.names, *OTHERS, *others)}
        self.processes = {}
        self.place, self.enter = None, []

    def start_place(self):
        self.place = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--net", "--pid", "--fork",
                                       "--kill-child", "--mount-proc", *self.setup])
        ready = self.folder / "node.ready"
        wait_until(lambda: self.place.poll() is not None or ready.exists(), "the node", 30)
        assert self.place.poll() is None, "the node's namespaces could not be made"
        self.enter = [self.programs["nsenter"], "-t", self.first_process(), "-m", "-n", "-p", "--"]

    def first_process(self):
        """Its process id on the host."""
        return Path(f"/proc/{self.place.pid}/task/{self.place.pid}/children").read_text().split()[0]

    def start_api_server(self):
        subprocess.run(["openssl", "genrsa", "-out", self.folder / "account.key", "2048"], check=True,
                       capture_output=True)
        (self.folder / "tokens").write_text(f"{apiserver.TOKEN},admin,admin,system:masters\n")
        self.launch("etcd", "--data-dir", self.folder / "etcd", "--unsafe-no-fsync")
        self.launch("kube-apiserver", "--etcd-servers", "http://127.0.0.1:2379", "--secure-port", API_PORT,
                    "--advertise-address", self.address, "--cert-dir", self.folder / "certs",
                    "--service-cluster-ip-range", self.services, "--authorization-mode", "RBAC",
                    "--token-auth-file", self.folder / "tokens", "--service-account-issuer", "https://fairlead.test",
                    "--service-account-key-file", self.folder / "account.key",
                    "--service-account-signing-key-file", self.folder / "account.key", "--allow-privileged",
                    "--kubelet-preferred-address-types=InternalIP", "--enable-aggregator-routing")
        self.write_config()
        self.wait(lambda: self.kubectl("get", "--raw", "/readyz", check=False) == "ok", "the API server")

    def start_controllers(self):
        client = ["--kubeconfig", self.config, "--leader-elect=false", "--bind-address=127.0.0.1"]
        self.launch("kube-controller-manager", *client,
                    "--service-account-private-key-file", self.folder / "account.key",
                    "--root-ca-file", self.folder / "certs" / "apiserver.crt")
        self.launch("kube-scheduler", *client)

    def write_config(self):
        self.config.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": f"https://{self.address}:{API_PORT}",
                                                      "insecure-skip-tls-verify": True}}],
            "users": [{"name": "admin", "user": {"token": apiserver.TOKEN}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}]}))

    def launch(self, name, *words):
        with open(self.folder / f"{name}.log", "wb") as log:
            self.processes[name] = subprocess.Popen([*self.enter, self.programs[name], *map(str, words)], stdout=log,
                                                    stderr=log, stdin=subprocess.DEVNULL)

    def wait(self, condition, what, timeout=SECONDS_MAX):
        def holds():
            for name, process in self.processes.items():
                assert process.poll() is None, f"{name}: " + (self.folder / f"{name}.log").read_text()[-3000:]
            return condition()

        return wait_until(holds, what, timeout)

    def wait_node(self, name):
        ready = "jsonpath={.status.conditions[?(@.type=='Ready')].status}"
        self.wait(lambda: "True" in self.kubectl("get", "node", name, "-o", ready, check=False), f"{name} to be ready")

    def in_node(self, *words, check=True, timeout=SECONDS_MAX, **options):
        """The output of a command in the namespaces."""
        done = subprocess.run([*self.enter, *map(str, words)], check=False, capture_output=True, text=True,
                              timeout=timeout, **options)
        if check and done.returncode != 0:
            raise AssertionError(f"{' '.join(map(str, words))}: {done.stdout}{done.stderr}")
        return done.stdout if done.returncode == 0 else ""

    def kubectl(self, *words, check=True, **options):
        return self.in_node("env", f"KUBECONFIG={self.config}", self.programs["kubectl"], *words, check=check,
                            **options)

    def start_kubectl(self, *words, **how):
        return subprocess.Popen([*self.enter, "env", f"KUBECONFIG={self.config}", self.programs["kubectl"], *words], **how)

    def apply(self, *objects):
        self.kubectl("apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))

    def close(self):
        if self.place:
            self.place.kill()
            self.place.wait()
        for process in self.processes.values():
            process.wait()
