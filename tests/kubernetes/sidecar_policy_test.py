#!/usr/bin/env python3
"""Which pods may have an RNIC: the policy of the chart in a real API server.

Pods as the injection makes them pass. Then every field of the schema's Container and PodSpec gets values that differ,
one field and two fields at a time. A pod that the API server admits must have the sidecar of the injection, and nothing
around it through which others could use it.
"""
import copy
import http.client
import itertools
import json
import sys
import time
from pathlib import Path

import apiserver
import helm
import pod_mutations

sys.path.insert(1, str(Path(__file__).parents[1]))
from suite import main  # noqa: E402  pylint: disable=wrong-import-position

INJECTION = Path(__file__).parents[1] / "injection"
EXPECTED = {path.stem: json.loads(path.read_text()) for path in sorted((INJECTION / "expected").glob("*.json"))}
OTHER_IMAGE = EXPECTED["all_annotations"]["pod"]["spec"]["initContainers"][0]["image"]
PROGRAMS, WHY_NOT = apiserver.find_programs()
HELM, WHY_NO_HELM = helm.find_helm() if PROGRAMS else (None, "")
TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
TOKEN_VOLUME = {"name": "kube-api-access-x", "projected": {"defaultMode": 420, "sources": [
    {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
    {"configMap": {"items": [{"key": "ca.crt", "path": "ca.crt"}], "name": "kube-root-ca.crt"}},
    {"downwardAPI": {"items": [{"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}, "path": "namespace"}]}}]}}
TOKEN_MOUNT = {"name": "kube-api-access-x", "mountPath": TOKEN_PATH, "readOnly": True}
CLAIM = [{"name": "fairlead-rnic"}]
# Fields of the sidecar that others than the injection may set: the amount of processor and memory (LimitRanges, autoscalers),
# and when its image is pulled.
FREE_IN_SIDECAR = {"resources", "imagePullPolicy", "resizePolicy"}
# Fields of a pod that reach neither the files nor the processes, the user, the devices or the network of its sidecar in a
# way that the injection does not intend. A field that is in neither list fails the test until somebody has judged it.
FREE_IN_POD = {
    "activeDeadlineSeconds", "affinity", "automountServiceAccountToken", "containers", "dnsConfig", "dnsPolicy", "enableServiceLinks",
    "hostAliases", "hostUsers", "hostname", "hostnameOverride", "imagePullSecrets", "initContainers", "nodeName", "nodeSelector", "os",
    "overhead", "preemptionPolicy", "priority", "priorityClassName", "readinessGates", "resourceClaims", "resources", "restartPolicy",
    "runtimeClassName", "schedulerName", "schedulingGates", "schedulingGroup", "securityContext", "serviceAccount",
    "serviceAccountName", "setHostnameAsFQDN", "subdomain", "terminationGracePeriodSeconds", "tolerations",
    "topologySpreadConstraints", "volumes", "workloadRef"}
FORBIDDEN_IN_POD = {"hostPID", "hostIPC", "hostNetwork", "shareProcessNamespace"}


class PolicyTest(apiserver.ApiServerTest):
    namespaces = ("fairlead-system", "plain")

    @classmethod
    def apply_policy(cls, settings):
        for thing in helm.render(HELM, "--set", settings):
            if "-fairlead-rnic" in thing["metadata"]["name"]:
                cls.api.apply(thing, "")
        cls.api.wait_for_policies()


class SidecarPolicy(PolicyTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.apply_policy("injector.mode=manual,node.rnicEnv={TZ},node.rnicImages={registry.example/second:1},"
                         "proxy.env[0].name=FAIRLEAD_SMC_UEIDS,proxy.env[0].value=SHOP")
        cls.connection = http.client.HTTPSConnection("127.0.0.1", cls.api.port, timeout=60, context=cls.api.context)
        cls.addClassCleanup(cls.connection.close)

    @classmethod
    def post(cls, pod, path="/api/v1/namespaces/plain/pods?dryRun=All"):
        cls.connection.request("POST", path, json.dumps(pod), {"Authorization": f"Bearer {apiserver.TOKEN}",
                                                               "Content-Type": "application/json"})
        reply = cls.connection.getresponse()
        return reply.status, json.loads(reply.read())

    @staticmethod
    def injected(name="annotated", spec=None, annotations=None, **sidecar):
        """A pod that the injection made, as the API server completes it with the token, and changes of it."""
        pod = copy.deepcopy(EXPECTED[name]["pod"])
        pod["metadata"]["namespace"] = "plain"
        pod["metadata"]["annotations"].update(annotations or {})
        pod["spec"]["serviceAccountName"] = "default"
        pod["spec"]["volumes"] = pod["spec"].get("volumes", []) + [copy.deepcopy(TOKEN_VOLUME)]
        pod["spec"].update(spec or {})
        (container,) = [c for c in pod["spec"]["initContainers"] if c["name"] == "fairlead-proxy"]
        container["volumeMounts"] = [TOKEN_MOUNT]
        for key, value in sidecar.items():
            if value is None:
                container.pop(key, None)
            else:
                container[key] = value
        return pod

    def refused(self, pod, *words):
        status, reply = self.post(pod)
        self.assertEqual(status, 403, reply)
        for word in ("admin may not write a pod with fairlead.io/status", *words):
            self.assertIn(word, reply["message"])

    def admitted(self, pod):
        status, reply = self.post(pod)
        self.assertEqual(status, 201, reply)
        return reply

    def env(self, *more, name="annotated"):
        return [*EXPECTED[name]["pod"]["spec"]["initContainers"][0]["env"], *more]

    def test_pods_of_the_injection_pass(self):
        for name, case in EXPECTED.items():
            if case["outcome"] == "injected":
                with self.subTest(name):
                    pod = self.injected(name)
                    for container in pod["spec"]["initContainers"]:
                        if container.get("image") == OTHER_IMAGE:
                            self.refused(pod, "another image than that of the chart")
                            container["image"] = EXPECTED["annotated"]["pod"]["spec"]["initContainers"][0]["image"]
                    self.admitted(pod)
                    without = copy.deepcopy(pod)
                    without["spec"]["initContainers"][0].pop("volumeMounts")
                    self.admitted(without)

    def test_what_operators_allow_passes(self):
        for variable in ({"name": "TZ", "value": "UTC"}, {"name": "FAIRLEAD_SMC_UEIDS", "value": "SHOP"}):
            self.admitted(self.injected(env=self.env(variable)))
        self.admitted(self.injected(image="registry.example/second:1"))
        self.admitted(self.injected(resources={"requests": {"cpu": "3"}, "limits": {"memory": "1Gi", "ephemeral-storage": "1Gi"}}))

    def test_what_was_seen_in_attacks(self):
        preload = {"name": "LD_PRELOAD", "value": f"{TOKEN_PATH}/x.so"}
        security = EXPECTED["annotated"]["pod"]["spec"]["initContainers"][0]["securityContext"]
        library = {"name": "lib", "configMap": {"name": "lib"}}
        smuggled = copy.deepcopy(TOKEN_VOLUME)
        smuggled["projected"]["sources"].append({"configMap": {"name": "lib"}})
        secret = copy.deepcopy(TOKEN_VOLUME)
        secret["projected"]["sources"].append({"secret": {"name": "lib"}})

        def with_source(config_map):
            volume = copy.deepcopy(TOKEN_VOLUME)
            volume["projected"]["sources"][1] = {"configMap": config_map}
            return volume

        exec_probe = {"exec": {"command": ["/x"]}}
        for pod, words in (
                (self.injected(env=self.env(preload)), "env that the injection does not write: LD_PRELOAD"),
                (self.injected(env=self.env({"name": "FAIRLEAD_LOG_LEVEL", "value": "loud"})), "FAIRLEAD_LOG_LEVEL"),
                (self.injected(env=self.env({"name": "SMC_PNET_ID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}})),
                 "SMC_PNET_ID"),
                (self.injected(env=self.env({"name": "FAIRLEAD_SMC_UEIDS", "value": "OTHER"})), "FAIRLEAD_SMC_UEIDS"),
                (self.injected(envFrom=[{"configMapRef": {"name": "x"}}]), "fields that the injection does not write: envFrom"),
                (self.injected(lifecycle={"postStart": {"exec": {"command": ["/x"]}}}), "lifecycle"),
                (self.injected(startupProbe=exec_probe), "startupProbe"), (self.injected(livenessProbe=exec_probe), "livenessProbe"),
                (self.injected(readinessProbe=exec_probe), "readinessProbe"),
                (self.injected(volumeDevices=[{"name": "x", "devicePath": "/dev/infiniband/uverbs0"}],
                               spec={"volumes": [TOKEN_VOLUME, {"name": "x", "persistentVolumeClaim": {"claimName": "x"}}]}),
                 "volumeDevices"),
                (self.injected(command=["sh"]), "command"), (self.injected(args=["--help"]), "args"), (self.injected(args=None), "args"),
                (self.injected(securityContext={**security, "seccompProfile": {"type": "Unconfined"}}), "seccompProfile"),
                (self.injected(securityContext={**security, "seccompProfile": {
                    "type": "Localhost", "localhostProfile": "fairlead/fairlead-proxy.json"}}), "seccompProfile"),
                (self.injected(securityContext={**security, "readOnlyRootFilesystem": False}), "readOnlyRootFilesystem"),
                (self.injected(securityContext={**security, "runAsGroup": 0}), "runAsGroup"),
                (self.injected(securityContext={**security, "capabilities": {"add": ["SYS_PTRACE"], "drop": ["ALL"]}}), "capabilities"),
                (self.injected(securityContext={"runAsUser": 2201}), "readOnlyRootFilesystem"),
                (self.injected(securityContext=None), "runAsUser"),
                (self.injected(spec={"hostPID": True}), "hostPID"), (self.injected(spec={"hostIPC": True}), "hostIPC"),
                (self.injected(spec={"shareProcessNamespace": True}), "shareProcessNamespace"),
                (self.injected(spec={"securityContext": {"supplementalGroups": [0]}}), "supplementalGroups"),
                (self.injected(spec={"volumes": [{**library, "name": TOKEN_MOUNT["name"]}]}), "volumeMounts"),
                (self.injected(spec={"volumes": [{"name": TOKEN_MOUNT["name"], "emptyDir": {}}]}), "volumeMounts"),
                (self.injected(spec={"volumes": [smuggled]}), "volumeMounts"), (self.injected(spec={"volumes": [secret]}), "volumeMounts"),
                (self.injected(volumeMounts=[TOKEN_MOUNT, {"name": "lib", "mountPath": "/usr/lib"}],
                               spec={"volumes": [TOKEN_VOLUME, library]}), "volumeMounts"),
                (self.injected(image=OTHER_IMAGE), "another image than that of the chart"),
                (self.injected(annotations={"devices.nri.io/container.fairlead-proxy": "x"}), "annotations by which runtimes change"),
                (self.injected(annotations={"ulimits.nri.containerd.io/container.fairlead-proxy": "- type: memlock\n"}), "ulimits.nri"),
                (self.injected(annotations={"devices.nri.io/pod": "x"}), "devices.nri.io/pod"),
                (self.injected(annotations={"cdi.k8s.io/x": "x"}), "cdi.k8s.io/x"),
                (self.injected(annotations={"fairlead.io/rnic-resource": "hugepages-2Mi"},
                               resources={"limits": {"hugepages-2Mi": "2Mi", "memory": "64Mi"}}), "resources"),
                (self.injected("rnic_claim_beside_another", resources={"claims": [{"name": "gpu"}]}), "the claim fairlead-rnic"),
                (self.injected("rnic_claim_beside_another", resources={"claims": [*CLAIM, {"name": "gpu"}]}), "the claim fairlead-rnic"),
                (self.injected("rnic_claim", resources={"claims": [{**CLAIM[0], "request": "gpu"}]}), "the claim fairlead-rnic"),
                (self.injected("rnic_claim", env=self.env({"name": "FAIRLEAD_DEVICES_VERBS_CLAIM", "value": "A B"})), "FAIRLEAD_DEVICES_VERBS_CLAIM"),
                (self.injected(spec={"volumes": [with_source({"name": "openshift-service-ca.crt"})]}), "volumeMounts"),
                (self.injected(spec={"volumes": [with_source(
                    {"name": "kube-root-ca.crt", "items": [{"key": "evil", "path": "bin/evil", "mode": 0o755}]})]}), "volumeMounts"),
                (self.injected(spec={"volumes": [with_source(
                    {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt", "mode": 0o755}]})]}), "volumeMounts")):
            with self.subTest(words):
                self.refused(pod, words)
        ordinary = self.injected()
        ordinary["spec"]["containers"] = ordinary["spec"].pop("initContainers")
        ordinary["spec"]["containers"][0].pop("restartPolicy")
        self.refused(ordinary, "exactly one init container fairlead-proxy")
        none = self.injected()
        none["spec"]["initContainers"] = []
        self.refused(none, "exactly one init container fairlead-proxy")

    def test_a_pod_that_renounces_rnics_is_not_examined(self):
        self.admitted(self.injected(spec={"hostPID": True}, annotations={"fairlead.io/rnic-access": "none"}))
        self.refused(self.injected(spec={"hostPID": True}, annotations={"fairlead.io/rnic-access": "all"}))

    def test_running_pods(self):
        """The mark cannot be written later, and nobody can enter the sidecar. Other changes of any pod are possible."""
        def patch(name, body, part="", kind="application/strategic-merge-patch+json"):
            return self.api.call("PATCH", f"/api/v1/namespaces/plain/pods/{name}{part}", body, content_type=kind)

        pods = {"good": self.injected(), "none": self.injected(spec={"hostPID": True}, annotations={"fairlead.io/rnic-access": "none"})}
        unmarked = self.injected()
        del unmarked["metadata"]["annotations"]["fairlead.io/status"]
        for name, pod in {**pods, "unmarked": unmarked}.items():
            pod["metadata"]["name"] = name
            self.assertEqual(self.post(pod, "/api/v1/namespaces/plain/pods")[0], 201, name)
        mark = {"metadata": {"annotations": {"fairlead.io/status": "{}"}}}
        unmark = {"metadata": {"annotations": {"fairlead.io/status": None}}}
        renounce = {"metadata": {"annotations": {"fairlead.io/rnic-access": "none"}}}
        evil = {"spec": {"initContainers": [{"name": "fairlead-proxy", "image": "evil.example/x:1"}]}}
        demand = {"metadata": {"annotations": {"fairlead.io/rnic-access": None}}}
        for part in ("", "/status"):
            for name, body in (*(("good", body) for body in (unmark, renounce, {**unmark, **evil}, {**renounce, **evil})),
                               ("unmarked", mark), ("none", demand)):
                status, reply, _ = patch(name, body, part)
                self.assertEqual(status, 403, (part, body, reply))
        for body in (evil, {"metadata": {"annotations": {"devices.nri.io/container.fairlead-proxy": "x"}}}):
            status, reply, _ = patch("good", body)
            self.assertEqual(status, 403, reply)
        debug = {"name": "debug", "image": "debug"}
        for container, code in (({**debug, "targetContainerName": "fairlead-proxy"}, 403), ({**debug, "targetContainerName": "app"}, 200)):
            status, reply, _ = patch("good", {"spec": {"ephemeralContainers": [container]}}, "/ephemeralcontainers")
            self.assertEqual(status, code, reply)
        for name in (*pods, "unmarked"):
            status, reply, _ = patch(name, {"metadata": {"labels": {"a": "b"}}})
            self.assertEqual(status, 200, reply)

    def test_bindings_carry_no_marks(self):
        pod = self.injected(spec={"schedulerName": "mine"})
        pod["metadata"].update(name="bound", annotations={})
        self.assertEqual(self.post(pod, "/api/v1/namespaces/plain/pods")[0], 201)
        for annotations, code in (({"fairlead.io/status": "{}"}, 403), ({"devices.nri.io/container.fairlead-proxy": "x"}, 403),
                                  ({"scheduler.example/x": "y"}, 201)):
            binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "bound", "annotations": annotations},
                       "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"}}
            status, reply = self.post(binding, "/api/v1/namespaces/plain/pods/bound/binding")
            self.assertEqual(status, code, reply)

    def test_exec_into_the_sidecar_runs_fairleadctl_alone(self):
        """Before the API server connects to the kubelet, which is missing here."""
        pod = self.injected()
        pod["metadata"]["name"] = "entered"
        self.assertEqual(self.post(pod, "/api/v1/namespaces/plain/pods")[0], 201)
        for container, command, refused in (("fairlead-proxy", "fairleadctl", False), ("fairlead-proxy", "/lib64/ld-linux-x86-64.so.2", True),
                                            ("fairlead-proxy", "fairlead-proxy", True), ("app", "sh", False)):
            status, reply, _ = self.api.call(
                "POST", f"/api/v1/namespaces/plain/pods/entered/exec?container={container}&command={command}&stdout=true", raw=True)
            self.assertEqual(b"may not execute another command" in reply, refused, (status, reply))

    def test_a_huge_pod_is_refused_soon(self):
        """The time of an evaluation grows with the square of the variables, so their number has a limit. Without it, such
        a pod takes twenty times as long as one that the policy does not examine."""
        huge = self.injected(env=self.env(*({"name": f"V{i}", "value": "x"} for i in range(8000))))
        begun = time.monotonic()
        self.admitted({**huge, "metadata": {**huge["metadata"], "annotations": {}}})
        examined = time.monotonic()
        self.refused(huge, "more than 128")
        self.assertLess(time.monotonic() - examined, 5 * (examined - begun))

    # The fuzzer.

    def judge(self, pod, reply):
        """What makes an admitted pod different from one of the injection; or nothing."""
        before = self.base["spec"]
        after = reply["spec"]
        sidecars = [[c for c in spec["initContainers"] if c["name"] == "fairlead-proxy"] for spec in (before, after)]
        if len(sidecars[1]) != 1 or any(c["name"] == "fairlead-proxy" for c in after["containers"]):
            return "the number of sidecars"
        one, other = (copy.deepcopy(s[0]) for s in sidecars)
        for key, default in (("privileged", False), ("procMount", "Default")):  # the same as none
            if other.get("securityContext", {}).get(key) == default:
                del other["securityContext"][key]
        changed = {key for key in one.keys() | other.keys() if one.get(key) != other.get(key)} - FREE_IN_SIDECAR
        strange = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)} - FREE_IN_POD
        shared = {key for key in FORBIDDEN_IN_POD if after.get(key)}
        resources = {name for kind in other.get("resources", {}).values() if isinstance(kind, dict) for name in kind}
        groups = after.get("securityContext", {})
        return " ".join(sorted(changed | (strange - FORBIDDEN_IN_POD) | shared | (resources - {"cpu", "memory", "ephemeral-storage"}) |
                               ({"claims"} if other.get("resources", {}).get("claims", CLAIM) != CLAIM else set()) |
                               ({"group 0"} if 0 in groups.get("supplementalGroups", []) or groups.get("fsGroup") == 0 else set())))

    def attempt(self, mutations):
        """Posts a pod with these fields; each is the place, the field and the value."""
        pod = self.injected()
        for place, field, value in mutations:
            owner = pod["spec"]["initContainers"][0] if place == "sidecar" else pod["spec"]
            owner[field] = copy.deepcopy(value)
        status, reply = self.post(pod)
        self.assertIn(status, (201, 400, 403, 422), reply)
        self.counts[status] = self.counts.get(status, 0) + 1
        if status == 201:
            self.assertEqual(self.judge(pod, reply), "", mutations)
        return status

    def test_no_field_of_the_schema_makes_another_sidecar(self):
        self.counts = {}
        self.base = self.admitted(self.injected())
        schema = pod_mutations.Schema(self.api.call("GET", "/openapi/v3/api/v1")[1])
        fields = {"sidecar": schema.fields("Container"), "pod": schema.fields("PodSpec")}
        self.assertGreater(len(fields["sidecar"]), 20)
        self.assertGreater(len(fields["pod"]), 30)
        singles = [(place, field, value) for place, known in fields.items() for field, values in known.items() for value in values]
        # The same values in addition to those of the injection.
        for place, owner in (("sidecar", self.injected()["spec"]["initContainers"][0]), ("pod", self.injected()["spec"])):
            for _, field, value in [one for one in singles if one[0] == place]:
                if isinstance(value, dict) and isinstance(owner.get(field), dict):
                    singles.append((place, field, {**owner[field], **value}))
                elif isinstance(value, list) and isinstance(owner.get(field), list):
                    singles.append((place, field, owner[field] + value))
        # Fields of the pod that replace the sidecar are the business of the other tests.
        singles = [one for one in singles if one[:2] not in (("pod", "initContainers"), ("pod", "containers"))]
        singles += [("pod", "containers", [{"name": "app", "image": "app", field: value}])
                    for field, values in fields["sidecar"].items() for value in values if field not in ("name", "image")]
        # A pod with one wrong field shows whether the field matters; two at a time show whether they hide each other.
        passed = [one for one in singles if self.attempt([one]) == 201]
        print(f"{len(singles)} mutations of one field, admitted: {len(passed)}; answers {self.counts}", flush=True)
        first = {}
        for one in singles:
            first.setdefault(one[:2], []).append(one)
        few = [one for values in first.values() for one in values[:2]]
        pairs = [pair for pair in itertools.combinations(few, 2) if pair[0][:2] != pair[1][:2]]
        for pair in pairs:
            self.attempt(pair)
        print(f"{len(pairs)} mutations of two fields; answers {self.counts}", flush=True)
        self.assertGreater(self.counts[201], 0)
        self.assertGreater(self.counts[403], 0)


class LocalhostProfile(PolicyTest):
    """The chart with proxy.seccompProfile Localhost: this profile, and no other."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.apply_policy("injector.mode=manual,proxy.seccompProfile=Localhost")

    def test_only_the_installed_profile_passes(self):
        ours = {"type": "Localhost", "localhostProfile": "fairlead/fairlead-proxy.json"}
        security = EXPECTED["annotated"]["pod"]["spec"]["initContainers"][0]["securityContext"]
        for profile, code in ((ours, 201), ({**ours, "localhostProfile": "other.json"}, 403), ({"type": "RuntimeDefault"}, 403),
                              ({**ours, "localhostProfile": "fairlead/other.json"}, 403), ({"type": "Unconfined"}, 403), (None, 403)):
            with self.subTest(profile):
                changed = {**security, "seccompProfile": profile} if profile else {k: v for k, v in security.items() if k != "seccompProfile"}
                pod = SidecarPolicy.injected(securityContext=changed)
                status, reply, _ = self.api.call("POST", "/api/v1/namespaces/plain/pods?dryRun=All", pod)
                self.assertEqual(status, code, reply)
                if code == 403:
                    self.assertIn("differs from the injection in seccompProfile", reply["message"])


if __name__ == "__main__":
    apiserver.skip_if(WHY_NOT or WHY_NO_HELM)
    main()
