#!/usr/bin/env python3
"""fairleadctl check and status against the test's own API server: broken kubeconfigs and clusters, each with its
cause in the output; and one cluster without errors."""
import base64
import datetime
import hashlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.parse
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).parents[1]))
import documented  # noqa: E402 pylint: disable=wrong-import-position
from fake_api_server import FakeApiServer, filler, make_certificate, openssl  # noqa: E402 pylint: disable=wrong-import-position

CTL = sys.argv.pop(1) if len(sys.argv) > 1 else "fairleadctl"
TOKEN = "secret"
HOME = "fairlead-system"
REPORTS = "fairlead-system-fairlead-reports"
POLICIES = ("fairlead-system-fairlead-node-labels", "fairlead-system-fairlead-rnic")
SPEC = {"failurePolicy": "Fail", "validations": [{"expression": "1 < 2 && 2 > 1"}]}
# As helm writes it.
DIGEST = hashlib.sha256(json.dumps(SPEC, sort_keys=True, separators=(",", ":")).replace("<", "\\u003c").replace(
    ">", "\\u003e").replace("&", "\\u0026").encode()).hexdigest()
CHART = {"app.kubernetes.io/name": "fairlead", "app.kubernetes.io/version": "0.1.0"}


def report(node="n1", **changes):
    return {"node": node, "version": "0.1.0", "written_seconds": int(time.time()), "installed": True, "cgroup2": True,
            "nri": "connected", "rdma_mode": "shared", "memlock_bytes": 8388608,
            "rnics": {"active": 2, "inactive": 0, "missing": 0}, "pods_left_out": 0,
            "pods": [{"namespace": "shop", "name": "web-0", "redirect": "good", "option_program": "good",
                      "client_address": "good", "answers": True, "smcr": 30, "tcp": 10, "short": 90, "links": 2,
                      "reasons": {"no_rdma_device": 7, "peer_not_injected": 3}}], **changes}


def config_map(status):
    return {"metadata": {"name": f"fairlead-node-{status['node']}", "namespace": REPORTS},
            "data": {"status.json": json.dumps(status)}}


def node(name="n1", **info):
    return {"metadata": {"name": name},
            "status": {"nodeInfo": {"operatingSystem": "linux", "architecture": "amd64", "kernelVersion": "6.1.0-18-amd64",
                                    "containerRuntimeVersion": "containerd://2.1.0", **info},
                       "conditions": [{"type": "Ready", "status": "True"}]}}


def workload(name, component, namespace=HOME, **rest):
    return {"metadata": {"name": name, "namespace": namespace, "labels": {**CHART, "app.kubernetes.io/component": component},
                         "annotations": {"fairlead.io/policies": ",".join(f"{policy}={DIGEST}" for policy in POLICIES)}}, **rest}


def named(name, labels=None, annotations=None):
    return {"metadata": {"name": name, "labels": labels or {}, "annotations": annotations or {}}}


def agent_of_network(name, namespace, *variables):
    """The DaemonSet of a network, as its own installation labels it."""
    container = {"name": name, "env": [{"name": key, "value": value} for key, value in variables]}
    return {"metadata": {"name": name, "namespace": namespace, "labels": {"k8s-app": name}},
            "spec": {"template": {"spec": {"containers": [container]}}}}


