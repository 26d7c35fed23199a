#!/usr/bin/env python3
"""What a thief of a token can do: rights_test.py <folder of fairlead-injector>

A real API server has the chart, with its defaults. Each test has the token of one account and tries what
docs/threat-model.md says that its thief can and cannot do.
"""
import base64
import contextlib
import copy
import http.client
import json
import os
import re
import socket
import ssl
import subprocess
import sys
import unittest
from pathlib import Path

import apiserver
import helm

sys.path.insert(1, str(Path(__file__).parents[1]))
from suite import main  # noqa: E402  pylint: disable=wrong-import-position

BUILD = Path(sys.argv.pop(1)).parent
SYSTEM = "fairlead-system"
REPORTS = "fairlead-system-fairlead-reports"
PROGRAMS, WHY_NOT = apiserver.find_programs()
HELM, WHY_NO_HELM = helm.find_helm() if PROGRAMS else (None, "")
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
WEBHOOK = f"{WEBHOOKS}/fairlead-system-fairlead"
MERGE, JSON_PATCH, APPLY = ("application/merge-patch+json", "application/json-patch+json", "application/apply-patch+yaml")
STRATEGIC = "application/strategic-merge-patch+json"
FORBIDDEN = 403


def event(name="web-0", **changes):
    about = {"apiVersion": "v1", "kind": "Pod", "name": name, "namespace": "shop", "uid": "1"}
    return {"apiVersion": "v1", "kind": "Event", "metadata": {"generateName": "fairlead-node.", "namespace": "shop"},
            "involvedObject": about, "type": "Normal", "reason": "FairleadFallback", "message": "TCP",
            "source": {"component": "fairlead-node", "host": "n1"}, "count": 1, **changes}


def report(node, **changes):
    return {"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": f"fairlead-node-{node}", "namespace": REPORTS,
                         "labels": {"app.kubernetes.io/name": "fairlead", "app.kubernetes.io/component": "node-status"},
                         "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": node, "uid": "1"}]},
            "data": {"status.json": "{}"}, **changes}


def rendered(*arguments):
    return helm.render(HELM, *arguments)


