#!/usr/bin/env python3
"""The chart under the real helm: lint, rendering in every mode, refusal by schema, agreement with the code."""
import difflib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import yaml

import helm

ROOT = helm.CHART.parents[1]
sys.path.insert(0, str(ROOT / "tests/golden"))
import golden  # noqa: E402  (its folder is known only now)

HELM, WHY_NOT = helm.find_helm()
EVERYTHING = ("metrics.podMonitor.enabled=true,metrics.rules.enabled=true,metrics.dashboards.enabled=true,"
              "metrics.annotations=true,networkPolicy.enabled=true,node.enabled=true,profile=ha")


def render(*arguments, **options):
    return helm.render(HELM, *arguments, **options)


def of_kind(objects, kind):
    return [thing for thing in objects if thing["kind"] == kind]


def settings_of(objects):
    """Those of the injection."""
    return next(json.loads(one["data"]["settings.json"]) for one in of_kind(objects, "ConfigMap") if "settings.json" in one["data"])


def fits_a_line(value):
    return len(str(value)) <= 100 and "\\n" not in str(value)


class Dumper(yaml.SafeDumper):
    """What fits on a line is on one, and text of several lines is several lines."""
    def represent_sequence(self, tag, sequence, flow_style=None):
        return super().represent_sequence(tag, sequence, fits_a_line(sequence))

    def represent_mapping(self, tag, mapping, flow_style=None):
        return super().represent_mapping(tag, mapping, fits_a_line(mapping))