def good_cluster(ca):
    client = {"caBundle": base64.b64encode(ca).decode(), "service": {"namespace": HOME, "name": "fairlead-injector"}}
    return {
        "version": {"gitVersion": "v1.34.1"},
        "nodes": [node()],
        "daemonsets": [workload("fairlead-node-default", "node", status={"desiredNumberScheduled": 1, "numberReady": 1})],
        "deployments": [workload("fairlead-injector", "injector", spec={"replicas": 1}, status={"readyReplicas": 1})],
        "webhooks": [{"metadata": {"name": "fairlead-system-fairlead"},
                      "webhooks": [{"name": "pods.injector.fairlead.io", "clientConfig": client}]}],
        "policies": [],
        "narrowing": [{"metadata": {"name": name}, "spec": SPEC} for name in POLICIES],
        "bindings": [{"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]}} for name in POLICIES],
        "namespaces": [{"metadata": {"name": name, "annotations": {"fairlead.io/release": release}}}
                       for name, release in (("other", "elsewhere/fairlead"), (REPORTS, f"{HOME}/fairlead"))],
        "namespace": {"metadata": {"name": HOME, "labels": {"pod-security.kubernetes.io/enforce": "privileged"}}},
        "endpoints": [{"endpoints": [{"conditions": {"ready": True}}]}],
        "reports": [config_map(report())],
        "networks": [], "cilium": None, "felix": None, "felix_group": "crd.projectcalico.org/v1", "openshift": False,
        "more_annotations": {}, "resources": {}, "injects": True, "in_front": [], "denied": set(), "endless": set(), "dry_run": None, "dry_run_plain": None,
    }


class Api(FakeApiServer):
    def __init__(self, folder):
        self.cluster, self.asked = {}, []
        super().__init__(folder, TOKEN)

    def items(self, key, query):
        """In pages of one object, so that paging is always tested."""
        if key in self.cluster["endless"]:
            return 200, {"metadata": {"continue": "0"}, "items": []}
        begin = int(query.get("continue", "0"))
        everything = self.cluster[key]
        if self.cluster.get("long_pages"):
            end = begin + int(query["limit"])
            return 200, {"metadata": {"continue": str(end)} if end < len(everything) else {}, "items": everything[begin:end]}
        more = {"continue": str(begin + 1)} if begin + 1 < len(everything) else {}
        return 200, {"metadata": more, "items": everything[begin:begin + 1]}

    def answer(self, method, path, body):
        url = urllib.parse.urlsplit(path)
        query = dict(urllib.parse.parse_qsl(url.query))
        kind = url.path.rsplit("/", 1)[1]
        self.asked.append((method, url.path))
        if kind in self.cluster["denied"]:
            return 403, {"message": f'{kind} is forbidden: User "u" cannot list resource "{kind}"'}
        if url.path == "/version":
            return 200, self.cluster["version"]
        lists = {"/api/v1/nodes": "nodes", "/apis/apps/v1/daemonsets": "daemonsets", "/apis/apps/v1/deployments": "deployments",
                 "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations": "webhooks",
                 "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies": "policies",
                 "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies": "narrowing",
                 "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings": "bindings",
                 "/api/v1/namespaces": "namespaces",
                 f"/api/v1/namespaces/{REPORTS if self.cluster['namespaces'] else HOME}/configmaps": "reports",
                 f"/apis/discovery.k8s.io/v1/namespaces/{HOME}/endpointslices": "endpoints"}
        if url.path == "/apis/apps/v1/daemonsets" and "k8s-app" in query.get("labelSelector", ""):
            assert query["labelSelector"] == "k8s-app in (cilium,calico-node)", query
            return self.items("networks", query)
        if method == "GET" and url.path in lists:
            return self.items(lists[url.path], query)
        if (method, url.path) == ("GET", f"/api/v1/namespaces/{HOME}"):
            return (200, self.cluster["namespace"]) if self.cluster["namespace"] else (404, {"message": "not found"})
        single = {"/api/v1/namespaces/kube-system/configmaps/cilium-config": "cilium", "/apis/security.openshift.io": "openshift",
                  f"/apis/{self.cluster['felix_group']}/felixconfigurations/default": "felix"}
        if method == "GET" and self.cluster.get(single.get(url.path)):
            return 200, self.cluster[single[url.path]]
        if method == "POST" and kind == "pods":
            assert query == {"dryRun": "All"}, query
            return self.dry_run(json.loads(body))
        return 404, {"message": "not found"}

    def dry_run(self, pod):
        asks = pod["metadata"]["annotations"] == {"fairlead.io/inject": "enabled"}
        assert asks or pod["metadata"]["annotations"] == {"fairlead.io/inject": "disabled"}, pod
        if refusal := self.cluster["dry_run" if asks else "dry_run_plain"]:
            return refusal
        security = pod["spec"]["containers"][0]["securityContext"]
        assert security["runAsNonRoot"] and ("runAsUser" in security) == (not self.cluster["openshift"]), security
        if asks and self.cluster["injects"]:
            pod["spec"]["initContainers"] = [{"name": name} for name in self.cluster["in_front"]]
            pod["spec"]["initContainers"].append({"name": "fairlead-proxy", "resources": {"limits": self.cluster["resources"]}})
        pod["metadata"]["annotations"].update(self.cluster["more_annotations"])
        return 201, pod


def certificate(folder, days):
    """A client's, self-signed; `days` negative: expired."""
    make_certificate(folder, "client", "DNS:client")
    if days < 0:
        past = (datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=9)).strftime("%Y%m%d%H%M%SZ")
        end = (datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=1)).strftime("%Y%m%d%H%M%SZ")
        openssl("req", "-new", "-key", folder / "tls.key", "-subj", "/CN=client", "-out", folder / "csr")
        (folder / "index.txt").write_text("")
        (folder / "serial").write_text("01\n")
        (folder / "ca.cnf").write_text(
            f"[ca]\ndefault_ca=d\n[d]\ndatabase={folder}/index.txt\nserial={folder}/serial\nnew_certs_dir={folder}\n"
            "default_md=sha256\npolicy=p\n[p]\ncommonName=supplied\n")
        openssl("ca", "-batch", "-selfsign", "-config", folder / "ca.cnf", "-keyfile", folder / "tls.key",
                "-startdate", past, "-enddate", end, "-in", folder / "csr", "-out", folder / "tls.crt", "-notext")
    return (folder / "tls.crt").read_bytes(), (folder / "tls.key").read_bytes()


class ClusterTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory(prefix="fairlead-check-")
        cls.folder = Path(cls.holder.name)
        cls.api = Api(cls.folder / "account")
        cls.ca = (cls.api.account / "ca.crt").read_bytes()
        cls.expired, cls.expired_key = certificate(cls.folder / "expired", -1)
        cls.other, cls.other_key = certificate(cls.folder / "other", 30)

    @classmethod
    def tearDownClass(cls):
        cls.api.close()
        cls.holder.cleanup()

    def setUp(self):
        with self.api.lock:
            self.api.cluster = good_cluster(self.ca)
            self.api.asked.clear()
        self.cluster = self.api.cluster
        self.config = {
            "apiVersion": "v1", "kind": "Config", "current-context": "here",
            "clusters": [{"name": "c", "cluster": {"server": f"https://127.0.0.1:{self.api.server.server_port}",
                                                   "certificate-authority-data": base64.b64encode(self.ca).decode()}}],
            "users": [{"name": "u", "user": {"token": TOKEN}}],
            "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "shop"}}]}

    @property
    def user(self):
        return self.config["users"][0]["user"]

    @property
    def server(self):
        return self.config["clusters"][0]["cluster"]

    def kubeconfig(self, text=None):
        path = self.folder / "config"
        path.write_text(yaml.safe_dump(self.config) if text is None else text)
        return path

    @staticmethod
    def program(*command, **environment):
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env={**os.environ, **environment})

    def ctl(self, *words, text=None):
        return self.program(CTL, *words, "--kubeconfig", self.kubeconfig(text), "--timeout", "20")

    def refused(self, *words, text=None, arguments=("check",)):
        done = self.ctl(*arguments, text=text)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertEqual(done.stdout, "")
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def check(self, *words):
        done = self.ctl("check", "-o", "json", *words)
        self.assertEqual(done.stderr, "")
        checks = json.loads(done.stdout)["checks"]
        return done.returncode, [c for c in checks if c["status"] != "ok"], checks

    def assert_well(self):
        """Nothing is wrong; returns all checks."""
        _, wrong, checks = self.check()
        self.assertEqual(wrong, [])
        return checks

    def assert_named(self, name, *words, status="fail", others=(), fix=""):
        """One line names the cause; lines about its consequences may follow."""
        code, wrong, _ = self.check()
        mine = [c for c in wrong if c["name"] == name]
        self.assertEqual([c["status"] for c in mine], [status], wrong)
        for word in words:
            self.assertIn(word, mine[0]["finding"])
        self.assertNotEqual(mine[0]["fix"], "")
        self.assertIn(fix, mine[0]["fix"])
        self.assertEqual({c["name"] for c in wrong} - {name, *others}, set(), wrong)
        self.assertEqual(code, 2 if "fail" in {c["status"] for c in wrong} else 1)


class Kubeconfigs(ClusterTest):
    def test_good_ones(self):
        for change in (lambda: None,
                       lambda: self.server.update({"insecure-skip-tls-verify": True}) or
                       self.server.pop("certificate-authority-data"),
                       lambda: self.server.update({"certificate-authority": "account/ca.crt"}) or
                       self.server.pop("certificate-authority-data", None) or
                       self.server.pop("insecure-skip-tls-verify", None),
                       lambda: self.user.update({"tokenFile": "account/token"}) or self.user.pop("token"),
                       lambda: self.user.update({"client-certificate-data": base64.b64encode(self.other).decode(),
                                                 "client-key-data": base64.b64encode(self.other_key).decode()}),
                       lambda: self.server.update({"tls-server-name": "127.0.0.1",
                                                   "server": self.server["server"].replace("127.0.0.1", "localhost")})):
            change()
            done = self.ctl("check")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_several_files_are_one(self):
        first, second = self.folder / "first", self.folder / "second"
        first.write_text(yaml.safe_dump({"contexts": self.config["contexts"], "users": self.config["users"]}))
        second.write_text(yaml.safe_dump({"clusters": self.config["clusters"], "current-context": "here"}))
        done = self.program(CTL, "check", KUBECONFIG=f"{self.folder}/none:{first}:{second}")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_what_is_no_kubeconfig(self):
        missing = self.program(CTL, "check", "--kubeconfig", "/nowhere/config")
        self.assertEqual(missing.returncode, 2)
        self.assertIn("there is no file /nowhere/config; give --kubeconfig FILE", missing.stderr)
        self.refused("config: is no YAML: line", text="a: [")
        self.refused("config: is no kubeconfig", text="kind: Pod\n")
        self.refused("config: is no kubeconfig", text="")
        self.refused("longer than", text="#" * 2_000_000)
        done = self.ctl("check", "-n", "../nodes")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn('--namespace: "../nodes" is not allowed', done.stderr)

    def test_names_that_lead_nowhere(self):
        self.refused('there is no context "there"; there are: here', arguments=("check", "--context", "there"))
        del self.config["current-context"]
        self.refused("current-context: is not set", "here")
        self.config["current-context"] = "here"
        self.config["contexts"][0]["context"]["user"] = "nobody"
        self.refused('contexts[here].context.user: "nobody" is no user', "there are: u")
        self.config["contexts"][0]["context"]["cluster"] = "d"
        self.refused('contexts[here].context.cluster: "d" is no cluster', "there are: c")

    def test_servers(self):
        for server in ("http://127.0.0.1:1", "https://", "https://h:0", "https://h:x", "https://h:", "https://[::1", ""):
            self.server["server"] = server
            self.refused("clusters[c].cluster.server: ", "https://HOST[:PORT]")
        self.server["server"] = "https://no-such-host.invalid:6443"
        self.refused("no-such-host.invalid", "cannot be looked up")
        self.server["server"] = "https://127.0.0.1:1"
        self.refused("https://127.0.0.1:1", "Connection refused", "is the API server up")

    def test_authorities(self):
        self.server["certificate-authority-data"] = "%%%"
        self.refused("clusters[c].cluster.certificate-authority-data: is not base64")
        self.server["certificate-authority-data"] = base64.b64encode(b"hello").decode()
        self.refused("certificate-authority: holds no certificate")
        self.server["certificate-authority-data"] = base64.b64encode(self.expired).decode()
        self.refused("certificate-authority: expired on 20")
        self.server["insecure-skip-tls-verify"] = True
        self.server["certificate-authority-data"] = base64.b64encode(self.ca).decode()
        self.refused("insecure-skip-tls-verify: is true beside an authority")
        del self.server["insecure-skip-tls-verify"], self.server["certificate-authority-data"]
        self.server["certificate-authority"] = "nowhere.crt"
        self.refused("certificate-authority: ", "nowhere.crt cannot be read: No such file")
        self.server["proxy-url"] = "http://proxy"
        self.server["certificate-authority"] = "account/ca.crt"
        self.refused("proxy-url: is not supported")

    def test_users(self):
        for field, value in (("exec", {"command": "aws"}), ("auth-provider", {"name": "gcp"}), ("username", "u"), ("as", "admin")):
            self.config["users"][0]["user"] = {field: value}
            self.refused(f"users[u].user.{field}: is not supported", "kubectl create token")
        self.config["users"][0]["user"] = {"token": "a b"}
        self.refused("users[u].user.token: holds blanks")
        self.config["users"][0]["user"] = {"tokenFile": "none"}
        self.refused("users[u].user.tokenFile: ", "cannot be read")
        data = {"client-certificate-data": base64.b64encode(self.expired).decode()}
        self.config["users"][0]["user"] = dict(data)
        self.refused("client-key: is missing beside client-certificate")
        self.config["users"][0]["user"] = {**data, "client-key-data": base64.b64encode(self.expired_key).decode()}
        self.refused("users[u].user.client-certificate: expired on 20", "get a new kubeconfig")


