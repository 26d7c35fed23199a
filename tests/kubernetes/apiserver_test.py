#!/usr/bin/env python3
"""The chart in a real API server: apiserver_test.py <folder of fairlead-injector>

The API server accepts all rendered objects under strict validation. The webhook, with its own certificates and
rights, and the admission policy both produce the golden pods of the library.
"""
import base64
import contextlib
import copy
import json
import os
import socket
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import apiserver
import helm

ROOT = Path(__file__).parents[2]
INJECTION = ROOT / "tests" / "injection"
BINARY = Path(sys.argv.pop(1)) / "fairlead-injector"
CNI = BINARY.parents[1] / "cni"
SYSTEM = "fairlead-system"
PROGRAMS, WHY_NOT = apiserver.find_programs()
HELM, WHY_NO_HELM = helm.find_helm() if PROGRAMS else (None, "")
CASES = {path.stem: json.loads(path.read_text()) for path in sorted((INJECTION / "cases").glob("*.json"))}
# Pods of the golden cases have images and status annotations that the policy about RNICs refuses.
NO_RNICS = "node.rnicAccess=none"
TEMPLATE, RESOURCE = "rnic-claim-template", "rnic-resource"
CLAIM = [{"name": "fairlead-rnic"}]
OWN = [{**CLAIM[0], "resourceClaimName": "mine"}]


def limit_range(**rule):
    return {"kind": "LimitRange", "spec": {"limits": [{"type": "Container", **rule}]}}


def quota(**hard):
    return {"kind": "ResourceQuota", "spec": {"hard": {key.replace("_", "."): value for key, value in hard.items()}}}


USUAL = {"cpu": "50m", "memory": "64Mi"}
SMALL, LARGE = {"cpu": "1m", "memory": "1Mi"}, {"cpu": "9", "memory": "9Gi"}
# Rules of namespaces that allow a sidecar: the rule, the sidecar's resources, and the size of a pod that the rule
# refuses.
PASSING = (
    (limit_range(default={"cpu": "1", "memory": "256Mi"}, max={"cpu": "2"}),
     {"requests": USUAL, "limits": {"cpu": "1", "memory": "256Mi"}}, LARGE),
    (limit_range(max={"cpu": "2", "memory": "1Gi"}), {"requests": USUAL, "limits": {"cpu": "2", "memory": "1Gi"}}, LARGE),
    (limit_range(min={"cpu": "20m", "memory": "32Mi"}), {"requests": USUAL}, SMALL),
    (quota(requests_cpu="1", requests_memory="1Gi"), {"requests": USUAL}, LARGE),
)
# Rules that refuse a pod for its sidecar: the rule, words of the refusal, and annotations of a pod that passes.
REFUSING = (
    (limit_range(default={"memory": "32Mi"}), "must be less than or equal to memory limit of 32Mi",
     {"proxy-memory-limit": "64Mi"}),
    (limit_range(min={"memory": "96Mi"}), "minimum memory usage per Container is 96Mi, but request is 64Mi",
     {"proxy-memory-request": "96Mi"}),
    (limit_range(maxLimitRequestRatio={"memory": "2"}), "request ratio per Container is 2, but no limit is specified",
     {"proxy-memory-limit": "128Mi"}),
    (limit_range(maxLimitRequestRatio={"memory": "2"}, default={"memory": "256Mi"}),
     "request ratio per Container is 2, but provided ratio is 4", {"proxy-memory-request": "128Mi"}),
    (quota(limits_cpu="1", limits_memory="1Gi"), "must specify limits.cpu for: fairlead-proxy; limits.memory for: fairlead-proxy",
     {"proxy-cpu-limit": "500m", "proxy-memory-limit": "256Mi"}),
    (quota(requests_memory="160Mi"), "exceeded quota: rule, requested: requests.memory=192Mi", {"proxy-memory-request": "32Mi"}),
)
EXPECTED = {name: json.loads((INJECTION / "expected" / f"{name}.json").read_text()) for name in CASES}


