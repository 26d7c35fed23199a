"""Goal: fairlead-node uses the API server as documented. Pods that started before the plugin was installed get
the same setup as by ADD, and the node gets its labels and reports. Method: clustered.py."""
import base64
import json
import subprocess


import plugin
from clustered import FROM_API, NODE, RUNS, SECONDS_MAX, ClusterTest
from fake_api_server import filler
from plugin import IN, NO_REDIRECT, main, seconds


class Repair(ClusterTest):
    def test_gives_a_running_pod_what_add_gives(self):
        # Addresses that no pod of another test uses: the agent checks all namespaces.
        model = self.pod(("10.88.9.1/24", "fd88:5::1/64"))
        late = self.running_pod(("10.88.9.2/24", "fd88:5::2/64"))
        self.start_agent(*FROM_API)
        self.wait(lambda: self.api.reasons() == [(late.name, "FairleadRepaired")], "the event")
        self.assert_set_up(late)
        config = {"pnet": [{"id": "NETA", "rnics": ["mlx5_0/1"]}]}
        self.add(model, **config)
        self.assertEqual(late.redirect(), model.redirect())
        self.assertEqual(late.alias(), model.alias())
        self.wait_rounds(2)
        self.assertEqual(len(self.api.reasons()), 1)
        self.assertEqual(self.metric('fairlead_node_repairs_total{result="repaired"}'), 1)
        self.assertEqual(self.metric('fairlead_node_repairs_total{result="failed"}'), 0)
        self.wait(lambda: self.metric('fairlead_node_broker_pods{state="open"}') == 2, "the broker's doors")
        # A runtime without knowledge of the repair neither removes it nor prevents the end of the pod.
        self.good("DEL", late)
        self.good("GC", **{"cni.dev/valid-attachments": []})
        self.assert_set_up(late)
        subprocess.run(["ip", "netns", "del", late.name], check=True)
        done = subprocess.run([NODE, "gc", "--run-dir", self.run_dir], capture_output=True, text=True, check=True)
        self.assertIn(" 1 collected", done.stdout)
        self.assertEqual(late.programs(), [])

    def parts(self, state):
        return [self.metric(f'fairlead_node_pods{{part="{part}",state="{state}"}}')
                for part in ("redirect", "option_program", "client_address")]

    def test_sees_what_pods_have_lost(self):
        whole, lossy, other = (self.pod(), self.pod(), self.pod())
        for pod in (whole, lossy, other):
            self.add(pod)
        self.start_agent("--check-interval", "0.1", "--cgroup-root", "/sys/fs/cgroup")
        self.wait(lambda: self.parts("good")[0] == 3, "the first look")
        programs = self.parts("good")[1:]
        self.assertEqual(programs, [3, 3] if whole.cgroup else [0, 0])
        self.assertEqual(self.parts("unknown"), [0, 0, 0])
        if whole.cgroup:
            lossy.detach("fairlead_conn6")
            other.inside("tc", "qdisc", "del", "dev", "eth0", "clsact")
        else:
            lossy.inside("nft", "delete", "table", "inet", "fairlead")
            other.inside("nft", "flush", "chain", "inet", "fairlead", "outbound")
        self.wait(lambda: self.parts("missing")[0] == 2, "the loss to be seen")
        self.assertEqual(self.parts("good")[0], 1)
        if whole.cgroup:
            self.assertEqual(self.parts("missing")[1:], [0, 0])
            lossy.detach("smc_option")
            self.wait(lambda: self.parts("missing")[1] == 1, "the program's loss to be seen")
        text = self.log.read_text()
        self.assertEqual(text.count("event=pod_incomplete pod=default/web-0 missing=redirect "), 2, text)
        # A pod that ends does not count as one with a missing part.
        self.good("DEL", lossy)
        self.good("DEL", other)
        self.wait(lambda: (self.parts("missing"), self.parts("good")[0]) == ([0, 0, 0], 1), "them to be gone")

    OWN = ("--report-status", "--report-interval", "0.2", "--report-namespace", "fl",
           "--check-interval", "0.2", "--cgroup-root", "/sys/fs/cgroup")

    ANSWERS = {"/stats?format=json": {"total": {"connections": {"outbound": {"smcr": {"total": 5}, "tcp": {"total": 2}},
                                                                "inbound": {"smcr": {"total": 1}, "tcp": {"total": 0}}},
                                                "links": {"active": 3}}},
               "/fallbacks": {"fallbacks": [{"reason": "no_pnet", "count": 1}, {"reason": "no_pnet", "count": 1},
                                            {"reason": "<b>", "count": 9}, {"reason": 7}]}}

    def test_reports_its_node(self):
        good, silent, stranger, liar = (self.pod(), self.pod(), self.pod(), self.pod())
        for number, pod in enumerate((good, silent, stranger, liar)):
            self.add(pod, env={"CNI_ARGS": f"K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web-{number}"})
        self.sidecar(good, self.ANSWERS)
        self.sidecar(silent, {})  # reads the query, and never answers
        self.sidecar(stranger, self.ANSWERS, uid=2202)
        self.sidecar(liar, {path: 300_000 for path in self.ANSWERS})
        self.start_agent(*self.OWN)
        # The first report may precede the first check of the pods.
        self.wait(lambda: len(self.report().get("pods", ())) == 4, "the report")
        query, applied = self.api.reports[-1]
        self.assertEqual(query, {})
        self.assertNotIn("ownerReferences", applied["metadata"])  # the token names no node
        self.assertEqual(applied["metadata"]["labels"]["app.kubernetes.io/component"], "node-status")
        report = self.report()
        self.assertEqual((report["node"], report["installed"], report["rnics"]["missing"]), ("n1", True, 1))
        pods = {pod["name"]: pod for pod in report["pods"]}
        self.assertEqual({name: pod["answers"] for name, pod in pods.items()},
                         {"web-0": True, "web-1": False, "web-2": False, "web-3": False})
        self.assertEqual((pods["web-0"]["smcr"], pods["web-0"]["tcp"], pods["web-0"]["links"], pods["web-0"]["reasons"]),
                         (6, 2, 3, {"no_pnet": 2}))
        self.assertEqual({pod["redirect"] for pod in pods.values()}, {"good"})
        self.assertEqual(self.metric('fairlead_node_rnics{state="missing"}'), 1)

    def test_makes_an_event_for_the_first_fallback_of_a_reason(self):
        pod, other = self.pod(), self.pod()
        self.add(pod, env={"CNI_ARGS": "K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web-0;K8S_POD_UID=u-0"})
        self.add(other, env={"CNI_ARGS": "K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web-1;K8S_POD_UID=u-9"})
        self.sidecar(pod, self.ANSWERS)
        self.sidecar(other, {**self.ANSWERS, "/fallbacks": {"fallbacks": [{"reason": "made_up", "count": 4}]}})
        self.start_agent(*self.OWN, "--fallback-events")
        self.wait(lambda: self.api.events, "the event")
        reports = len(self.api.reports)
        self.wait(lambda: len(self.api.reports) > reports + 3, "more reports")
        self.assertEqual([(event["involvedObject"]["name"], event["involvedObject"]["uid"], event["reason"], event["type"])
                          for event in self.api.events], [("web-0", "u-0", "FairleadFallback", "Warning")])
        event = self.api.events[0]
        self.assertIn("reason no_pnet", event["message"])
        # What an admission policy of the chart demands.
        self.assertEqual((event["source"], event["involvedObject"]["kind"], event["involvedObject"]["namespace"]),
                         ({"component": "fairlead-node", "host": "n1"}, "Pod", "shop"))
        self.assertEqual(event["metadata"], {"generateName": "fairlead-node.", "namespace": "shop"})

    def named_pod(self, name_space, name, address, answers):
        """A pod with a redirect, and a sidecar with these answers."""
        pod = self.pod((address,))
        self.add(pod, env={"CNI_ARGS": f"K8S_POD_NAMESPACE={name_space};K8S_POD_NAME={name};K8S_POD_UID=u-{name}"})
        self.sidecar(pod, answers)

    def test_a_refused_event_keeps_no_other_pod_from_its_own(self):
        self.api.refusals = {"/api/v1/namespaces/ending/events": 403}
        for number in range(3):
            self.named_pod("ending", f"ending-{number}", f"10.88.8.{number + 1}/24", self.ANSWERS)
        self.named_pod("shop", "web-0", "10.88.8.9/24", self.ANSWERS)
        self.start_agent(*self.OWN, "--fallback-events")
        self.wait(lambda: self.api.events, "the event of the other namespace")
        reports = len(self.api.reports)
        self.wait(lambda: len(self.api.reports) > reports + 3, "more reports")
        # A refused Event is not repeated.
        self.assertEqual((len(self.api.events), self.api.refused_events), (1, 3))
        self.assertIn("event=no_event pod=ending/ending-", self.log.read_text())

    def test_makes_no_event_of_a_fallback_unless_asked(self):
        pod = self.pod()
        self.add(pod, env={"CNI_ARGS": "K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web-0;K8S_POD_UID=u-0"})
        self.sidecar(pod, self.ANSWERS)
        self.start_agent(*self.OWN)
        self.wait(lambda: any(line["answers"] for line in self.report().get("pods", ())), "the report")
        self.assertEqual(self.api.events, [])

    def test_reports_nothing_without_a_namespace(self):
        self.start_agent(*FROM_API, "--report-status", "--report-interval", "0.2")
        self.wait_rounds(2)
        self.assertEqual(self.api.reports, [])

    def test_counts_what_it_cannot_repair(self):
        gone = self.running_pod(("10.88.8.3/24",))
        gone.close()
        self.start_agent(*FROM_API)
        self.wait(lambda: self.parts("missing")[0] == 1, "the pod without redirect")
        with self.api.lock:
            self.api.pods.clear()
        self.wait(lambda: self.parts("missing")[0] == 0, "the pod to be gone")

    def test_leaves_all_others_alone(self):
        others = [self.running_pod(("10.88.1.1/24",), annotations={}),
                  self.running_pod(("10.88.1.2/24",), annotations={**IN, "fairlead.io/inject": "disabled"}),
                  self.running_pod(("10.88.1.3/24",), status={**RUNS, "started": False}),
                  self.running_pod(("10.88.1.4/24",), status={**RUNS, "state": {"terminated": {}}}),
                  self.running_pod(("10.88.1.5/24",), status={**RUNS, "name": "other"}),
                  self.running_pod(("10.88.1.6/24",), spec={"hostNetwork": True})]
        known = self.running_pod(("10.88.1.7/24",))
        self.add(known)
        before = [pod.snapshot() for pod in [*others, known]]
        self.start_agent(*FROM_API)
        self.wait_rounds(2)
        self.assertEqual([pod.snapshot() for pod in [*others, known]], before)
        self.assertEqual(self.api.reasons(), [])
        self.assertEqual(len(self.states()), 1)

    def test_an_address_that_two_have_is_nobodys(self):
        victim = self.running_pod(("10.88.2.1/24",))
        thief = self.pod(("10.88.2.2/24", "10.88.2.1/24"))
        gone = self.running_pod(("10.88.2.3/24",))
        gone.close()
        self.start_agent(*FROM_API)
        self.wait(lambda: len(self.api.reasons()) == 2, "the events")
        self.wait_rounds(2)
        self.assertEqual(sorted(self.api.reasons()), sorted((pod.name, "FairleadNotRepaired") for pod in (victim, gone)))
        self.assertEqual(self.metric('fairlead_node_repairs_total{result="failed"}'), 2)
        messages = [event["message"] for event in self.api.events]
        self.assertTrue(any("two network namespaces have the address 10.88.2.1" in text for text in messages), messages)
        self.assertEqual((victim.redirect(), thief.redirect()), (NO_REDIRECT, NO_REDIRECT))
        self.assertEqual(self.states(), [])
        plugin.run("ip", "-n", thief.name, "address", "del", "10.88.2.1/24", "dev", "eth0")
        self.wait(lambda: self.api.reasons()[2:] == [(victim.name, "FairleadRepaired")], "the repair")
        self.assert_set_up(victim)

    def test_fat_pods_keep_nobody_from_repair(self):
        fat = {"annotations": {"blob": filler(1_500_000)}}
        with self.api.lock:
            self.api.pods += [{"metadata": {"namespace": "shop", "name": f"fat{i}", "uid": f"f{i}", **fat}}
                              for i in range(3)]
        late = self.running_pod(("10.88.3.1/24",))
        self.start_agent(*FROM_API)
        self.wait(lambda: self.api.reasons() == [(late.name, "FairleadRepaired")], "the event")
        self.assertEqual(self.api.limits[:5], [32, 16, 8, 4, 2])

    def add_object(self, name, spec=None, **metadata):
        """A pod of the API server alone, without a network namespace."""
        with self.api.lock:
            self.api.pods.append({"metadata": {"namespace": "shop", "name": name, "uid": f"u-{name}",
                                               "annotations": IN, **metadata}, "spec": spec or {}})

    LARGEST = 1_400_000 * 6  # 1.4 MiB in etcd, where Go escapes each character with 6 bytes
    BEYOND = 17 << 20

    def test_a_pod_of_the_largest_json_keeps_nobody_from_repair(self):
        self.add_object("spec", {"containers": [{"name": "x", "env": [{"name": "A", "value": filler(self.LARGEST)}]}]})
        self.add_object("metadata", labels={"a": filler(self.LARGEST)})
        deep = {}
        for _ in range(100):
            deep = {"f:a": deep}
        self.add_object("deep", managedFields=[{"fieldsV1": deep}])
        late = self.running_pod(("10.88.3.2/24",))
        self.start_agent(*FROM_API)
        self.wait(lambda: self.api.reasons() == [(late.name, "FairleadRepaired")], "the event")
        self.assertIn(1, self.api.limits)
        self.assertNotIn("event=pods_not_listed", self.log.read_text())
        self.assertEqual(self.metric("fairlead_node_pods_unread"), 0)

    def test_asks_for_whole_pods_only_where_they_may_need_a_repair(self):
        for number in range(40):
            self.add_object(f"other{number}", annotations={})
        late = self.running_pod(("10.88.3.3/24",), status={**RUNS, "started": False})
        self.start_agent(*FROM_API)
        self.wait_rounds(4)
        self.assertEqual(self.api.asked_whole, 1)  # it has not changed since
        with self.api.lock:
            self.api.pods[-1]["status"]["initContainerStatuses"] = [RUNS]
        self.wait(lambda: self.api.reasons() == [(late.name, "FairleadRepaired")], "the event")
        self.wait_rounds(4)
        self.assertEqual(self.api.asked_whole, 2)

    def unread_messages(self):
        with self.api.lock:
            return {event["involvedObject"]["name"]: event["message"] for event in self.api.events
                    if event["reason"] == "FairleadNotRepaired"}

    def test_a_pod_beyond_the_limit_is_reported_and_keeps_nobody_from_repair(self):
        known = self.running_pod(("10.88.3.4/24",))
        self.add(known, env={"CNI_ARGS": f"K8S_POD_NAMESPACE=shop;K8S_POD_NAME={known.name};"
                                         f"K8S_POD_UID=0000-{known.container}"})
        with self.api.lock:
            self.api.pods[0]["metadata"]["labels"] = {"a": filler(self.BEYOND)}
        self.add_object("metadata", labels={"a": filler(self.BEYOND)})
        self.add_object("plain", annotations={}, labels={"a": filler(self.BEYOND)})
        self.add_object("whole", {"containers": [{"name": filler(self.BEYOND)}]})
        late = self.running_pod(("10.88.3.5/24",))
        self.start_agent(*FROM_API)
        self.wait(lambda: (late.name, "FairleadRepaired") in self.api.reasons(), "the repair")
        self.wait(lambda: self.metric("fairlead_node_pods_unread") == 3, "the unread pods to be counted")
        self.assertEqual(self.metric('fairlead_node_pods{part="redirect",state="missing"}'), 0)
        messages = self.unread_messages()
        self.assertEqual(set(messages), {"metadata", "plain", "whole"})
        for name, text in messages.items():
            self.assertRegex(text, "^It is not known whether connections are redirected to a sidecar: " +
                             ("the pod" if name == "whole" else "its metadata") +
                             r" is 178\d{5} bytes long, and 16777216 are allowed$")
        rounds = self.api.limits.count(32)
        self.wait(lambda: self.api.limits.count(32) >= rounds + 2, "another list")
        self.assertEqual(len(self.api.reasons()), 4)
        self.assertEqual(self.log.read_text().count("event=not_repaired"), 3)
        with self.api.lock:
            del self.api.pods[1:4]
        self.wait(lambda: self.metric("fairlead_node_pods_unread") == 0, "the end of the unread pods to be seen")

    def test_a_pod_beyond_the_limit_in_chunks_of_unknown_length(self):
        self.api.chunked = True
        self.add_object("metadata", labels={"a": filler(self.BEYOND)})
        late = self.running_pod(("10.88.3.6/24",))
        self.start_agent(*FROM_API)
        self.wait(lambda: (late.name, "FairleadRepaired") in self.api.reasons(), "the repair")
        self.assertIn("its metadata is longer than the allowed 16777216 bytes", self.unread_messages()["metadata"])

    def test_a_list_that_expires_begins_again(self):
        for number in range(40):
            self.add_object(f"other{number}", annotations={})
        late = self.running_pod(("10.88.3.7/24",))
        self.api.gone = 2
        self.start_agent(*FROM_API)
        self.wait(lambda: self.api.reasons() == [(late.name, "FairleadRepaired")], "the event")
        self.assertNotIn("event=pods_not_listed", self.log.read_text())

    def test_a_list_that_ends_early_serves_those_that_were_read(self):
        late = self.running_pod(("10.88.3.8/24",))
        for number in range(40):
            self.add_object(f"other{number}", annotations={})
        behind = self.running_pod(("10.88.3.9/24",))
        self.api.no_next_pages = True
        self.start_agent(*FROM_API)
        self.wait(lambda: self.api.reasons() == [(late.name, "FairleadRepaired")], "the event")
        self.wait_rounds(6)
        self.assertEqual(len(self.api.reasons()), 1)
        self.assertEqual(self.log.read_text().count("event=pods_not_listed"), 1)
        self.assertIn("status 429", self.log.read_text())
        with self.api.lock:
            self.api.no_next_pages, self.api.gone = False, 1_000_000
        self.wait(lambda: "status 410 for a next page" in self.log.read_text(), "the expired list to be reported")
        with self.api.lock:
            self.api.gone = 0
        self.wait(lambda: (behind.name, "FairleadRepaired") in self.api.reasons(), "the other repair")

    def test_a_part_of_an_answer_is_none(self):
        late = self.running_pod(("10.88.3.10/24",))
        self.api.bytes_max = 100
        self.start_agent(*FROM_API)
        for chunked in (False, True):
            with self.subTest(chunked=chunked), self.api.lock:
                self.api.chunked = chunked
            self.wait_rounds(2)
            self.assertEqual((self.api.reasons(), self.states()), ([], []))
        self.assertIn("event=pods_not_listed", self.log.read_text())
        self.api.bytes_max = None
        self.wait(lambda: self.api.reasons() == [(late.name, "FairleadRepaired")], "the event")

    def test_labels_its_node_while_the_plugin_is_installed(self):
        ours = {"fairlead.io/ready": "true", "fairlead.io/pnet.NETA": "true"}
        others = {"fairlead-pool": "a", "fairlead.io/other": "x"}
        self.api.labels = {**others, "fairlead.io/pnet.OLD": "true"}
        self.start_agent("--label-node")
        self.wait(lambda: self.api.labels == {**others, **ours}, "the labels")
        (self.conf / "10-podnet.conflist").unlink()
        self.wait(lambda: self.api.labels == others, "the labels to go")
        self.assertEqual(self.api.limits, [])

    def test_without_an_api_server_the_node_works(self):
        (self.folder / "account" / "token").write_text("wrong")
        agent = self.start_agent(*FROM_API, "--label-node")
        self.wait(lambda: (self.metric("fairlead_node_api_errors_total") or 0) >= 4, "errors to be counted")
        text = self.log.read_text()
        self.assertEqual((text.count("event=not_labelled"), text.count("event=pods_not_listed")), (1, 1), text)
        self.assertIn("status 401", text)
        self.assertEqual(self.metric("fairlead_node_install_ready"), 1)
        agent.terminate()
        self.assertEqual(agent.wait(seconds(SECONDS_MAX)), 0)
        self.start_agent(*FROM_API, environment={"KUBERNETES_SERVICE_HOST": "", "KUBERNETES_SERVICE_PORT": "x"})
        self.assertIn("event=no_cluster", self.log.read_text())