class Clusters(ClusterTest):
    def test_all_is_well(self):
        code, wrong, checks = self.check()
        self.assertEqual((code, wrong), (0, []))
        self.assertGreater(len(checks), 15)
        self.assertEqual({method for method, path in self.api.asked if not path.endswith("/pods")}, {"GET"})

    def test_01_unknown_authority(self):
        self.server["certificate-authority-data"] = base64.b64encode(self.other).decode()
        self.assert_named("api_server", "is not one to trust", "self-signed certificate")

    def test_02_wrong_token(self):
        self.user["token"] = "expired"
        self.assert_named("api_server", "does not know the credentials", 'context "here"')

    def test_03_no_rights(self):
        self.cluster["denied"] = {"nodes", "daemonsets", "deployments", "mutatingwebhookconfigurations", "configmaps"}
        code, wrong, _ = self.check()
        self.assertEqual(code, 1)
        self.assertLessEqual({"nodes", "installed", "injector", "webhook", "agents"}, {c["name"] for c in wrong})
        for one in wrong:
            self.assertIn("not checked: ", one["finding"])
            self.assertIn("403", one["finding"])
            self.assertIn("ClusterRole", one["fix"])

    def test_one_cause_in_a_cluster(self):
        """What is changed in a good cluster; the check, words of its finding, and the status if it is no failure."""
        ready = {"desiredNumberScheduled": 1, "numberReady": 1}
        none, few = {"desiredNumberScheduled": 0, "numberReady": 0}, {"desiredNumberScheduled": 3, "numberReady": 1}
        other = workload("f-node-default", "node", "other", status=ready)
        security = {"pod-security.kubernetes.io/enforce": "restricted"}
        old = {"app.kubernetes.io/version": "0.0.9"}
        for change, name, words, *status in (
                (lambda c: c["version"].update(gitVersion="v1.28.3"), "kubernetes", ["v1.28.3 is older than 1.30"]),
                (lambda c: c["nodes"].append(node("old", kernelVersion="4.18.0-477.el8")), "kernel", ["old (4.18.0-477.el8)"]),
                (lambda c: c["nodes"].append(node("docks", containerRuntimeVersion="docker://24.0.1")), "runtime",
                 ["docks (docker://24.0.1)"], "warn"),
                (lambda c: c.update(nodes=[node("n1", containerRuntimeVersion="containerd://1.7.2")]), "runtime",
                 ["NRI is off", "n1"], "warn"),
                (lambda c: c.update(nodes=[node("w", operatingSystem="windows")]), "nodes", ["none of 1 runs Linux"]),
                (lambda c: c["namespace"]["metadata"]["labels"].update(security), "pod_security", ['enforces "restricted"']),
                (lambda c: c["daemonsets"].append(other), "installed", ["more than once", "fairlead-system", "other"]),
                (lambda c: c["daemonsets"][0].update(status=few), "daemonset", ["1 of 3 nodes ready"]),
                (lambda c: c["daemonsets"][0].update(status=none), "daemonset", ["selects no node"], "warn"),
                (lambda c: c.update(daemonsets=[]), "daemonset", ["there is none"]),
                (lambda c: c.update(injects=False), "injection", ["does not reach the webhook"]),
                (lambda c: c["daemonsets"][0]["metadata"]["labels"].update(old), "versions",
                 ["fairlead-node-default 0.0.9", "fairlead-injector 0.1.0"], "warn"),
                (lambda c: c.update(reports=[]), "agents", ["no agent has written a report"], "warn")):
            with self.subTest(name, words=words):
                self.setUp()
                change(self.cluster)
                self.assert_named(name, *words, status=status[0] if status else "fail")

    def test_one_cause_in_the_report_of_a_node(self):
        pod = report()["pods"][0]
        for changes, name, words, *status in (
                ({"installed": False}, "cni_chain", ["n2"]), ({"cgroup2": False}, "cgroup_v2", ["n2"]),
                ({"rdma_mode": "exclusive"}, "rdma_mode", ["exclusive", "n2"], "warn"),
                ({"nri": "off", "memlock_bytes": 65536}, "memlock", ["n2 (64 KiB)"], "warn"),
                ({"rnics": {"active": 0, "inactive": 0, "missing": 2}}, "rnics", ["n2 (2)"], "warn"),
                ({"pods": [{**pod, "redirect": "missing"}]}, "redirects", ["shop/web-0"]),
                ({"pods": [{**pod, "redirect_reason": "too old"}]}, "translation", ["shop/web-0 (too old)"], "warn"),
                ({"pods": [{**pod, "option_program": "missing"}]}, "option_program", ["shop/web-0"])):
            with self.subTest(name):
                self.cluster["reports"] = [config_map(report("n1")), config_map(report("n2", **changes))]
                self.assert_named(name, *words, status=status[0] if status else "fail")

    def test_10_not_installed(self):
        for key in ("daemonsets", "deployments", "webhooks", "reports"):
            self.cluster[key] = []
        self.assert_named("installed", "not in this cluster")
        self.assertEqual(self.ctl("check", "--pre").returncode, 0)

    def test_15_injector_is_down(self):
        self.cluster["deployments"][0]["status"] = {}
        self.cluster["endpoints"] = []
        self.cluster["dry_run"] = (500, {"message": 'failed calling webhook "pods.injector.fairlead.io": no endpoints'})
        self.assert_named("injector", "0 of 1 replicas ready", others=("webhook_service", "injection"))

    def test_16_half_of_it(self):
        self.cluster["webhooks"] = []
        self.assert_named("webhook", "no webhook configuration names it")
        self.cluster["webhooks"] = good_cluster(self.ca)["webhooks"]
        self.cluster["deployments"] = []
        self.assert_named("webhook", "the injector's Deployment is not")

    def test_17_authority_of_the_webhook_expired(self):
        client = self.cluster["webhooks"][0]["webhooks"][0]["clientConfig"]
        client["caBundle"] = base64.b64encode(self.expired).decode()
        self.assert_named("webhook_ca", "expired on 20")
        client["caBundle"] = ""
        self.assert_named("webhook_ca", "has no caBundle")

    def test_19_quota_and_other_rules_of_the_namespace(self):
        for code, words in ((403, 'pods "x" is forbidden: exceeded quota: small'),
                            (403, 'pods "x" is forbidden: failed quota: small: must specify limits.cpu for: fairlead-proxy'),
                            (403, 'pods "x" is forbidden: minimum memory usage per Container is 96Mi, but request is 64Mi'),
                            (403, 'pods "x" is forbidden: violates PodSecurity "restricted:latest"'),
                            (422, 'Pod "x" is invalid: spec.initContainers[0].resources.requests: Invalid value: "64Mi"')):
            self.cluster["dry_run"] = (code, {"message": words})
            self.assert_named("injection", "a pod with the sidecar is refused", words.split(": ", 1)[1])
            self.cluster["dry_run_plain"] = (403, {"message": "too small"})
            self.assert_named("injection", "not checked", "without the sidecar, too", "too small", status="warn")
            self.cluster["dry_run_plain"] = None
        words = 'pods is forbidden: User "u" cannot create resource "pods" in API group "" in the namespace "shop"'
        self.cluster["dry_run"] = (403, {"message": words})
        self.assert_named("injection", "not checked", "cannot create", status="warn")

    def test_24_runtime_that_does_not_connect(self):
        self.cluster["reports"] = [config_map(report(nri="not_connected"))]
        self.assert_named("nri", "n1", status="warn", others=("memlock",))

    def test_28_reports_that_are_none(self):
        for text in ("", "[]", "{", "[" * 99, '{"node": 5, "pods": {"a": 1}, "rnics": "x"}'):
            self.cluster["reports"] = [{"metadata": {}, "data": {"status.json": text}}, {"data": 5}, 7]
            self.assertIn(self.ctl("check").returncode, (1, 2), text)
            self.assertIn(self.ctl("status").returncode, (0, 1), text)

    def test_30_policies_that_narrow_rights(self):
        name = POLICIES[0]
        for key, changed, words in (
                ("narrowing", [], f"{name} is missing"),
                ("narrowing", [{"metadata": {"name": name}, "spec": {**SPEC, "failurePolicy": "Ignore"}}], "is not as the chart wrote it"),
                ("narrowing", [{"metadata": {"name": name}, "spec": {**SPEC, "matchConditions": []}}], "is not as the chart wrote it"),
                ("narrowing", [{"metadata": {"name": name}, "spec": {**SPEC, "validations": [{"expression": "true"}]}}],
                 "is not as the chart wrote it"),
                ("bindings", [], "no ValidatingAdmissionPolicyBinding denies"),
                ("bindings", [{"spec": {"policyName": name, "validationActions": ["Warn", "Audit"]}}], "denies"),
                ("bindings", [{"spec": {"policyName": name, "validationActions": ["Deny"],
                                        "matchResources": {"namespaceSelector": {}}}}], "denies"),
                ("bindings", [{"spec": {"policyName": name, "validationActions": ["Deny"], "paramRef": {"name": "x"}}}], "denies")):
            whole = self.cluster[key]
            self.cluster[key] = changed + whole[1:]
            self.assert_named("policies", words, name)
            self.cluster[key] = whole
        for thing in self.cluster["daemonsets"] + self.cluster["deployments"]:
            thing["metadata"]["annotations"]["fairlead.io/policies"] = f"{POLICIES[1]}={DIGEST}"
        self.assert_named("policies", "all rights of its role", status="warn")
        self.cluster["denied"] = {"validatingadmissionpolicies"}
        self.assert_named("policies", "not checked", status="warn")

    def use_cilium(self, **changes):
        self.cluster["networks"] = [agent_of_network("cilium", "kube-system")]
        data = {"cni-exclusive": "false", "kube-proxy-replacement": "true", "bpf-lb-sock-hostns-only": "true"}
        data.update({key.replace("_", "-"): value for key, value in changes.items()})
        self.cluster["cilium"] = {"data": data}

    def translate(self):
        """A pod has the redirect by nf_tables."""
        pod = {**report()["pods"][0], "redirect_reason": "redirect is nftables"}
        self.cluster["reports"] = [config_map(report(pods=[pod]))]

    def test_31_cilium_takes_other_configurations_away(self):
        self.use_cilium()
        self.assert_well()
        self.use_cilium(cni_exclusive="true")
        self.assert_named("network", "Cilium", 'cni-exclusive: "true"', fix="cni.exclusive=false")
        self.assertEqual(self.ctl("check", "--pre").returncode, 2)

    def test_32_cilium_balances_sockets_of_pods(self):
        self.use_cilium(bpf_lb_sock_hostns_only="false")
        self.assert_well()
        self.translate()
        for changes in ({"bpf_lb_sock_hostns_only": "false"}, {"bpf_lb_sock_hostns_only": None},
                        {"bpf_lb_sock_hostns_only": "false", "kube_proxy_replacement": "strict"},
                        {"bpf_lb_sock_hostns_only": "false", "kube_proxy_replacement": "false", "bpf_lb_sock": "true"}):
            self.use_cilium(**changes)
            self.assert_named("network", "Cilium", "bpf-lb-sock-hostns-only", "connect(2)", status="warn", others=("translation",),
                              fix="socketLB.hostNamespaceOnly=true")
        self.use_cilium(bpf_lb_sock_hostns_only="false", kube_proxy_replacement="false", bpf_lb_sock="false")
        self.assert_named("translation", "shop/web-0 (redirect is nftables)", status="warn")

    def test_33_cilium_whose_settings_are_out_of_sight(self):
        self.use_cilium()
        self.cluster["cilium"] = None
        self.assert_named("network", "cilium-config is absent", "kube-system", status="warn")
        self.cluster["denied"] = {"cilium-config"}
        self.assert_named("network", "not checked", "403", status="warn")

    def test_34_calico_rewrites_at_connect(self):
        self.cluster["networks"] = [agent_of_network("calico-node", "calico-system")]
        self.cluster["felix"] = {"spec": {"bpfEnabled": True}}
        self.assert_well()
        self.translate()
        for spec, words in (({"bpfEnabled": True}, "not set"),
                            ({"bpfEnabled": True, "bpfConnectTimeLoadBalancing": "TCP"}, "TCP"),
                            ({"bpfEnabled": True, "bpfConnectTimeLoadBalancing": "Enabled"}, "Enabled")):
            self.cluster["felix"] = {"spec": spec}
            self.assert_named("network", "Calico", f"bpfConnectTimeLoadBalancing: {words}", status="warn", others=("translation",),
                              fix="bpfConnectTimeLoadBalancing: Disabled")
        self.cluster["felix_group"] = "projectcalico.org/v3"
        self.assert_named("network", "bpfConnectTimeLoadBalancing: Enabled", status="warn", others=("translation",))
        for spec in ({"bpfEnabled": False}, {"bpfEnabled": True, "bpfConnectTimeLoadBalancing": "Disabled"},
                     {"bpfEnabled": True, "bpfConnectTimeLoadBalancingEnabled": False}):
            self.cluster["felix"] = {"spec": spec}
            self.assertEqual([wrong["name"] for wrong in self.check()[1]], ["translation"], spec)
        self.cluster["felix"] = None
        self.cluster["networks"] = [agent_of_network("calico-node", "kube-system", ("FELIX_BPFENABLED", "true"))]
        self.assert_named("network", "Calico", status="warn", others=("translation",))
        self.cluster["networks"] = [agent_of_network("calico-node", "kube-system", ("FELIX_BPFENABLED", "true"),
                                                     ("FELIX_BPFCONNECTTIMELOADBALANCING", "Disabled"))]
        self.assert_named("translation", "shop/web-0 (redirect is nftables)", status="warn")

    def test_35_namespaces_of_ambient_mode(self):
        self.cluster["namespaces"].append(named("shop", {"istio.io/dataplane-mode": "ambient"}))
        self.assert_named("mesh", "Istio's ambient mode", "shop (pods: 1)", status="warn", fix="istio.io/dataplane-mode=none")
        self.cluster["namespaces"][-1]["metadata"]["name"] = "bank"
        self.assert_well()
        self.cluster["namespaces"][-1]["metadata"]["labels"]["fairlead.io/inject"] = "enabled"
        self.assert_named("mesh", "bank (label fairlead.io/inject=enabled)", status="warn")
        self.assertEqual(self.ctl("check", "--pre").returncode, 1)
        self.cluster["denied"] = {"namespaces"}
        self.assertIn("mesh", {c["name"] for c in self.check()[1] if "not checked" in c["finding"]})

    def test_36_namespaces_of_meshes_with_sidecars(self):
        for labels, annotations, words, fix in (
                ({"istio-injection": "enabled"}, {}, "Istio's sidecars", "sidecar.istio.io/inject=false"),
                ({"istio.io/rev": "canary"}, {}, "Istio's sidecars", "sidecar.istio.io/inject=false"),
                ({}, {"linkerd.io/inject": "enabled"}, "Linkerd's sidecars", "linkerd.io/inject: disabled"),
                ({}, {"linkerd.io/inject": "ingress"}, "Linkerd's sidecars", "linkerd.io/inject: disabled")):
            self.cluster["namespaces"] = good_cluster(self.ca)["namespaces"] + [named("shop", labels, annotations)]
            self.assert_named("mesh", words, "shop (pods: 1)", status="warn", fix=fix)
        for labels, annotations in (({"istio-injection": "disabled", "istio.io/rev": "canary"}, {}),
                                    ({}, {"linkerd.io/inject": "disabled"}), ({"istio.io/dataplane-mode": "none"}, {})):
            self.cluster["namespaces"][-1] = named("shop", labels, annotations)
            self.assert_well()

    def test_37_two_sidecars_in_a_pod(self):
        for annotation, mesh in (("sidecar.istio.io/status", "Istio"), ("linkerd.io/proxy-version", "Linkerd")):
            self.cluster["more_annotations"] = {annotation: "x"}
            self.cluster["injects"] = True
            self.assert_named("injection", f"two sidecars, of Fairlead and of {mesh}")
            self.cluster["injects"] = False
            self.assert_named("injection", f"the sidecar of {mesh}, and therefore none of Fairlead", status="warn")

    def test_38_resource_that_no_node_offers(self):
        self.cluster["resources"] = {"cpu": "1", "rdma/hca_shared_devices_a": "1"}
        self.assert_named("rnic_resource", "no node offers rdma/hca_shared_devices_a", "no such resource at all")
        self.cluster["nodes"][0]["status"]["allocatable"] = {"cpu": "8", "rdma/hca_shared_devices_b": "63"}
        self.assert_named("rnic_resource", "nodes offer: rdma/hca_shared_devices_b", fix="proxy.rnicResource")
        self.cluster["nodes"][0]["status"]["allocatable"]["rdma/hca_shared_devices_a"] = "0"
        self.assert_named("rnic_resource", "it is 0 on: n1", fix="device plugin's pods")
        self.cluster["nodes"][0]["status"]["allocatable"]["rdma/hca_shared_devices_a"] = "63"
        checks = self.assert_well()
        self.assertIn("rdma/hca_shared_devices_a on 1 nodes", [c["finding"] for c in checks])

    def test_39_openshift(self):
        self.cluster["openshift"] = {"kind": "APIGroup", "name": "security.openshift.io"}
        checks = self.assert_well()
        self.assertIn("openshift", {c["name"] for c in checks})
        self.cluster["dry_run"] = (403, {"message": 'pods "x" is forbidden: unable to validate against any security context '
                                         "constraint: provider restricted-v2: .initContainers[0].runAsUser: Invalid value: 2201"})
        self.assert_named("injection", "no SCC of the pod's account permits uid 2201", "restricted-v2",
                          fix="oc adm policy add-scc-to-user nonroot-v2 -n shop")
        self.cluster["dry_run"] = None
        self.cluster["daemonsets"][0]["status"] = {"desiredNumberScheduled": 2, "numberReady": 0}
        self.cluster["daemonsets"][0]["spec"] = {"template": {"spec": {"serviceAccountName": "fairlead-node"}}}
        self.assert_named("daemonset", "0 of 2 nodes ready", "SCC privileged",
                          fix="add-scc-to-user privileged -n fairlead-system -z fairlead-node")

    def test_40_sandbox(self):
        self.cluster["nodes"][0]["metadata"]["labels"] = {"sandbox.gke.io/runtime": "gvisor"}
        self.assert_named("sandbox", "gVisor", "shop/web-0", status="warn", fix="fairlead.io/inject: disabled")
        self.cluster["nodes"][0]["metadata"]["name"] = "other"
        self.assert_well()

    def test_41_container_before_the_sidecar(self):
        self.cluster["in_front"] = ["vault-agent-init"]
        self.assert_named("injection", "the init container vault-agent-init in front of the sidecar", fix="behind fairlead-proxy")
        self.cluster["in_front"] = []
        refusal = "the init container vault-agent-init comes before the sidecar fairlead-proxy"
        self.cluster["dry_run"] = (422, {"message": f'pods "x" is forbidden: ValidatingAdmissionPolicy: {refusal}'})
        self.assert_named("injection", "is refused", refusal, fix="which webhook adds")

    def test_reports_of_an_earlier_release_are_read(self):
        self.cluster["namespaces"] = []
        self.assert_well()

    def test_29_list_without_an_end(self):
        self.cluster["endless"] = {"nodes"}
        _, wrong, _ = self.check()
        self.assertIn("the list does not end after 1000 pages", json.dumps(wrong))


