"""Goal: fairlead-node uses the API server as documented. Pods that started before the plugin was installed get
the same setup as by ADD, and the node gets its labels. Method: clustered.py."""
import subprocess

import plugin
from clustered import NODE, RUNS, SECONDS_MAX, ClusterTest
from plugin import IN, main, seconds


class Repair(ClusterTest):
    def test_gives_a_running_pod_what_add_gives(self):
        # Addresses that no pod of another test uses: the agent checks all namespaces.
        model = self.pod(("10.88.5.1/24", "fd88:5::1/64"))
        late = self.running_pod(("10.88.5.2/24", "fd88:5::2/64"))
        self.start_agent("--repair")
        self.wait(lambda: self.api.reasons() == [(late.name, "FairleadRepaired")], "the event")
        self.assert_set_up(late)
        config = {"pnet": [{"id": "NETA", "rnics": ["mlx5_0/1"]}]}
        self.add(model, **config)
        self.assertEqual(late.nft(), model.nft())
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
        self.start_agent("--repair")
        self.wait_rounds(2)
        self.assertEqual([pod.snapshot() for pod in [*others, known]], before)
        self.assertEqual(self.api.reasons(), [])
        self.assertEqual(len(self.states()), 1)

    def test_an_address_that_two_have_is_nobodys(self):
        victim = self.running_pod(("10.88.2.1/24",))
        thief = self.pod(("10.88.2.2/24", "10.88.2.1/24"))
        gone = self.running_pod(("10.88.2.3/24",))
        gone.close()
        self.start_agent("--repair")
        self.wait(lambda: len(self.api.reasons()) == 2, "the events")
        self.wait_rounds(2)
        self.assertEqual(sorted(self.api.reasons()), sorted((pod.name, "FairleadNotRepaired") for pod in (victim, gone)))
        self.assertEqual(self.metric('fairlead_node_repairs_total{result="failed"}'), 2)
        messages = [event["message"] for event in self.api.events]
        self.assertTrue(any("two network namespaces have the address 10.88.2.1" in text for text in messages), messages)
        self.assertNotIn("fairlead", victim.nft() + thief.nft())
        self.assertEqual(self.states(), [])
        plugin.run("ip", "-n", thief.name, "address", "del", "10.88.2.1/24", "dev", "eth0")
        self.wait(lambda: self.api.reasons()[2:] == [(victim.name, "FairleadRepaired")], "the repair")
        self.assert_set_up(victim)

    def test_fat_pods_keep_nobody_from_repair(self):
        fat = {"annotations": {"blob": "x" * 1_500_000}}
        with self.api.lock:
            self.api.pods += [{"metadata": {"namespace": "shop", "name": f"fat{i}", "uid": f"f{i}", **fat}}
                              for i in range(3)]
        late = self.running_pod(("10.88.3.1/24",))
        self.start_agent("--repair")
        self.wait(lambda: self.api.reasons() == [(late.name, "FairleadRepaired")], "the event")
        self.assertIn(1, self.api.limits)

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
        agent = self.start_agent("--repair", "--label-node")
        self.wait(lambda: (self.metric("fairlead_node_api_errors_total") or 0) >= 4, "errors to be counted")
        text = self.log.read_text()
        self.assertEqual((text.count("event=not_labelled"), text.count("event=pods_not_listed")), (1, 1), text)
        self.assertIn("status 401", text)
        self.assertEqual(self.metric("fairlead_node_install_ready"), 1)
        agent.terminate()
        self.assertEqual(agent.wait(seconds(SECONDS_MAX)), 0)
        self.start_agent("--repair", environment={"KUBERNETES_SERVICE_HOST": "", "KUBERNETES_SERVICE_PORT": "x"})
        self.assertIn("event=no_cluster", self.log.read_text())


if __name__ == "__main__":
    main()