def own_address():
    """An address of this host that is not loopback, because the API server rejects loopback for endpoints."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            return probe.getsockname()[0]
        except OSError:
            return None


class InCluster(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = Path(self.temporary.name)
        self.api = apiserver.ApiServer(PROGRAMS, self.folder)
        for name, labels in ((SYSTEM, {}), ("plain", {}), ("marked", {"fairlead.io/inject": "enabled"})):
            self.api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}, "")

    def tearDown(self):
        self.api.__exit__()
        self.temporary.cleanup()

    def render(self, *arguments):
        """Objects of the installation, and those that run before a deletion."""
        hooks = {"": [], "pre-delete": [], "test": []}
        for thing in helm.render(HELM, *arguments):
            if thing["apiVersion"].split("/")[0] not in ("monitoring.coreos.com", "cert-manager.io"):
                hooks[thing["metadata"].get("annotations", {}).get("helm.sh/hook", "")].append(thing)
        return hooks[""], hooks["pre-delete"]

    def install(self, *arguments):
        known, _ = self.render(*arguments)
        for thing in known:
            self.api.apply(thing, SYSTEM)

    def test_objects_may_come_in_any_order(self):
        """The order of a program that knows only that a namespace comes before what is in it."""
        self.api.install(reversed(self.render()[0]), SYSTEM)

    def create(self, pod, namespace):
        pod = copy.deepcopy(pod)
        pod["metadata"]["namespace"] = namespace
        status, reply, warnings = self.api.call("POST", f"/api/v1/namespaces/{namespace}/pods?dryRun=All", pod)
        self.assertEqual(status, 201, reply)
        return {"annotations": reply["metadata"].get("annotations"), "spec": reply["spec"]}, warnings

    def wait_until_installed(self):
        """The API server reloads policies and webhooks every few seconds."""
        good, bad = CASES["annotated"]["pod"], CASES["bad_values"]["pod"]
        self.api.wait(lambda: self.create(good, "plain")[0]["spec"].get("initContainers"), "the first injection")
        self.api.wait(lambda: self.create(bad, "plain")[1], "the first warning")

    def check_golden_pods(self, has_all_warnings):
        self.wait_until_installed()
        for name, case in CASES.items():
            made, warnings = self.create(case["pod"], "marked" if case["namespace_opted_in"] else "plain")
            # The API server's form of the expected pod, with defaults, in a namespace without injection.
            wanted, _ = self.create(EXPECTED[name]["pod"], SYSTEM)
            self.assertEqual(made, wanted, name)
            for warning in EXPECTED[name]["warnings"]:
                is_about_a_value = "is not allowed" in warning and "at most the limit" not in warning
                if has_all_warnings or is_about_a_value:
                    self.assertTrue(any(warning in text for text in warnings), (name, warning, warnings))

    def test_policy(self):
        self.install("--set", f"injector.mode=policy,{NO_RNICS}")
        self.check_golden_pods(has_all_warnings=False)

    def check_order(self):
        """A pod in which others have come in front of the sidecar, as a webhook that runs later leaves it."""
        self.wait_until_installed()
        pod, _ = self.create(CASES["annotated"]["pod"], "plain")
        pod = {**CASES["annotated"]["pod"], "metadata": {"name": "web", "annotations": pod["annotations"]}, "spec": pod["spec"]}
        pod["spec"]["initContainers"].insert(0, {"name": "vault-agent-init", "image": "registry.example/vault:1"})
        made, _ = self.create(pod, "plain")
        self.assertEqual([one["name"] for one in made["spec"]["initContainers"]][:2], ["fairlead-proxy", "vault-agent-init"])
        # Where neither pod nor namespace asks, nothing puts it first.
        del pod["metadata"]["annotations"]["fairlead.io/inject"]
        pod["metadata"]["namespace"] = "plain"
        status, reply, _ = self.api.call("POST", "/api/v1/namespaces/plain/pods?dryRun=All", pod)
        self.assertEqual(status, 422, reply)
        self.assertIn("the init container vault-agent-init comes before the sidecar fairlead-proxy", reply["message"])
        pod["metadata"]["annotations"]["fairlead.io/allow-mesh"] = "true"
        self.create(pod, "plain")

    def test_policy_puts_the_sidecar_first_again(self):
        self.install("--set", f"injector.mode=policy,{NO_RNICS}")
        self.check_order()

    def test_policy_is_asked_again_when_another_prepends(self):
        """The API server runs policies by name."""
        self.install("--set", f"injector.mode=policy,{NO_RNICS}")
        self.wait_until_installed()
        container = "Object.spec.initContainers{name: 'late-init', image: 'registry.example/late:1'}"
        path, kind = "/spec/initContainers", "MutatingAdmissionPolicy"
        spec = {"reinvocationPolicy": "Never", "failurePolicy": "Fail", "matchConstraints": {"resourceRules": [
                    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]},
                "matchConditions": [{"name": "asked", "expression": "has(object.metadata.annotations) && 'late' in object.metadata.annotations"}],
                "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression":
                    f"(has(object.spec.initContainers) ? [] : [JSONPatch{{op: 'add', path: '{path}', value: []}}])"
                    f" + [JSONPatch{{op: 'add', path: '{path}/0', value: {container}}}]"}}]}
        for thing, content in ((kind, spec), (f"{kind}Binding", {"policyName": "zz-late"})):
            self.api.apply({"apiVersion": "admissionregistration.k8s.io/v1", "kind": thing, "metadata": {"name": "zz-late"}, "spec": content}, "")
        pod = copy.deepcopy(CASES["annotated"]["pod"])
        pod["metadata"]["annotations"]["late"] = "yes"

        def names(one):
            return [container["name"] for container in self.create(one, "plain")[0]["spec"].get("initContainers", [])]
        plain = copy.deepcopy(pod)
        plain["metadata"]["annotations"]["fairlead.io/inject"] = "disabled"
        self.api.wait(lambda: names(plain) == ["late-init"], "the other policy")
        self.assertEqual(names(pod), ["fairlead-proxy", "late-init"])

    def test_policy_agrees_about_values(self):
        """Values at each limit: the policy injects exactly the pods that the library injects."""
        self.install("--set", f"injector.mode=policy,{NO_RNICS}")
        self.wait_until_installed()
        for line in (ROOT / "tests" / "injection" / "values.txt").read_text().splitlines():
            if not line or line.startswith("#"):
                continue
            verdict, key, value = line.split(" ", 2)
            pod = copy.deepcopy(CASES["annotated"]["pod"])
            pod["metadata"]["annotations"][f"fairlead.io/{key}"] = json.loads(value)
            made, warnings = self.create(pod, "plain")
            is_injected = bool(made["spec"].get("initContainers"))
            if key != "inject":
                self.assertEqual(is_injected, verdict == "good", line)
            self.assertEqual(any("is not allowed" in text for text in warnings), verdict == "bad", (line, warnings))

    def check_requests_for_rnics(self, setting, rows):
        """Rows as those of the library (tests/unit/injector/decision_test.cc): annotations, claims of the pod, and the
        sidecar's resource, or the template of its claim."""
        self.install("--set", f"injector.mode=policy,{NO_RNICS},{setting}")
        self.wait_until_installed()
        for annotations, claims, wanted_resource, wanted_claim in rows:
            with self.subTest(annotations=annotations, claims=claims):
                pod = copy.deepcopy(CASES["annotated"]["pod"])
                pod["metadata"]["annotations"].update({f"fairlead.io/{key}": value for key, value in annotations.items()})
                pod["spec"]["resourceClaims"] = claims
                made, warnings = self.create(pod, "plain")
                self.assertEqual(warnings, [])
                sidecar = made["spec"]["initContainers"][0]
                self.assertEqual(sidecar["resources"].get("limits", {}), {wanted_resource: "1"} if wanted_resource else {})
                self.assertEqual(sidecar["resources"].get("claims", []), CLAIM if wanted_claim else [])
                given = [{**CLAIM[0], "resourceClaimTemplateName": wanted_claim}] if wanted_claim and not claims else claims
                self.assertEqual(made["spec"].get("resourceClaims", []), given)
                told = [one["value"] for one in sidecar["env"] if one["name"] == "FAIRLEAD_DEVICES_VERBS_CLAIM"]
                self.assertEqual(told, [wanted_claim] if wanted_claim else [])

    def test_policy_asks_for_rnics_where_the_setting_is_a_claim(self):
        self.check_requests_for_rnics("proxy.rnicClaimTemplate=usual", (
            ({}, [], "", "usual"), ({TEMPLATE: "other"}, [], "", "other"), ({RESOURCE: "rdma/b"}, [], "rdma/b", ""),
            ({TEMPLATE: "none"}, [], "", ""), ({TEMPLATE: "none"}, OWN, "", ""), ({RESOURCE: "none"}, [], "", "usual"),
            ({}, OWN, "", "fairlead-rnic")))

    def test_policy_asks_for_rnics_where_the_setting_is_a_resource(self):
        self.check_requests_for_rnics("proxy.rnicResource=rdma/a", (
            ({}, [], "rdma/a", ""), ({TEMPLATE: "other"}, [], "", "other"), ({TEMPLATE: "none"}, [], "rdma/a", ""),
            ({RESOURCE: "none"}, [], "", ""), ({}, OWN, "", "fairlead-rnic"), ({RESOURCE: "none"}, OWN, "", "fairlead-rnic")))

    @contextlib.contextmanager
    def webhook(self):
        """The injector, with the rights of the chart; yields its log."""
        address = own_address()
        if not address:
            self.skipTest("this host has no address besides loopback")
        self.install("--set", NO_RNICS)
        account = self.api.account("fairlead-injector", SYSTEM)
        settings = self.api.call("GET", f"/api/v1/namespaces/{SYSTEM}/configmaps/fairlead-injector")[1]["data"]
        (self.folder / "settings.json").write_text(settings["settings.json"])
        deployment = self.api.call("GET", f"/apis/apps/v1/namespaces/{SYSTEM}/deployments/fairlead-injector")[1]
        arguments = [a for a in deployment["spec"]["template"]["spec"]["containers"][0]["args"]
                     if not a.startswith("--settings")]
        log = self.folder / "injector.log"
        with open(log, "wb") as out, subprocess.Popen(
                [BINARY, "--settings", self.folder / "settings.json", *arguments, "--listen", f"{address}:0",
                 "--admin", "127.0.0.1:0"], stderr=out,
                env={**os.environ, **account}) as injector:
            try:
                self.api.wait(lambda: "what=reviews" in log.read_text() or injector.poll() is not None, "certificates")
                line = next(x for x in log.read_text().splitlines() if "what=reviews" in x)
                self.announce(address, int(line.rsplit(":", 1)[1]))
                yield log
            finally:
                injector.terminate()

    def test_webhook_with_certificates_and_rights_of_its_own(self):
        with self.webhook() as log:
            self.check_golden_pods(has_all_warnings=True)
            self.check_order()
            self.check_events(log)
        secret = self.api.call("GET", f"/api/v1/namespaces/{SYSTEM}/secrets/fairlead-injector-certs")[1]
        self.assertIn(b"BEGIN CERTIFICATE", base64.b64decode(secret["data"]["tls.crt"]))

    def namespace_with(self, number, rule):
        """A namespace that injects and has this LimitRange or ResourceQuota."""
        name = f"ruled-{number}"
        self.api.apply({"apiVersion": "v1", "kind": "Namespace",
                        "metadata": {"name": name, "labels": {"fairlead.io/inject": "enabled"}}}, "")
        self.api.apply({"apiVersion": "v1", "metadata": {"name": "rule"}, **rule}, name)
        if rule["kind"] == "ResourceQuota":  # the work of a controller
            path = f"/api/v1/namespaces/{name}/resourcequotas/rule/status"
            hard = rule["spec"]["hard"]
            code, reply, _ = self.api.call("PATCH", path, {"status": {"hard": hard, "used": {key: "0" for key in hard}}},
                                           content_type="application/merge-patch+json")
            self.assertEqual(code, 200, reply)
        return name

    def verdict(self, namespace, annotations, size=None):
        """The sidecar's resources, or the API server's refusal."""
        size = size or {"cpu": "200m", "memory": "128Mi"}
        pod = {"apiVersion": "v1", "kind": "Pod",
               "metadata": {"name": "app", "namespace": namespace,
                            "annotations": {f"fairlead.io/{key}": value for key, value in annotations.items()}},
               "spec": {"containers": [{"name": "app", "image": "app", "resources": {"requests": size, "limits": size}}]}}
        status, reply, _ = self.api.call("POST", f"/api/v1/namespaces/{namespace}/pods?dryRun=All", pod)
        if status != 201:
            self.assertIn(status, (403, 422), reply)
            return reply["message"]
        (sidecar,) = reply["spec"].get("initContainers") or [{}]
        return sidecar.get("resources", {})

    def wait_refused(self, namespace, annotations, size=None):
        """The API server's caches contain a rule some time after its creation."""
        self.api.wait(lambda: isinstance(self.verdict(namespace, annotations, size), str), "the rule")
        return self.verdict(namespace, annotations, size)

    def check_rules(self):
        self.wait_until_installed()
        for number, (rule, resources, refused_size) in enumerate(PASSING):
            with self.subTest(rule):
                name = self.namespace_with(number, rule)
                self.wait_refused(name, {"inject": "disabled"}, refused_size)
                self.assertEqual(self.verdict(name, {}), resources)
        for number, (rule, words, remedy) in enumerate(REFUSING, len(PASSING)):
            with self.subTest(rule):
                name = self.namespace_with(number, rule)
                self.assertIn(words, self.wait_refused(name, {}))
                self.assertEqual(self.verdict(name, {"inject": "disabled"}), {})
                self.assertIn("requests", self.verdict(name, remedy))

    def test_limit_ranges_and_quotas_with_the_webhook(self):
        with self.webhook():
            self.check_rules()

    def test_limit_ranges_and_quotas_with_the_policy(self):
        self.install("--set", f"injector.mode=policy,{NO_RNICS}")
        self.check_rules()

    def start_node(self, environment, sign):
        """fairlead-node as its DaemonSet runs it, in folders of this test."""
        node, log = self.folder / "node", self.folder / f"node-{sign}.log"
        (node / "net.d").mkdir(parents=True, exist_ok=True)
        conflist = node / "net.d" / "10-net.conflist"
        if not conflist.exists():
            conflist.write_text('{"cniVersion": "1.0.0", "name": "net", "plugins": [{"type": "bridge"}]}')
        pool = {"pnet": [{"id": "NETA", "rnics": ["mlx5_0/1"]}]}
        with open(log, "wb") as out:
            agent = subprocess.Popen(
                [CNI / "fairlead-node", "run", "--conf-dir", node / "net.d", "--bin-dir", node / "bin", "--run-dir",
                 node / "run", "--plugin", CNI / "fairlead-cni", "--listen", "127.0.0.1:0", "--api-interval", "0.5",
                 "--label-node", "--repair", "--settings", json.dumps(pool)],
                stderr=out, env={**os.environ, **environment, "NODE_NAME": "n1"})
        self.addCleanup(agent.wait)
        self.addCleanup(agent.kill)
        self.api.wait(lambda: f"event={sign}" in log.read_text(), f"fairlead-node: {sign}")
        return agent, log

    def labels(self):
        return self.api.call("GET", "/api/v1/nodes/n1")[1]["metadata"]["labels"]

    def test_nodes_are_labelled_and_left_by_the_rights_of_the_chart(self):
        if os.geteuid() != 0:
            self.skipTest("fairlead-node needs root")
        self.install("--set", "injector.mode=manual")
        node = self.api.account("fairlead-node", SYSTEM, self.api.agent_pod("agent-1", "fairlead-node", SYSTEM, "n1"))
        self.api.call("PATCH", "/api/v1/nodes/n1", {"metadata": {"labels": {"zone": "a"}}}, content_type="application/merge-patch+json")
        before = self.labels()
        agent, log = self.start_node(node, "ready")
        self.api.wait(lambda: self.labels() == {**before, "fairlead.io/ready": "true", "fairlead.io/pnet.NETA": "true"},
                      "the labels")
        # The steps of helm before it deletes objects.
        for thing in self.render("--set", "injector.mode=manual")[1]:
            self.api.apply(thing, SYSTEM)
        uninstall = self.api.account("fairlead-uninstall", SYSTEM)
        job = self.api.call("GET", f"/apis/batch/v1/namespaces/{SYSTEM}/jobs/fairlead-uninstall")[1]
        arguments = job["spec"]["template"]["spec"]["containers"][0]["args"]
        path = f"/apis/apps/v1/namespaces/{SYSTEM}/daemonsets/{arguments[-1]}"
        was = self.api.call("GET", path)[1]["spec"]["template"]["spec"]["containers"][0]
        with subprocess.Popen([CNI / "fairlead-node", "withdraw", *arguments], stderr=subprocess.PIPE, text=True,
                              env={**os.environ, **uninstall}) as withdrawal:
            self.api.wait(lambda: self.api.call("GET", path)[1]["metadata"]["generation"] > 1, "the patch")
            daemonset = self.api.call("GET", path)[1]
            container = daemonset["spec"]["template"]["spec"]["containers"][0]
            self.assertEqual({**container, "env": container["env"][1:]}, {**was, "env": was["env"]})
            self.assertEqual(container["env"][0], {"name": "FAIRLEAD_LEAVE", "value": "true"})
            # The reaction of the controller and the kubelet.
            agent.terminate()
            agent.wait()
            left, log = self.start_node({**node, container["env"][0]["name"]: "true"}, "left")
            self.api.wait(lambda: self.labels() == before, log.read_text())
            self.assertIsNone(withdrawal.poll())
            status = {"currentNumberScheduled": 1, "numberMisscheduled": 0, "desiredNumberScheduled": 1, "numberReady": 1,
                      "updatedNumberScheduled": 1, "observedGeneration": daemonset["metadata"]["generation"]}
            code, reply, _ = self.api.call("PATCH", f"{path}/status", {"status": status},
                                           content_type="application/merge-patch+json")
            self.assertEqual(code, 200, reply)
            self.assertIn("event=all_left", withdrawal.communicate(timeout=60)[1])
            self.assertEqual(withdrawal.returncode, 0)
        left.terminate()
        self.check_no_other_rights(uninstall, path)

    def check_no_other_rights(self, account, path):
        token = (Path(account["FAIRLEAD_SERVICE_ACCOUNT"]) / "token").read_text()
        for method, target in (("GET", path.rsplit("/", 1)[0]), ("DELETE", path), ("GET", "/api/v1/nodes/n1"),
                               ("GET", f"/api/v1/namespaces/{SYSTEM}/secrets"), ("PATCH", path.replace("default", "x"))):
            code = self.api.call(method, target, {} if method == "PATCH" else None, token=token,
                                 content_type="application/merge-patch+json")[0]
            self.assertEqual(code, 403, (method, target))

    def announce(self, address, port):
        self.api.apply({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
                        "metadata": {"name": "fairlead-injector", "labels": {"kubernetes.io/service-name": "fairlead-injector"}},
                        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
                        "ports": [{"name": "https", "port": port, "protocol": "TCP"}]}, SYSTEM)

    def check_events(self, log):
        pod = copy.deepcopy(CASES["bad_values"]["pod"])
        pod["metadata"]["namespace"] = "plain"
        status, reply, _ = self.api.call("POST", "/api/v1/namespaces/plain/pods", pod)
        self.assertEqual(status, 403 if "serviceaccount" in str(reply) else 201, reply)
        self.api.wait(lambda: self.api.call("GET", "/api/v1/namespaces/plain/events")[1]["items"], log.read_text())
        event = self.api.call("GET", "/api/v1/namespaces/plain/events")[1]["items"][0]
        self.assertEqual(event["reason"], "FairleadNotInjected")


if __name__ == "__main__":
    apiserver.skip_if(WHY_NOT or WHY_NO_HELM)
    unittest.main(verbosity=1)