class Status(ClusterTest):
    def test_by_node_namespace_and_pod(self):
        other = {**report()["pods"][0], "namespace": "bank", "name": "db-0", "smcr": 0, "tcp": 0, "short": 0, "links": 0, "reasons": {}}
        self.cluster["reports"].append(config_map(report("n2", pods=[other])))
        done = self.ctl("status")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        rows = [line.split() for line in done.stdout.splitlines()]
        self.assertIn(["n1", "0.1.0", "2", "1", "75%", "40", "90", "2", "no_rdma_device=7,peer_not_injected=3"], rows)
        self.assertIn(["bank", "-", "0", "0", "0", "-"], rows)
        self.assertIn(["shop", "web-0", "n1", "good", "75%", "40", "90", "2", "no_rdma_device=7,peer_not_injected=3"], rows)
        made = json.loads(self.ctl("status", "-o", "json", "-n", "bank").stdout)
        self.assertEqual([pod["name"] for pod in made["pods"]], ["db-0"])
        self.assertEqual(list(made["namespaces"]), ["bank"])
        self.assertEqual(len(made["nodes"]), 2)

    def test_what_is_wrong_is_named(self):
        pod = {**report()["pods"][0], "redirect": "missing", "answers": False}
        self.cluster["reports"] = [config_map(report("n1", written_seconds=1, installed=False, pods=[pod]))]
        done = self.ctl("status")
        self.assertEqual(done.returncode, 1)
        for words in ("node n1: its agent has not reported", "node n1: the CNI plugin is not installed",
                      "pod shop/web-0: it runs without its redirect", "pod shop/web-0: its sidecar does not answer"):
            self.assertIn(words, done.stdout)

    def test_pages_that_are_too_long_are_asked_for_in_parts(self):
        self.cluster["long_pages"] = True
        self.cluster["reports"] = [config_map(report(f"n{number}")) for number in range(20)]
        for one in self.cluster["reports"]:
            one["metadata"]["annotations"] = {"a": filler(1_000_000)}
        made = json.loads(self.ctl("status", "-o", "json").stdout)
        self.assertEqual(len(made["nodes"]), 20)
        self.cluster["reports"][7]["metadata"]["annotations"] = {"a": filler(5_000_000)}
        self.refused("configmaps", "one object of the list is longer than 4194304 bytes", arguments=("status",))

    def test_nobody_reports(self):
        self.cluster["reports"] = []
        done = self.ctl("status")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no agent has written a report", done.stdout)
        self.cluster["denied"] = {"configmaps"}
        self.refused("status 403", "configmaps is forbidden", arguments=("status",))

    def test_commands_of_the_page(self):
        """docs/check.md, by a kubeconfig in the environment; `status` has the tables that the page shows."""
        first, docker, plugin, (status,) = documented.groups("docs/check.md", "Questions to a cluster")
        self.assertTrue(docker[0].startswith("docker ") and plugin[0].startswith("sudo "))
        path = self.kubeconfig()
        for line in (*first, status):
            program, *words = shlex.split(line)
            self.assertEqual(program, "fairleadctl")
            done = self.program(CTL, *words, KUBECONFIG=str(path))
            self.assertEqual((done.returncode, done.stderr), (0, ""), line + done.stdout)
        page = (documented.ROOT / "docs/check.md").read_text(encoding="utf-8")
        for row in done.stdout.splitlines():
            self.assertIn(f"    {row}\n" if row else "\n", page)

    def test_as_a_plugin_of_kubectl(self):
        """kubectl runs the first kubectl-fairlead in the path with the arguments after "fairlead"."""
        link = self.folder / "kubectl-fairlead"
        if not link.exists():
            link.symlink_to(Path(CTL).resolve())
        done = self.program(link, "status", KUBECONFIG=str(self.kubeconfig()))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=1)