def token_of(**claims):
    """A token as an API server issues it, with these claims of Kubernetes."""
    parts = ({"alg": "RS256", "kid": "k"}, {"aud": ["x"], "kubernetes.io": {"namespace": "fl", **claims}})
    texts = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts]
    return ".".join([*texts, "c2lnbmF0dXJl"])


class Claimed(ClusterTest):
    """An agent whose token says on which node it runs."""
    TOKEN = token_of(node={"name": "n1", "uid": "0a-1"}, pod={"name": "agent-x", "uid": "p-1"})
    OWN = ("--report-status", "--report-interval", "0.2", "--report-namespace", "fl", "--label-node")

    def test_node_owns_its_report(self):
        self.start_agent(*self.OWN)
        self.wait(lambda: self.api.reports, "the report")
        self.assertEqual(self.api.reports[0][1]["metadata"]["ownerReferences"],
                         [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "0a-1"}])
        self.assertNotIn("event=other_node", self.log.read_text())

    def test_token_precedes_the_command_line(self):
        """Policies tie reports, labels and Events to the token."""
        late = self.running_pod(("10.88.9.7/24",))
        agent = self.start_agent(*self.OWN, *FROM_API, "--node-name", "n2")
        self.wait(lambda: len(self.api.reports) > 2 and self.api.labels and self.api.events, "report, labels and Event")
        self.assertEqual(json.loads(self.api.reports[0][1]["data"]["status.json"])["node"], "n1")
        self.assertEqual(self.api.events[0]["source"]["host"], "n1")
        self.assertEqual(self.api.events[0]["involvedObject"]["name"], late.name)
        text = self.log.read_text()
        self.assertEqual(text.count("event=other_node node=n1 "), 1, text)
        self.assertIn("--node-name is n2", text)
        agent.terminate()
        agent.wait()
        self.start_agent(*self.OWN, "--node-name", "n2", environment={"FAIRLEAD_LEAVE": "true"}, sign="left")
        self.wait(lambda: not self.api.labels, "the labels to go")


if __name__ == "__main__":
    main()
