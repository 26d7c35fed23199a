"""A real API server with its etcd, for as long as a test needs it.

The test searches kube-apiserver in $FAIRLEAD_KUBE_APISERVER, in the path, and in the user's cache, where
scripts/kubernetes.sh builds it.
"""
import http.client
import json
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path[1:1] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "scripts")]

import go_programs  # pylint: disable=wrong-import-position
from free_port import free_port  # pylint: disable=wrong-import-position
from suite import wait_until  # pylint: disable=wrong-import-position

SECONDS_MAX = 120
TOKEN = "fairlead-test"


def find_programs():
    """Paths of kube-apiserver and etcd, or the reason why one is missing."""
    server = os.environ.get("FAIRLEAD_KUBE_APISERVER") or go_programs.CLUSTER.find("kube-apiserver")
    etcd = shutil.which("etcd")
    if not server:
        return None, "no kube-apiserver; scripts/kubernetes.sh builds one"
    if not etcd:
        return None, "no etcd; Debian's package is etcd-server"
    return (server, etcd), ""


def why_not():
    return find_programs()[1]


def skip_if(why):
    """Ends the program if there is a reason why it cannot run here."""
    if why:
        print(f"skipped: {why}")
        sys.exit(77)


class ApiServerTest(unittest.TestCase):
    """One API server, `api`, with `namespaces` for all tests of a class."""
    namespaces = ()

    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = Path(temporary.name)
        cls.api = ApiServer(find_programs()[0], cls.folder)
        cls.addClassCleanup(cls.api.__exit__)
        for name in cls.namespaces:
            cls.api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}, "")


class ApiServer:
    def __init__(self, programs, folder):
        server, etcd = programs
        client, peer, self.port = (free_port() for _ in range(3))
        self.folder = Path(folder)
        key = self.folder / "account.key"
        subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
        (self.folder / "tokens").write_text(f"{TOKEN},admin,admin,system:masters\n")
        self.logs = [open(self.folder / name, "wb") for name in ("etcd.log", "apiserver.log")]
        self.processes = [subprocess.Popen(
            [etcd, "--data-dir", self.folder / "etcd", "--listen-client-urls", f"http://127.0.0.1:{client}",
             "--advertise-client-urls", f"http://127.0.0.1:{client}", "--listen-peer-urls", f"http://127.0.0.1:{peer}"],
            stdout=self.logs[0], stderr=self.logs[0])]
        self.processes.append(subprocess.Popen(
            [server, "--etcd-servers", f"http://127.0.0.1:{client}", "--secure-port", str(self.port),
             "--bind-address", "127.0.0.1", "--advertise-address", "127.0.0.1", "--cert-dir", self.folder / "certs",
             "--service-cluster-ip-range", "10.96.0.0/16", "--authorization-mode", "RBAC",
             "--token-auth-file", self.folder / "tokens", "--service-account-issuer", "https://fairlead.test",
             "--service-account-key-file", key, "--service-account-signing-key-file", key,
             "--disable-admission-plugins", "ServiceAccount", "--enable-aggregator-routing"],
            stdout=self.logs[1], stderr=self.logs[1]))
        self.context = ssl._create_unverified_context()
        self.wait(lambda: self.call("GET", "/readyz", raw=True)[0] == 200, "the API server to be ready")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in reversed(self.processes):
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for log in self.logs:
            log.close()

    def wait(self, predicate, what):
        def holds():
            for process, log in zip(self.processes, ("etcd.log", "apiserver.log")):
                assert process.poll() is None, (self.folder / log).read_text()[-3000:]
            try:
                return predicate()
            except OSError:
                return False

        wait_until(holds, what, SECONDS_MAX)

    def call(self, method, path, body=None, raw=False, content_type="application/json", token=TOKEN):
        """Status, object, warnings."""
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=60, context=self.context)
        try:
            connection.request(method, path, json.dumps(body) if body is not None else None,
                               {"Authorization": f"Bearer {token}", "Content-Type": content_type})
            reply = connection.getresponse()
            text = reply.read()
            warnings = [value.split('"', 1)[1].rsplit('"', 1)[0].replace('\\"', '"')
                        for name, value in reply.getheaders() if name == "Warning"]
            return reply.status, text if raw else json.loads(text), warnings
        finally:
            connection.close()

    def apply(self, thing, namespace):
        """Creates an object of the kinds that the chart has."""
        group, kind = thing["apiVersion"], thing["kind"].lower()
        plural = kind[:-1] + "ies" if kind.endswith("y") else kind + "s"
        cluster_wide = kind.startswith(("cluster", "mutating", "validating", "namespace", "node"))
        place = "" if cluster_wide else f"/namespaces/{thing['metadata'].get('namespace', namespace)}"
        root = f"/api/{group}" if "/" not in group else f"/apis/{group}"
        status, reply, warnings = self.call("POST", f"{root}{place}/{plural}?fieldValidation=Strict", thing)
        assert status in (200, 201), f"{thing['kind']} {thing['metadata']['name']}: {reply.get('message')}"
        return warnings

    def install(self, things, namespace, hooks=("",)):
        """Creates the objects of a rendered chart, those of `hooks` included."""
        for thing in sorted(things, key=lambda thing: thing["kind"] != "Namespace"):
            if thing["metadata"].get("annotations", {}).get("helm.sh/hook", "") in hooks:
                self.apply(thing, namespace)

    def wait_for_policies(self):
        """The API server compiles policies some time after their creation, in the order of their creation. So those that
        exist are in force when one more is, which refuses ConfigMaps of one name."""
        marker = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": "marker"}}
        self.apply({**marker, "kind": "ValidatingAdmissionPolicy", "spec": {
            "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                                                    "resources": ["configmaps"]}]},
            "validations": [{"expression": "object.metadata.name != 'marker'"}]}}, "")
        self.apply({**marker, "kind": "ValidatingAdmissionPolicyBinding",
                    "spec": {"policyName": "marker", "validationActions": ["Deny"]}}, "")
        self.wait(lambda: self.call("POST", "/api/v1/namespaces/default/configmaps?dryRun=All",
                                    {"metadata": {"name": "marker"}})[0] == 422, "the policies")

    def account(self, name, namespace, pod=None):
        """The service account's folder as a pod has it, and the environment that points to it."""
        folder = self.folder / f"account-{pod or name}"
        folder.mkdir()
        (folder / "ca.crt").write_bytes((self.folder / "certs" / "apiserver.crt").read_bytes())
        (folder / "token").write_text(self.token(name, namespace, pod))
        return {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(self.port),
                "FAIRLEAD_SERVICE_ACCOUNT": str(folder)}

    def token(self, account, namespace, pod=None):
        """A token of the account; with `pod`, as the kubelet gives it to that pod, which names the pod's node."""
        spec = {}
        if pod:
            uid = self.call("GET", f"/api/v1/namespaces/{namespace}/pods/{pod}")[1]["metadata"]["uid"]
            spec = {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid}}
        status, reply, _ = self.call("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token",
                                     {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec})
        assert status == 201, reply
        return reply["status"]["token"]

    def agent_pod(self, name, account, namespace, node):
        """A pod of `account` that is bound to `node`, which is created too."""
        self.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}}, "")
        self.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
                    "spec": {"nodeName": node, "serviceAccountName": account,
                             "containers": [{"name": "node", "image": "node"}]}}, namespace)
        return name