Dumper.add_representer(str, lambda dumper, text: dumper.represent_scalar(
    "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None))


def dump(objects):
    return yaml.dump_all(objects, Dumper=Dumper, sort_keys=True, width=120)


def difference(before, after):
    """One object after the other, so that a change of all profiles does not move it."""
    texts = [{f"{thing['kind']} {thing['metadata']['name']}": dump([thing]).splitlines() for thing in objects} for objects in (before, after)]
    assert [len(named) for named in texts] == [len(before), len(after)], "two objects of one kind and name"
    lines = []
    for name in sorted(texts[0] | texts[1]):
        was, now = (named.get(name, []) for named in texts)
        lines += difflib.unified_diff(was, now, name if was else "none", name if now else "none", lineterm="", n=1)
    return "".join(f"{line}\n" for line in lines)


class Chart(unittest.TestCase):
    def assert_refused(self, words, *arguments):
        """Returns the whole refusal."""
        code, _, error = helm.template(HELM, *arguments)
        self.assertNotEqual(code, 0, arguments)
        self.assertIn(words, error, arguments)
        return error

    def test_lint_is_strict(self):
        done = subprocess.run([HELM, "lint", "--strict", helm.CHART], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_every_mode_renders(self):
        for mode in ("webhook", "policy", "manual"):
            for certs in ("selfManaged", "certManager", "existingSecret"):
                objects = render("--set", f"injector.mode={mode},injector.certs.mode={certs},"
                                 f"injector.certs.existingSecret=mine,{EVERYTHING}")
                self.assertEqual(bool(of_kind(objects, "MutatingWebhookConfiguration")), mode == "webhook")
                self.assertEqual(bool(of_kind(objects, "MutatingAdmissionPolicy")), mode == "policy")
                names = [(t["kind"], t["metadata"]["name"]) for t in objects]
                self.assertEqual(len(names), len(set(names)))

    def test_every_mode_has_the_settings_for_injection_by_hand(self):
        for mode in ("webhook", "policy", "manual"):
            objects = render("--set", f"injector.mode={mode},proxy.logLevel=debug")
            self.assertIn("fairlead-injector", [one["metadata"]["name"] for one in of_kind(objects, "ConfigMap")])
            self.assertEqual(settings_of(objects)["logLevel"], "debug", mode)

    def test_all_pods_with_metrics_are_annotated_for_scraping(self):
        for annotations, expected in (("true", {"fairlead-injector": "4590", "node": "4591"}), ("false", {})):
            objects = render("--set", f"node.enabled=true,metrics.annotations={annotations}")
            ports = {}
            for thing in of_kind(objects, "Deployment") + of_kind(objects, "DaemonSet"):
                found = thing["spec"]["template"]["metadata"]["annotations"].get("prometheus.io/port")
                admin, = [port for container in thing["spec"]["template"]["spec"]["containers"]
                          for port in container["ports"] if port["name"] == "fairlead-admin"]
                if found:
                    self.assertEqual(found, str(admin["containerPort"]))
                    ports[thing["metadata"]["name"] if thing["kind"] == "Deployment" else "node"] = found
            self.assertEqual(ports, expected)

    def test_profiles_render_as_before(self):
        """The default profile as a whole, each other profile as its difference from the default one."""
        schema = json.loads((helm.CHART / "values.schema.json").read_text())
        profiles = {profile: render("--set", f"profile={profile}") for profile in schema["properties"]["profile"]["enum"]}
        default = profiles.pop("default")
        with self.subTest("default"):
            golden.check(self, "chart.yaml", dump(default))
        for profile, objects in profiles.items():
            with self.subTest(profile):
                golden.check(self, f"chart_{profile}.diff", difference(default, objects))

    def test_a_pod_whose_sidecar_is_behind_others_comes_back_to_the_injection(self):
        """And is refused where it does not, or warned about where nothing injects."""
        for mode, actions in (("webhook", ["Deny"]), ("policy", ["Deny"]), ("manual", ["Warn"])):
            with self.subTest(mode):
                objects = render("--set", f"injector.mode={mode}")
                order, = [thing for thing in of_kind(objects, "ValidatingAdmissionPolicy") if thing["metadata"]["name"].endswith("-order")]
                binding, = [thing for thing in of_kind(objects, "ValidatingAdmissionPolicyBinding")
                            if thing["spec"]["policyName"] == order["metadata"]["name"]]
                self.assertEqual(binding["spec"]["validationActions"], actions)
                not_first, = [condition["expression"] for condition in order["spec"]["matchConditions"] if condition["name"] == "not-first"]
                callers = [hook for thing in of_kind(objects, "MutatingWebhookConfiguration") for hook in thing["webhooks"]]
                callers += [thing["spec"] for thing in of_kind(objects, "MutatingAdmissionPolicy")]
                self.assertEqual(len(callers), {"webhook": 2, "policy": 1, "manual": 0}[mode])
                for caller in callers:
                    self.assertEqual(caller["reinvocationPolicy"], "IfNeeded")
                    self.assertIn({"name": "not-first-yet", "expression": not_first}, caller["matchConditions"])

    def test_what_fails_is_named(self):
        for setting, named in (
                ("colour=red", "colour"), ("injector.mod=policy", "mod"), ("proxy.logLevel=loud", "logLevel"),
                ("proxy.adminPort=4540", "adminPort"), ("profile=large", "profile"), ("injector.replicas=0", "replicas"),
                ("proxy.memoryLimit=1G", "memoryLimit"), ("nodePools[0].name=A B", "name"),
                ("proxy.rnicClaimTemplate=Rdma", "rnicClaimTemplate"),
                ("proxy.rnicClaimTemplate=nic,proxy.rnicResource=rdma/a",
                 'proxy.rnicClaimTemplate: "nic" is not allowed with proxy.rnicResource: "rdma/a"; allowed: one of them'),
                ("node.rnicAccess=plugin", "rnicAccess"), ("nodePools[0].rnicAccess=nro", "rnicAccess"),
                ("node.rnicMemlock=1Gi", "rnicMemlock"), ("node.rnicEnv={LD_PRELOAD}", "rnicEnv"), ("node.repair=yes", "repair"), ("node.handOver=yes", "handOver"),
                ("proxy.seccompProfile=Unconfined", "seccompProfile"), ("node.seccompDir=seccomp", "seccompDir"),
                ("node.reportNamespace=A", "reportNamespace"), ("nodePools[0].pnet.namespaces[0]=A", "namespaces"), ("node.rnicNamespaces[0]=A", "rnicNamespaces"),
                ("proxy.smc.trafficClass=256", "trafficClass"), ("proxy.smc.pathMtu=1500", "pathMtu"), ("proxy.smc.deferBytes=1", "deferBytes"),
                ("proxy.smc.gid=1", "gid"), ("proxy.smc.gidType=ib", "gidType"), ("proxy.smc.version=3", "version"),
                ("proxy.smc.gidIndex=256", "gidIndex"), ("proxy.smc.gidSubnets[0]=eth0", "gidSubnets"), ("image.digest=sha256:xyz", "digest"), ("node.includeCIDRs[0]=all", "includeCIDRs"),
                ("injector.certs.mode=existingSecret", "injector.certs.existingSecret")):
            self.assert_refused(named, "--set", setting)

    def test_alerts_link_to_sections_that_exist(self):
        page = (ROOT / "docs/alerts.md").read_text()
        anchors = {heading.lower() for heading in re.findall(r"^## (\w+)$", page, re.M)}
        for url in ("https://git.example/fairlead/blob/main", "https://git.example/fairlead/blob/main/"):
            rules = of_kind(render("--set", f"metrics.rules.enabled=true,metrics.runbookUrl={url}"), "PrometheusRule")
            links = [rule["annotations"]["runbook_url"] for group in rules[0]["spec"]["groups"] for rule in group["rules"]]
            self.assertGreater(len(links), 10)
            for link in links:
                base, anchor = link.split("#")
                self.assertEqual(base, "https://git.example/fairlead/blob/main/docs/alerts.md")
                self.assertIn(anchor, anchors)
        rules = of_kind(render("--set", "metrics.rules.enabled=true"), "PrometheusRule")
        for rule in [rule for group in rules[0]["spec"]["groups"] for rule in group["rules"]]:
            self.assertNotIn("runbook_url", rule["annotations"])

    def test_old_clusters_are_refused(self):
        self.assertIn("1.29", helm.template(HELM, kubernetes="1.29.0")[2])
        claim = ("--set", "proxy.rnicClaimTemplate=nic")
        self.assertIn('proxy.rnicClaimTemplate: "nic" needs resource.k8s.io/v1 of Kubernetes 1.34, and the cluster has v1.33.9',
                      helm.template(HELM, *claim, kubernetes="1.33.9")[2])
        self.assertEqual(helm.template(HELM, *claim, kubernetes="1.34.0-rc.1")[0], 0)

    def test_every_value_is_in_the_schema_and_the_reference(self):
        schema = json.loads((helm.CHART / "values.schema.json").read_text())
        values = yaml.safe_load((helm.CHART / "values.yaml").read_text())

        def walk(node, rule, path):
            if not isinstance(node, dict) or "properties" not in rule:
                return
            self.assertFalse(rule["additionalProperties"], path)
            for key, value in node.items():
                self.assertIn(key, rule["properties"], path)
                walk(value, rule["properties"][key], f"{path}.{key}")
        walk(values, schema, "values")
        made = subprocess.run([sys.executable, ROOT / "scripts/values_page.py"], capture_output=True, text=True, check=True)
        self.assertEqual(made.stdout, (ROOT / "docs/values.md").read_text(), "scripts/values_page.py >docs/values.md")

    def test_a_pool_is_a_daemonset(self):
        objects = render("--set", "node.enabled=true", "--set-json",
                         'nodePools=[{"name":"a","nodeSelector":{"pool":"a"},"pnet":{"id":"NETA","rnics":["mlx5_0/1"]}},'
                         '{"name":"b","nodeSelector":{"pool":"b"}}]')
        sets = of_kind(objects, "DaemonSet")
        self.assertEqual([s["metadata"]["name"] for s in sets], ["fairlead-node-a", "fairlead-node-b"])
        self.assertEqual(sets[0]["spec"]["template"]["spec"]["nodeSelector"], {"pool": "a"})
        arguments = sets[0]["spec"]["template"]["spec"]["containers"][0]["args"]
        plugin = json.loads(next(a.removeprefix("--settings=") for a in arguments if a.startswith("--settings=")))
        self.assertEqual(plugin["pnet"], [{"id": "NETA", "rnics": ["mlx5_0/1"]}])

    def test_a_pool_is_placed_by_its_own_rules(self):
        rule = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "rdma", "operator": "Exists"}]}]}}}
        pools = [{"name": "a", "nodeSelector": {"p": "a"}, "affinity": rule, "tolerations": [{"key": "rdma", "operator": "Exists"}]},
                 {"name": "b", "nodeSelector": {"p": "b"}, "tolerations": []}, {"name": "c", "nodeSelector": {"p": "c"}}]
        pods = [s["spec"]["template"]["spec"] for s in of_kind(render("--set-json", f"nodePools={json.dumps(pools)}"), "DaemonSet")]
        self.assertEqual([pod["tolerations"] for pod in pods], [[{"key": "rdma", "operator": "Exists"}], [], [{"operator": "Exists"}]])
        self.assertEqual([pod.get("affinity") for pod in pods], [rule, None, None])
        self.assert_refused("tolerations", "--set-json", 'nodePools=[{"name":"a","tolerations":{}}]')

    def test_the_injector_has_the_priority_that_is_set(self):
        for arguments, priority in (((), None), (("--set", "injector.priorityClassName=system-cluster-critical"), "system-cluster-critical")):
            pod, = (d["spec"]["template"]["spec"] for d in of_kind(render(*arguments), "Deployment"))
            self.assertEqual(pod.get("priorityClassName"), priority)

    def test_pools_that_can_share_a_node_are_refused(self):
        for pools, words in (
                ('[{"name":"a"},{"name":"b"}]', 'pool "b" can share a node with pool "a"'),
                ('[{"name":"a","nodeSelector":{"p":"a"}},{"name":"b"}]', "nodePools[1].nodeSelector"),
                ('[{"name":"a","nodeSelector":{"p":"a"}},{"name":"b","nodeSelector":{"q":"b"}}]', "nodePools[1].nodeSelector"),
                ('[{"name":"a","nodeSelector":{"p":"a"}},{"name":"b","nodeSelector":{"p":"b"}},'
                 '{"name":"c","nodeSelector":{"p":"b","q":"c"}}]', 'pool "c" can share a node with pool "b"'),
                ('[{"name":"a","nodeSelector":{"p":"a"}},{"name":"a","nodeSelector":{"p":"b"}}]', "nodePools[1].name")):
            self.assertIn("allowed: ", self.assert_refused(words, "--set-json", f"nodePools={pools}"))

    def test_a_node_has_the_rights_that_it_uses(self):
        for repair, label, access, resources in (
                ("true", True, "nri", ["events", "nodes"]), ("true", False, "nri", ["events"]), ("false", True, "nri", ["nodes"]),
                ("false", False, "nri", None), ("api", False, "nri", ["events", "pods"]), ("true", False, "none", ["events", "pods"]),
                ("false", False, "none", None)):
            objects = render("--set", f"node.repair={repair},node.label={json.dumps(label)},node.status=false,node.rnicAccess={access}")
            roles = [r for r in of_kind(objects, "ClusterRole") if r["metadata"]["name"].endswith("-node")]
            granted = sorted(name for role in roles for rule in role["rules"] for name in rule["resources"])
            self.assertEqual(granted, resources or [])
            pod = of_kind(objects, "DaemonSet")[0]["spec"]["template"]["spec"]
            self.assertEqual("serviceAccountName" in pod, resources is not None)
            node = pod["containers"][0]
            # To read the pods' packet filters, whether or not it may change them.
            self.assertIn("NET_ADMIN", node["securityContext"]["capabilities"]["add"])
            self.assertIn("--cgroup-root=/host/cgroup", node["args"])
            self.assertEqual(("--repair" in node["args"], "--label-node" in node["args"]), (repair != "false", label))
            self.assertEqual([a for a in node["args"] if a.startswith("--repair-from=")],
                             [] if repair == "false" else [f"--repair-from={'api' if 'pods' in (resources or []) else 'runtime'}"])
            mounts = {mount["name"] for mount in node["volumeMounts"]}
            self.assertEqual(mounts, {volume["name"] for volume in pod["volumes"]})

    def test_a_node_keeps_connections_unless_it_shall_not(self):
        for wanted, given in (("true", False), ("false", True)):
            node, = of_kind(render("--set", f"node.handOver={wanted}"), "DaemonSet")
            arguments = node["spec"]["template"]["spec"]["containers"][0]["args"]
            self.assertEqual("--no-hand-over" in arguments, given, wanted)

    def test_a_node_reports_where_it_may_write(self):
        for status in (True, False):
            objects = render("--set", f"node.repair=false,node.label=false,node.status={json.dumps(status)}")
            roles = [r for r in of_kind(objects, "Role") if r["metadata"]["name"].endswith("-node")]
            self.assertEqual([r["rules"] for r in roles],
                             [[{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "update"]}]] * status)
            pod = of_kind(objects, "DaemonSet")[0]["spec"]["template"]["spec"]
            self.assertEqual(("serviceAccountName" in pod, "--report-status" in pod["containers"][0]["args"]), (status, status))
            # In a namespace that has nothing else.
            reports = "fairlead-system-fairlead-reports"
            self.assertEqual({r["metadata"]["namespace"] for r in roles}, {reports} if status else set())
            self.assertEqual([n["metadata"]["name"] for n in of_kind(objects, "Namespace")], [reports] * status)
            self.assertEqual(f"--report-namespace={reports}" in pod["containers"][0]["args"], status)

    def test_a_pool_says_who_gives_rnics(self):
        objects = render("--set-json", 'nodePools=[{"name":"a","nodeSelector":{"p":"a"}},{"name":"b","nodeSelector":{"p":"b"},'
                         '"rnicAccess":"resource"},{"name":"c","nodeSelector":{"p":"c"},"rnicAccess":"none"},'
                         '{"name":"d","nodeSelector":{"p":"d"},"rnicAccess":"claim"}]', "--set", "node.rnicNamespaces={shop,prod},node.repair=false,"
                         "node.label=false,node.status=false,node.seLinuxOptions.type=spc_t")
        pods = {s["metadata"]["name"][-1]: s["spec"]["template"]["spec"] for s in of_kind(objects, "DaemonSet")}
        for name, access in (("a", "nri"), ("b", "resource"), ("c", "none"), ("d", "claim")):
            pod, node, nri = pods[name], pods[name]["containers"][0], access == "nri"
            self.assertIn(f"--rnic-access={access}", node["args"])
            self.assertEqual([a for a in node["args"] if a.startswith(("--rnic-n", "--rnic-m"))],
                             ["--rnic-memlock=auto", "--rnic-namespace=shop", "--rnic-namespace=prod"] if nri else [])
            # The folder is mounted, because the runtime creates a new socket at each start.
            self.assertEqual([v["hostPath"]["path"] for v in pod["volumes"] if v["name"] == "nri"], ["/var/run/nri"] * nri)
            self.assertEqual([m["mountPath"] for m in node["volumeMounts"] if m["name"] == "nri"], ["/var/run/nri"] * nri)
            self.assertEqual({m["name"] for m in node["volumeMounts"]}, {v["name"] for v in pod["volumes"]})
            self.assertEqual(pod.get("hostPID", False), nri)
            rights = node["securityContext"]["capabilities"]["add"]
            self.assertEqual({"MKNOD", "CHOWN", "SYS_RESOURCE"} & set(rights),
                             {"MKNOD", "CHOWN", "SYS_RESOURCE"} if nri else set())
            self.assertEqual(node["securityContext"]["seLinuxOptions"], {"type": "spc_t"})
            plugin = json.loads(next(a.removeprefix("--settings=") for a in node["args"] if a.startswith("--settings=")))
            self.assertEqual(plugin.get("rnicMode"), "none" if access == "none" else None)

    def test_mark_of_the_injection_is_reserved_where_it_gives_rnics(self):
        def policies(*arguments):
            return [p for p in of_kind(render(*arguments), "ValidatingAdmissionPolicy")
                    if p["metadata"]["name"].endswith("-rnic")]
        for without in ("node.rnicAccess=resource", "node.rnicAccess=claim", "node.rnicAccess=none", "node.enabled=false"):
            self.assertEqual(policies("--set", without), [], without)
        (policy,) = policies("--set", "node.rnicImages={registry.example/other:1},node.rnicNamespaces={shop}")
        spec = policy["spec"]
        self.assertEqual(spec["matchConstraints"]["namespaceSelector"]["matchExpressions"],
                         [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["shop"]}])
        text = " ".join(v["expression"] for v in spec["validations"])
        self.assertIn("c.image in ['registry.example/fairlead:0.1.0','registry.example/other:1']", text)
        self.assertEqual(spec["failurePolicy"], "Fail")
        bound = [b["spec"] for b in of_kind(render(), "ValidatingAdmissionPolicyBinding")
                 if b["metadata"]["name"] == policy["metadata"]["name"]]
        self.assertEqual(bound, [{"policyName": policy["metadata"]["name"], "validationActions": ["Deny"]}])
        # The policy requires of a sidecar the properties that the injection sets.
        sidecar = (ROOT / "injector/sidecar.cc").read_text()
        self.assertIn('{"args", Json::array({"--config", kConfigFile})}', sidecar)
        self.assertIn('kConfigFile = "/etc/fairlead/pod.yaml"', sidecar)
        self.assertIn('{"runAsUser", kubernetes::kSidecarUid}', sidecar)

    def test_the_uninstallation_may_do_what_it_does_and_no_more(self):
        objects = render("--set-json", 'nodePools=[{"name":"a","nodeSelector":{"p":"a"}},{"name":"b","nodeSelector":{"p":"b"}}]')
        hooks = [thing for thing in objects if thing["metadata"].get("annotations", {}).get("helm.sh/hook") == "pre-delete"]
        self.assertEqual(sorted(thing["kind"] for thing in hooks), ["Job", "Role", "RoleBinding", "ServiceAccount"])
        order = {thing["kind"]: int(thing["metadata"]["annotations"]["helm.sh/hook-weight"]) for thing in hooks}
        self.assertTrue(order["ServiceAccount"] <= order["Role"] < order["RoleBinding"] < order["Job"])
        (role,), (job,), sets = of_kind(hooks, "Role"), of_kind(hooks, "Job"), of_kind(objects, "DaemonSet")
        names = [s["metadata"]["name"] for s in sets]
        self.assertEqual(role["rules"], [{"apiGroups": ["apps"], "resources": ["daemonsets"], "resourceNames": names,
                                          "verbs": ["get", "patch"]}])
        pod = job["spec"]["template"]["spec"]
        self.assertEqual(pod["containers"][0]["args"][-2:], names)
        self.assertEqual(pod["serviceAccountName"], role["metadata"]["name"])
        # The patch names the container.
        self.assertEqual([s["spec"]["template"]["spec"]["containers"][0]["name"] for s in sets], ["node", "node"])
        self.assertFalse([thing for thing in render("--set", "node.enabled=false")
                          if thing["metadata"].get("annotations", {}).get("helm.sh/hook") == "pre-delete"])

    def test_rendered_objects_can_be_applied_again_and_again(self):
        """Argo CD and others render the chart without a cluster, and apply differences."""
        for settings in ("injector.mode=webhook", "injector.mode=policy", f"injector.mode=webhook,{EVERYTHING}"):
            first, second = (helm.template(HELM, "--set", settings) for _ in range(2))
            self.assertEqual(first[0], 0, first[2])
            self.assertEqual(first, second)
        objects = render()
        # Fields that the injector and the API server write must not be a difference.
        self.assertEqual([key for secret in of_kind(objects, "Secret") for key in secret if "ata" in key and key != "metadata"], [])
        (configuration,) = of_kind(objects, "MutatingWebhookConfiguration")
        for webhook in configuration["webhooks"]:
            self.assertNotIn("caBundle", webhook["clientConfig"])
        hooks = {thing["metadata"].get("annotations", {}).get("helm.sh/hook") for thing in objects}
        self.assertEqual(hooks, {None, "pre-delete", "test"})
        for path in (helm.CHART / "templates").iterdir():
            self.assertNotRegex(path.read_text(), r"\{\{[^}]*\b(lookup|rand\w+|gen[A-Z]\w+|now|uuidv4)\b", path.name)

    def test_quality_of_service_reaches_injector_and_policy(self):
        """Those that are set, and the others with the default of their row."""
        rows = [row for row in json.loads((helm.CHART / "files/settings.json").read_text())
                if row["annotation"] and row["value"].startswith("smc.")]
        given = {"smc.maxLinks": 3, "smc.deferBytes": 0, "smc.trafficClass": 106, "smc.serviceLevel": 3, "smc.pathMtu": 4096}
        wanted = {row["value"]: given.get(row["value"], int(row["default"])) for row in rows}
        values = ",".join(f"proxy.{name}={value}" for name, value in given.items())
        settings = settings_of(render("--set", values))
        self.assertEqual({f"smc.{name}": value for name, value in settings["smc"].items()}, wanted)
        policy = of_kind(render("--set", f"injector.mode=policy,{values}"), "MutatingAdmissionPolicy")[0]
        env = next(one["expression"] for one in policy["spec"]["variables"] if one["name"] == "env")
        for row in rows:
            self.assertIn(f"[variables.a[?'fairlead.io/{row['annotation']}'].orValue('{wanted[row['value']]}')].filter(v, v != '{row['default']}')"
                          f".map(v, {{'name': '{row['variable']}', 'value': v}})", env)

    def test_values_of_null_leave_the_defaults(self):
        null = ",".join(f"proxy.smc.{name}=null" for name in ("maxLinks", "trafficClass", "version", "gidType", "gidIndex", "gidSubnets"))
        # As with --reuse-values of a release that did not have them.
        words = ",".join(f"proxy.{name}=null" for name in ("clientAddress", "direct", "fallback", "logFormat", "logLevel", "sharedMemory"))
        for values in (null, "proxy.smc=null", words):
            settings = settings_of(render("--set", values))
            self.assertEqual(settings["env"], [], values)
            self.assertEqual([settings[name] for name in ("clientAddress", "direct", "fallback", "sharedMemory")],
                             ["enabled", "learned", "allow", "disabled"], values)
            policy = of_kind(render("--set", f"injector.mode=policy,{values}"), "MutatingAdmissionPolicy")[0]
            self.assertNotIn("nil>", json.dumps(policy), values)

    def test_choice_of_gids_becomes_variables(self):
        def variables(*settings):
            return {entry["name"]: entry["value"] for entry in settings_of(render(*settings))["env"]}
        self.assertEqual(variables(), {})
        self.assertEqual(
            variables("--set", "proxy.smc.gidSubnets={10.9.0.0/16,fd00::/8},proxy.smc.gidType=rocev2,proxy.smc.trustedFabric=true",
                      "--set-string", "proxy.smc.gidIndex=3"),
            {"FAIRLEAD_SMC_GID_SUBNETS": '["10.9.0.0/16","fd00::/8"]', "FAIRLEAD_SMC_GID_INDEX": "3",
             "FAIRLEAD_SMC_GID_TYPE": "rocev2", "FAIRLEAD_SMC_TRUSTED_FABRIC": "true"})
        self.assertEqual(variables("--set", "proxy.smc.version=1"), {"FAIRLEAD_SMC_VERSION": "1"})

    def test_high_availability_has_two_and_a_budget(self):
        objects = render("--set", "profile=ha")
        self.assertEqual(of_kind(objects, "Deployment")[0]["spec"]["replicas"], 2)
        self.assertTrue(of_kind(objects, "PodDisruptionBudget"))

    def test_names_and_ports_are_those_of_the_code(self):
        header = (ROOT / "proxy/base/kubernetes_names.h").read_text()
        known = dict(re.findall(r"(k\w+) =\s+\"?([\w./-]+)\"?;", header))
        text = yaml.safe_dump_all(render("--set", "injector.mode=policy")) + yaml.safe_dump_all(render())
        for name in ("kInjectKey", "kStatusKey", "kSidecarName", "kAdminPortName"):
            self.assertIn(known[name], text)
        self.assertIn(known["kSeccompProfile"], yaml.safe_dump_all(render("--set", "proxy.seccompProfile=Localhost")))
        self.assertEqual(known["kSeccompProfile"].split("/")[1], known["kSeccompFile"])
        for name in ("kSidecarUid", "kOutboundPort", "kInboundPort", "kAdminPort", "kWebhookPort"):
            self.assertRegex(text, rf"\b{known[name]}\b")
        chart = yaml.safe_load((helm.CHART / "Chart.yaml").read_text())
        self.assertIn(f"VERSION {chart['appVersion']} ", (ROOT / "CMakeLists.txt").read_text())

    def test_notes_name_what_is_there(self):
        with tempfile.TemporaryDirectory() as folder:
            chart = Path(folder) / "fairlead"
            shutil.copytree(helm.CHART, chart)
            notes = chart / "templates" / "NOTES.txt"  # helm shows it only at an installation
            text = notes.read_text()
            notes.unlink()
            (notes.parent / "notes.yaml").write_text("---\nkind: Notes\nmetadata: {name: notes}\ntext: |\n" + "".join(
                line if line.startswith("{{") else f"  {line}" for line in text.splitlines(keepends=True)))
            for mode in ("webhook", "policy", "manual"):
                for node in (True, False):
                    objects = render("--set", f"injector.mode={mode},node.enabled={str(node).lower()}", chart=chart)
                    (shown,) = (thing["text"] for thing in of_kind(objects, "Notes"))
                    names = [thing["metadata"]["name"] for thing in of_kind(objects, "Deployment")]
                    self.assertEqual(re.findall(r"rollout status deploy/(\S+)", shown), names)
                    self.assertEqual("rollout status ds" in shown, bool(of_kind(objects, "DaemonSet")))
                    self.assertEqual("pod-security.kubernetes.io/enforce=privileged" in shown, node)
                    self.assertEqual("kubectl label namespace" in shown, mode != "manual")
                    maps = [thing["metadata"]["name"] for thing in of_kind(objects, "ConfigMap")]
                    self.assertEqual(re.findall(r"get configmap (\S+) ", shown), maps if mode == "manual" else [])
                    self.assertEqual("fairleadctl inject -f FILE --settings" in shown, mode == "manual")

    def test_containers_of_ours_have_no_rights(self):
        for thing in of_kind(render(), "Deployment"):
            pod = thing["spec"]["template"]["spec"]
            self.assertEqual(pod["securityContext"]["runAsUser"], 2201)
            for container in pod["containers"]:
                context = container["securityContext"]
                self.assertEqual(context["capabilities"], {"drop": ["ALL"]})
                self.assertTrue(context["readOnlyRootFilesystem"])
                self.assertFalse(context["allowPrivilegeEscalation"])
            self.assertEqual(pod["securityContext"]["seccompProfile"], {"type": "RuntimeDefault"})
        for thing in of_kind(render(), "DaemonSet"):
            for container in thing["spec"]["template"]["spec"]["containers"]:
                context = container["securityContext"]
                self.assertTrue(context["readOnlyRootFilesystem"])
                self.assertFalse(context["allowPrivilegeEscalation"])
                self.assertEqual(context["capabilities"]["drop"], ["ALL"])
                self.assertEqual(context["seccompProfile"], {"type": "RuntimeDefault"})

    def test_the_seccomp_profile_is_installed_where_it_is_used_and_only_then(self):
        for words, source in ((("--set", "proxy.seccompProfile=RuntimeDefault"), None),
                              (("--set", "proxy.seccompProfile=Localhost"), "/var/lib/kubelet/seccomp/fairlead"),
                              (("--set", "proxy.seccompProfile=Localhost,node.seccompDir=/data/seccomp/"), "/data/seccomp/fairlead")):
            (node,) = of_kind(render(*words), "DaemonSet")
            pod = node["spec"]["template"]["spec"]
            container = pod["containers"][0]
            mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
            volumes = {volume["name"]: volume["hostPath"]["path"] for volume in pod["volumes"]}
            arguments = [word for word in container["args"] if "seccomp" in word]
            if source is None:
                self.assertEqual([name for name in {**mounted, **volumes} if "seccomp" in name] + arguments, [])
            else:
                self.assertEqual(arguments, [f"--seccomp-dir={mounted['seccomp']}"])
                self.assertEqual(volumes["seccomp"], source)
            self.assertEqual(settings_of(render(*words))["seccompProfile"], "Localhost" if source else "RuntimeDefault")


if __name__ == "__main__":
    if WHY_NOT:
        print(f"skipped: {WHY_NOT}")
        sys.exit(77)
    unittest.main(verbosity=1)