class StolenTokens(apiserver.ApiServerTest):
    namespaces = (SYSTEM, "shop")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.api.install(rendered(), SYSTEM, hooks=("", "pre-delete"))
        cls.injector = cls.api.token("fairlead-injector", SYSTEM)
        cls.api.agent_pod("agent-1", "fairlead-node", SYSTEM, "n1")
        cls.api.agent_pod("agent-2", "fairlead-node", SYSTEM, "n2")
        cls.node = cls.api.token("fairlead-node", SYSTEM, "agent-1")
        cls.uninstall = cls.api.token("fairlead-uninstall", SYSTEM)
        cls.api.wait_for_policies()

    @classmethod
    def label(cls, node, labels, **metadata):
        return cls.as_node("PATCH", f"/api/v1/nodes/{node}", {"metadata": {"labels": labels, **metadata}}, MERGE)

    @classmethod
    def as_node(cls, method, path, body=None, content_type="application/json"):
        return cls.api.call(method, path, body, content_type=content_type, token=cls.node)

    def refused(self, answer, *words):
        status, reply, _ = answer
        self.assertEqual(status, FORBIDDEN, reply)
        for word in words:
            self.assertIn(word, reply["message"])

    def allowed(self, answer):
        self.assertIn(answer[0], (200, 201), answer[1])

    def test_injector_changes_nothing_of_its_webhook_but_the_authority(self):
        def patch(body, content_type=MERGE, path=WEBHOOK):
            return self.api.call("PATCH", path, body, content_type=content_type, token=self.injector)

        hooks = self.api.call("GET", WEBHOOK)[1]["webhooks"]
        evil = {"name": "evil.example.io", "admissionReviewVersions": ["v1"], "sideEffects": "None",
                "clientConfig": {"url": "https://evil.example/"},
                "rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}]}
        self.refused(patch({"webhooks": [evil]}), "system:serviceaccount:fairlead-system:fairlead-injector", "list of webhooks")
        self.refused(patch({"webhooks": hooks + [evil]}))
        self.refused(patch({"webhooks": hooks[:1]}))
        self.refused(patch({"webhooks": []}))
        self.refused(patch({"webhooks": None}))
        self.refused(patch({"metadata": {"labels": {"a": "b"}}}), "metadata of a webhook configuration")
        self.refused(patch({"metadata": {"finalizers": ["a.b/c"]}}))
        self.refused(patch({"metadata": {"ownerReferences": [
            {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "1"}]}}))
        schema = self.api.call("GET", "/openapi/v3/apis/admissionregistration.k8s.io/v1")[1]
        fields = schema["components"]["schemas"]["io.k8s.api.admissionregistration.v1.MutatingWebhook"]["properties"]
        values = {"rules": evil["rules"], "failurePolicy": "Fail", "timeoutSeconds": 30, "matchPolicy": "Exact",
                  "namespaceSelector": {}, "objectSelector": {"matchLabels": {"a": "b"}}, "matchConditions": [],
                  "reinvocationPolicy": "Never", "sideEffects": "None", "name": "other.example.io",
                  "admissionReviewVersions": ["v1", "v1beta1"], "clientConfig": {"url": "https://evil.example/"}}
        self.assertEqual(set(fields), set(values))
        for key, value in values.items():
            changed = copy.deepcopy(hooks)
            self.assertNotEqual(changed[0].get(key), value, key)
            changed[0][key] = value
            self.refused(patch({"webhooks": changed}))
        changed = copy.deepcopy(hooks)
        for key, value in (("name", "kubernetes"), ("namespace", "shop"), ("path", "/x"), ("port", 80)):
            changed[0]["clientConfig"]["service"] = {**hooks[0]["clientConfig"]["service"], key: value}
            self.refused(patch({"webhooks": changed}), "clientConfig.caBundle")
        self.refused(self.api.call("DELETE", WEBHOOK, token=self.injector))
        self.refused(self.api.call("GET", WEBHOOKS, token=self.injector))
        other = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
                 "metadata": {"name": "mine"}, "webhooks": [evil]}
        self.refused(self.api.call("POST", WEBHOOKS, other, token=self.injector))
        self.refused(patch([{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": "QUFB" * 20_000}], JSON_PATCH))
        self.allowed(patch([{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": "QQ=="}], JSON_PATCH))
        self.assertEqual(self.api.call("GET", WEBHOOK)[1]["webhooks"][0]["clientConfig"]["caBundle"], "QQ==")

    def test_injector_changes_only_the_data_of_its_secret(self):
        path = f"/api/v1/namespaces/{SYSTEM}/secrets/fairlead-injector-certs"
        secret = self.api.call("GET", path)[1]

        def put(**changes):
            metadata = {**secret["metadata"], **changes.pop("metadata", {})}
            return self.api.call("PUT", path, {**secret, **changes, "metadata": metadata}, token=self.injector)

        self.refused(put(immutable=True), "fields of a Secret except data")
        self.refused(put(data={"mine": "QQ=="}), "tls.key")
        owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "1"}
        for metadata in ({"finalizers": ["a.b/c"]}, {"ownerReferences": [owner]}, {"labels": {"a": "b"}}, {"annotations": {"a": "b"}}):
            self.refused(put(metadata=metadata), "metadata of a Secret")

    def test_injector_speaks_only_for_itself(self):
        mine = {"metadata": {"generateName": "fairlead-injector.", "namespace": "shop"}, "reason": "FairleadNotInjected",
                "source": {"component": "fairlead-injector"}}

        def create(**changes):
            return self.api.call("POST", "/api/v1/namespaces/shop/events", event(**{**mine, **changes}), token=self.injector)

        self.allowed(create())
        for changes in ({"source": {"component": "kubelet"}}, {"source": {}}, {"reason": "Killing"},
                        {"message": "x" * 1025}, {"reportingComponent": "kubelet"}, {"reportingInstance": "n2"}, {"type": "x" * 9999},
                        {"source": {**mine["source"], "host": "n2"}}, {"related": {"kind": "Node", "name": "n2"}}, {"count": 2},
                        {"action": "x"}, {"involvedObject": {**event()["involvedObject"], "kind": "Secret"}},
                        {"involvedObject": {**event()["involvedObject"], "fieldPath": "B" * 100_000}},
                        {"metadata": {"name": "mine", "namespace": "shop"}},
                        {"metadata": {**mine["metadata"], "name": "fake-kubelet.1"}},
                        {"metadata": {**mine["metadata"], "labels": {"a": "b"}}}):
            self.refused(create(**changes), "fairlead-injector may not change")
        for method, path in (("GET", f"/api/v1/namespaces/{SYSTEM}/secrets"), ("GET", "/api/v1/namespaces/shop/secrets/x"),
                             ("DELETE", f"/api/v1/namespaces/{SYSTEM}/secrets/fairlead-injector-certs"),
                             ("GET", f"/api/v1/namespaces/{SYSTEM}/configmaps"), ("GET", "/api/v1/pods"),
                             ("GET", "/api/v1/namespaces/shop/events")):
            self.refused(self.api.call(method, path, token=self.injector))

    def test_node_changes_the_labels_of_its_own_node_alone(self):
        self.allowed(self.label("n1", {"fairlead.io/ready": "true", "fairlead.io/pnet.NETA": "true"}))
        self.allowed(self.label("n1", {"fairlead.io/ready": None}))
        self.refused(self.label("n2", {"fairlead.io/ready": "true"}), "fairlead-node", "another node")
        self.refused(self.label("n1", {"node-role.kubernetes.io/control-plane": ""}), "labels of a node except")
        self.refused(self.label("n1", {"kubernetes.io/hostname": "n9"}))
        self.refused(self.label("n1", {"fairlead.io/ready": "evil"}), "labels of a node")
        self.refused(self.label("n1", {"fairlead.io/pnet.a_b": "true"}))
        self.refused(self.label("n1", {f"fairlead.io/pnet.{i}": "true" for i in range(100)}))
        self.refused(self.label("n1", {}, annotations={"a": "b"}), "metadata of a node")
        self.refused(self.label("n1", {}, finalizers=["a.b/c"]))
        for spec in ({"unschedulable": True}, {"taints": [{"key": "a", "effect": "NoExecute"}]}, {"podCIDR": "10.0.0.0/24"},
                     {"providerID": "x://y"}):
            self.refused(self.as_node("PATCH", "/api/v1/nodes/n1", {"spec": spec}, MERGE), "spec or status")
        self.refused(self.as_node("PATCH", "/api/v1/nodes/n1/status", {"status": {"phase": "Running"}}, MERGE))
        for method, path in (("GET", "/api/v1/nodes"), ("GET", "/api/v1/nodes/n1"), ("DELETE", "/api/v1/nodes/n1"),
                             ("POST", "/api/v1/nodes"), ("GET", "/api/v1/nodes/n1/proxy/pods")):
            self.refused(self.as_node(method, path, {} if method == "POST" else None))

    def test_node_sees_no_pod(self):
        for path in ("/api/v1/pods", "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1", "/api/v1/namespaces/shop/pods",
                     f"/api/v1/namespaces/{SYSTEM}/pods/agent-2"):
            self.refused(self.as_node("GET", path))

    def write_report(self, node, **changes):
        """Creates it, or updates it if it is there."""
        path = f"/api/v1/namespaces/{REPORTS}/configmaps"
        answer = self.as_node("PUT", f"{path}/fairlead-node-{node}", report(node, **changes))
        return answer if answer[0] != 404 else self.as_node("POST", path, report(node, **changes))

    def test_node_writes_the_report_of_its_own_node_alone(self):
        self.allowed(self.write_report("n1"))
        self.allowed(self.write_report("n1", data={"status.json": "{\"a\": 1}"}))
        self.refused(self.write_report("n2"), "report of the node of its token")
        self.refused(self.write_report("n1", data={"settings.json": "{}"}), "data of a report")
        self.refused(self.write_report("n1", binaryData={"a": "QQ=="}))
        self.refused(self.write_report("n1", immutable=True))
        self.refused(self.write_report("n1", data={"status.json": "x" * 700_000}))
        metadata = report("n1")["metadata"]
        owner = metadata["ownerReferences"][0]
        for changes in ({"labels": {}}, {"labels": {**metadata["labels"], "x": "y"}}, {"annotations": {"a": "b"}},
                        {"finalizers": ["a.b/c"]}, {"ownerReferences": [{**owner, "name": "n2"}]}, {"ownerReferences": [owner, {**owner, "uid": "2"}]},
                        {"ownerReferences": [{**owner, "blockOwnerDeletion": True}]}, {"ownerReferences": [{**owner, "apiVersion": "x/v1"}]},
                        {"ownerReferences": [{**owner, "kind": "Namespace"}]}):
            self.refused(self.write_report("n1", metadata={**metadata, **changes}), "fairlead-node may not change")
        path = f"/api/v1/namespaces/{REPORTS}/configmaps"
        self.refused(self.as_node("POST", path, {**report("n1"), "metadata": {"name": "kube-root-ca.crt"}}))
        self.api.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kube-root-ca.crt"}}, REPORTS)
        self.refused(self.as_node("PUT", f"{path}/kube-root-ca.crt", {"metadata": {"name": "kube-root-ca.crt"}, "data": {"ca.crt": "x"}}))
        # The API server shows the object in its refusal of a patch that fails.
        self.api.apply({**report("n2"), "data": {"status.json": "of-n2"}}, REPORTS)
        leak = self.as_node("PATCH", f"{path}/fairlead-node-n2", [{"op": "copy", "from": "/data/status.json", "path": "/metadata/labels"}],
                            JSON_PATCH)
        self.refused(leak)
        self.assertNotIn("of-n2", str(leak))
        self.refused(self.as_node("DELETE", f"{path}/fairlead-node-n1"))
        self.refused(self.as_node("GET", path))

    def test_node_changes_no_settings(self):
        path = f"/api/v1/namespaces/{SYSTEM}/configmaps"
        self.refused(self.as_node("PATCH", f"{path}/fairlead-injector", {"data": {"settings.json": "{}"}}, MERGE))
        self.refused(self.as_node("PUT", f"{path}/fairlead-node-n1", report("n1")))
        self.refused(self.as_node("PATCH", f"{path}/fairlead-node-n1?fieldManager=x&force=true", report("n1"), APPLY))
        self.refused(self.as_node("POST", path, {"metadata": {"name": "mine"}}))

    def test_node_speaks_only_for_itself_and_about_pods(self):
        def create(**changes):
            return self.as_node("POST", "/api/v1/namespaces/shop/events", event(**changes))

        self.allowed(create())
        for changes in ({"source": {"component": "kubelet", "host": "n1"}}, {"source": {"component": "fairlead-node"}},
                        {"source": {"component": "fairlead-node", "host": "n2"}}, {"reason": "NodeNotReady"},
                        {"involvedObject": {**event()["involvedObject"], "kind": "Secret"}}, {"message": "x" * 1025},
                        {"involvedObject": {**event()["involvedObject"], "name": "x" * 20_000}}, {"reportingInstance": "n2"},
                        {"involvedObject": {**event()["involvedObject"], "fieldPath": "B" * 100_000}}, {"action": "x" * 100_000},
                        {"related": {"kind": "Node", "name": "n2"}}, {"metadata": {"name": "web-0.kubelet", "namespace": "shop"}},
                        {"metadata": {"name": "mine", "namespace": "shop"}}, {"reportingComponent": "kubelet"}):
            self.refused(create(**changes), "fairlead-node may not change")
        modern = {"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "x"}}
        self.refused(self.as_node("POST", "/apis/events.k8s.io/v1/namespaces/shop/events", modern))

    def test_a_token_without_a_node_changes_nothing(self):
        loose = self.api.token("fairlead-node", SYSTEM)
        for method, path, body, kind in (
                ("PATCH", "/api/v1/nodes/n1", {"metadata": {"labels": {"fairlead.io/ready": "true"}}}, MERGE),
                ("POST", f"/api/v1/namespaces/{REPORTS}/configmaps", report("n1"), "application/json"),
                ("POST", "/api/v1/namespaces/shop/events", event(), "application/json")):
            self.refused(self.api.call(method, path, body, content_type=kind, token=loose))

    def test_uninstallation_only_makes_agents_leave(self):
        path = f"/apis/apps/v1/namespaces/{SYSTEM}/daemonsets/fairlead-node-default"

        def patch(body, content_type=STRATEGIC):
            return self.api.call("PATCH", path, body, content_type=content_type, token=self.uninstall)

        def in_pods(**spec):
            return {"spec": {"template": {"spec": spec}}}

        leave = [{"name": "FAIRLEAD_LEAVE", "value": "true"}]
        for body in (in_pods(containers=[{"name": "node", "image": "evil.example/x:1"}]),
                     in_pods(containers=[{"name": "node", "command": ["sh"]}]),
                     in_pods(containers=[{"name": "node", "securityContext": {"seccompProfile": {"type": "Unconfined"}}}]),
                     in_pods(containers=[{"name": "more", "image": "evil.example/x:1"}]),
                     in_pods(containers=[{"name": "node", "env": [{"name": "LD_PRELOAD", "value": "/x"}]}]),
                     in_pods(containers=[{"name": "node", "env": [{"name": "FAIRLEAD_LEAVE", "value": "x"}]}]),
                     in_pods(initContainers=[{"name": "more", "image": "evil.example/x:1"}]),
                     in_pods(serviceAccountName="default"), in_pods(volumes=[{"name": "x", "hostPath": {"path": "/"}}]),
                     {"spec": {"template": {"metadata": {"annotations": {"a": "b"}}}}},
                     {"spec": {"updateStrategy": {"type": "OnDelete"}}}, {"metadata": {"labels": {"a": "b"}}},
                     {"metadata": {"annotations": {"a": "b"}}}):
            self.refused(patch(body), "fairlead-uninstall may not change")
        self.allowed(patch({"spec": {"updateStrategy": {"rollingUpdate": {"maxUnavailable": "100%"}},
                                     **in_pods(containers=[{"name": "node", "env": leave}])["spec"]}}))
        for method, target in (("GET", path.rsplit("/", 1)[0]), ("DELETE", path), ("GET", "/api/v1/nodes/n1")):
            self.refused(self.api.call(method, target, token=self.uninstall))


def rights_of_the_page():
    """{(account, verb, resource): what shows that it is missing}, from the table of docs/threat-model.md."""
    page = (Path(__file__).parents[2] / "docs" / "threat-model.md").read_text()
    rows = re.findall(r"^\| (\w+) \| (get|list|create|patch|update|delete|watch) (\w+) \|.*?\|.*?\| (.*?) \|", page, re.M)
    return {(account, verb, resource): sign.split(",")[0].strip("`") for account, verb, resource, sign in rows}


def roles(things):
    """{(account, verb, resource)} of rendered objects."""
    found = set()
    for thing in things:
        if thing["kind"] in ("Role", "ClusterRole"):
            account = thing["metadata"]["name"].rsplit("-", 1)[1]
            for rule in thing["rules"]:
                found |= {(account, verb, resource) for verb in rule["verbs"] for resource in rule["resources"]}
    return found


class NeededRights(apiserver.ApiServerTest):
    """Each right of the table is taken away; the program that needs it says so."""
    namespaces = (SYSTEM, "shop")

    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0:
            raise unittest.SkipTest("fairlead-node needs root")
        super().setUpClass()
        cls.api.install(rendered("--set", "node.repair=api"), SYSTEM, hooks=("", "pre-delete"))
        cls.api.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "viewer"}}, SYSTEM)
        for kind, role, place in (("ClusterRole", "fairlead-system-fairlead-viewer", SYSTEM), ("Role", "fairlead-viewer", REPORTS)):
            cls.api.apply({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind + "Binding", "metadata": {"name": "viewer-test"},
                           "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
                           "subjects": [{"kind": "ServiceAccount", "name": "viewer", "namespace": SYSTEM}]}, place)
        # fairleadctl reads the settings of these networks where their DaemonSets are.
        for name in ("cilium", "calico-node"):
            labels = {"k8s-app": name}
            cls.api.apply({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name, "labels": labels},
                           "spec": {"selector": {"matchLabels": labels}, "template": {
                               "metadata": {"labels": labels}, "spec": {"containers": [{"name": name, "image": "x"}]}}}}, "shop")
        cls.api.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cilium-config"},
                       "data": {"cni-exclusive": "false", "kube-proxy-replacement": "false"}}, "shop")
        # A pod whose addresses no network namespace has cannot be repaired, which is an Event.
        cls.api.agent_pod("agent-1", "fairlead-node", SYSTEM, "n1")
        annotations = {"fairlead.io/inject": "enabled", "fairlead.io/status": "{}", "fairlead.io/rnic-access": "none"}
        cls.api.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-0", "annotations": annotations},
                       "spec": {"nodeName": "n1", "containers": [{"name": "fairlead-proxy", "image": "x"}]}}, "shop")
        status = {"phase": "Running", "podIP": "192.0.2.9", "podIPs": [{"ip": "192.0.2.9"}], "containerStatuses": [
            {"name": "fairlead-proxy", "image": "x", "imageID": "", "ready": True, "started": True, "restartCount": 0,
             "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}]}
        code, reply, _ = cls.api.call("PATCH", "/api/v1/namespaces/shop/pods/web-0/status", {"status": status}, content_type=MERGE)
        assert code == 200, reply
        cls.api.wait_for_policies()
        cls.accounts = {"injector": cls.api.account("fairlead-injector", SYSTEM),
                        "node": cls.api.account("fairlead-node", SYSTEM, "agent-1"),
                        "uninstall": cls.api.account("fairlead-uninstall", SYSTEM),
                        "viewer": cls.api.account("viewer", SYSTEM)}

    def token(self, account):
        return (Path(self.accounts[account]["FAIRLEAD_SERVICE_ACCOUNT"]) / "token").read_text()

    def may(self, account, verb, resource):
        group = {"daemonsets": "apps", "deployments": "apps", "endpointslices": "discovery.k8s.io",
                 "felixconfigurations": "crd.projectcalico.org"}.get(
            resource, "admissionregistration.k8s.io" if resource.startswith(("mutating", "validating")) else "")
        places = {"secrets": (SYSTEM, "fairlead-injector-certs"), "mutatingwebhookconfigurations": ("", "fairlead-system-fairlead"),
                  "configmaps": (REPORTS, ""), "daemonsets": (SYSTEM, "fairlead-node-default")}
        place, name = places.get(resource, ("", ""))
        if account == "viewer":
            place, name = {("list", "configmaps"): (REPORTS, ""), ("get", "configmaps"): ("shop", "cilium-config"),
                           ("get", "felixconfigurations"): ("", "default")}.get((verb, resource), ("", ""))
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": {
            "verb": verb, "resource": resource, "group": group, "namespace": place, "name": name}}}
        return self.api.call("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review,
                             token=self.token(account))[1]["status"]["allowed"]

    @contextlib.contextmanager
    def without(self, account, verb, resource):
        changed = []
        for path in ("/apis/rbac.authorization.k8s.io/v1/clusterroles", "/apis/rbac.authorization.k8s.io/v1/roles"):
            for role in self.api.call("GET", f"{path}?labelSelector=app.kubernetes.io%2Fname%3Dfairlead")[1]["items"]:
                name, place = role["metadata"]["name"], role["metadata"].get("namespace")
                target = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{place}/roles/{name}" if place else f"{path}/{name}"
                less = [{**rule, "resources": [one], "verbs": [v for v in rule["verbs"] if (one, v) != (resource, verb)]}
                        for rule in role["rules"] for one in rule["resources"]]
                if name.rsplit("-", 1)[1] == account and any(not rule["verbs"] or resource in rule["resources"] for rule in less):
                    changed.append((target, role["rules"]))
                    self.write(target, [rule for rule in less if rule["verbs"]])
        self.assertTrue(changed, (account, verb, resource))
        self.api.wait(lambda: not self.may(account, verb, resource), f"{account} without {verb} {resource}")
        try:
            yield
        finally:
            for target, rules in changed:
                self.write(target, rules)
            self.api.wait(lambda: self.may(account, verb, resource), f"{account} with {verb} {resource}")

    def write(self, path, rules):
        code, reply, _ = self.api.call("PATCH", path, {"rules": rules}, content_type=MERGE)
        self.assertEqual(code, 200, reply)

    @contextlib.contextmanager
    def program(self, account, *words, **environment):
        """Yields a function that waits for an event in the log of a program."""
        log = self.folder / "log"
        with open(log, "wb") as out:
            running = subprocess.Popen(list(map(str, words)), stderr=out, stdout=out,
                                       env={**os.environ, **self.accounts[account], **environment})
        try:
            yield lambda sign: self.api.wait(lambda: re.search(rf"event={sign}\b", log.read_text()), f"{sign}: {words[0]}")
        finally:
            running.kill()
            running.wait()
            self.text = log.read_text()

    def run_injector(self, sign):
        settings = self.api.call("GET", f"/api/v1/namespaces/{SYSTEM}/configmaps/fairlead-injector")[1]["data"]["settings.json"]
        (self.folder / "settings.json").write_text(settings)
        with self.program("injector", BUILD / "injector/fairlead-injector", "--settings", self.folder / "settings.json",
                          "--namespace", SYSTEM, "--secret", "fairlead-injector-certs", "--service", "fairlead-injector",
                          "--webhook", "fairlead-system-fairlead", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0") as wait:
            if sign in ("event_lost", "ready"):
                wait("ready")
                port = int(re.search(r"what=reviews address=\S+:(\d+)", (self.folder / "log").read_text())[1])
                client = http.client.HTTPSConnection("127.0.0.1", port, context=ssl._create_unverified_context(), timeout=60)
                pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bad", "annotations": {
                    "fairlead.io/inject": "enabled", "fairlead.io/log-level": "loud"}}, "spec": {"containers": [{"name": "a"}]}}
                client.request("POST", "/mutate/pods", json.dumps({
                    "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
                    "request": {"uid": "1", "kind": {"group": "", "version": "v1", "kind": "Pod"}, "namespace": "shop", "operation": "CREATE", "object": pod}}))
                self.assertEqual(client.getresponse().status, 200)
                client.close()
            wait(sign)

    def run_node(self, sign, effect=lambda: True):
        node = self.folder / "node"
        (node / "net.d").mkdir(parents=True, exist_ok=True)
        (node / "net.d" / "10-net.conflist").write_text('{"cniVersion": "1.0.0", "name": "net", "plugins": [{"type": "bridge"}]}')
        run = node / "run"
        with self.program("node", BUILD / "cni/fairlead-node", "run", "--conf-dir", node / "net.d", "--bin-dir", node / "bin",
                          "--run-dir", run, "--plugin", BUILD / "cni/fairlead-cni", "--listen", "127.0.0.1:0", "--api-interval", "0.3",
                          "--rnic-access", "none", "--label-node", "--repair", "--repair-from", "api", "--report-status",
                          "--report-namespace", REPORTS, "--report-interval", "0.3", "--settings", "{}", NODE_NAME="n1") as wait:
            wait("ready")
            if sign == "no_answer":
                with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as plugin:
                    self.api.wait(lambda: plugin.connect_ex(str(run / "agent.sock")) == 0, "the agent's socket")
                    plugin.send(json.dumps({"ask": "annotations", "namespace": "shop", "pod": "web-0", "uid": ""}).encode())
                    self.assertIn(b"error", plugin.recv(65536))
            wait(sign)
            self.api.wait(effect, "the effect")

    def run_uninstall(self, sign):
        with self.program("uninstall", BUILD / "cni/fairlead-node", "withdraw", "--namespace", SYSTEM, "--timeout", "3",
                          "fairlead-node-default") as wait:
            wait(sign)
        self.assertIn("status 403", self.text)

    def run_viewer(self, sign):
        authority = base64.b64encode((self.folder / "certs" / "apiserver.crt").read_bytes()).decode()
        config = self.folder / "kubeconfig"
        config.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "a",
            "clusters": [{"name": "a", "cluster": {"server": f"https://127.0.0.1:{self.api.port}", "certificate-authority-data": authority}}],
            "users": [{"name": "a", "user": {"token": self.token("viewer")}}],
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a", "namespace": "shop"}}]}))
        done = subprocess.run([BUILD / "proxy/ctl/fairleadctl", "check", "-o", "json", "--kubeconfig", config], capture_output=True,
                              text=True, check=False, timeout=120)
        name, words = sign.split(" ", 1)
        found = [check["finding"] for check in json.loads(done.stdout)["checks"] if check["name"] == name]
        self.assertTrue(any(words in finding for finding in found), (sign, done.stdout))

    def test_the_page_lists_what_the_chart_grants(self):
        granted = set()
        for mode in ("webhook", "policy", "manual"):
            for certs in ("selfManaged", "certManager", "existingSecret"):
                for access in ("nri", "resource"):
                    for repair in ("true", "api", "false"):
                        granted |= roles(rendered("--set", f"injector.mode={mode},injector.certs.mode={certs},"
                                                  f"injector.certs.existingSecret=x,node.rnicAccess={access},node.repair={repair},"
                                                  "profile=ha,networkPolicy.enabled=true"))
        self.assertEqual(granted, set(rights_of_the_page()))

    def test_no_right_of_the_defaults_reads_pods(self):
        self.assertNotIn("pods", {resource for _, _, resource in roles(rendered())})

    def test_the_rights_suffice(self):
        """Injector, agent and fairleadctl under roles and policies: what each does arrives, and none complains."""
        self.run_injector("ready")
        self.assertNotRegex(self.text, "event=(certificate_failed|event_lost)")
        pem = self.api.call("GET", WEBHOOK)[1]["webhooks"][0]["clientConfig"]["caBundle"]
        self.assertIn(b"BEGIN CERTIFICATE", base64.b64decode(pem))
        made = {"events": "/api/v1/namespaces/shop/events", "report": f"/api/v1/namespaces/{REPORTS}/configmaps"}
        self.run_node("not_repaired", lambda: all(self.api.call("GET", path)[1]["items"] for path in made.values()) and
                      "fairlead.io/ready" in self.api.call("GET", "/api/v1/nodes/n1")[1]["metadata"].get("labels", {}))
        self.assertNotRegex(self.text, "event=(not_labelled|status_not_written|no_event|pods_not_listed|no_answer)")
        report = self.api.call("GET", f"{made['report']}/fairlead-node-n1")[1]
        self.assertEqual(report["metadata"]["ownerReferences"][0]["name"], "n1")
        self.run_viewer("policies 10 narrow rights")
        self.run_viewer("network as needed")

    def test_each_right_is_needed(self):
        for (account, verb, resource), sign in rights_of_the_page().items():
            with self.subTest(account=account, verb=verb, resource=resource), contextlib.ExitStack() as stack:
                if resource == "mutatingadmissionpolicies":
                    hook = self.api.call("GET", WEBHOOK)[1]
                    self.api.call("DELETE", WEBHOOK)
                    del hook["metadata"]["resourceVersion"], hook["metadata"]["uid"]
                    stack.callback(self.api.apply, hook, "")
                stack.enter_context(self.without(account, verb, resource))
                {"injector": self.run_injector, "node": self.run_node, "uninstall": self.run_uninstall,
                 "viewer": self.run_viewer}[account](sign)


if __name__ == "__main__":
    apiserver.skip_if(WHY_NOT or WHY_NO_HELM)
    main()
