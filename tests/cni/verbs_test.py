"""Goal: every command follows the CNI specification 1.1, called once, twice and in unusual circumstances, and
a pod is restored completely. Method: the plugin's process, real network namespaces, and nft and ip as
independent checks."""
import json
import subprocess
import unittest
from pathlib import Path

from plugin import IN, PLUGIN, VERSION, PluginTest, cgroup_root, main

EXPECTED_RULES = """\
\tchain outbound {
\t\ttype nat hook output priority dstnat - 1; policy accept;
\t\tmeta l4proto tcp meta skuid 2201 return
\t\tmeta l4proto tcp oifname "lo" return
\t\tmeta l4proto tcp th dport @skip_outbound return
\t\tmeta l4proto tcp ip daddr @skip4 return
\t\tmeta l4proto tcp ip daddr @include4 redirect to :4540
\t\tmeta l4proto tcp ip6 daddr @include6 redirect to :4540
\t}

\tchain inbound {
\t\ttype nat hook prerouting priority dstnat - 1; policy accept;
\t\tmeta l4proto tcp iifname "lo" return
\t\tmeta l4proto tcp th dport @own return
\t\tmeta l4proto tcp th dport @skip_inbound return
\t\tmeta l4proto tcp th dport @include_inbound redirect to :4543
\t\tmeta l4proto tcp tcp option 254 exists redirect to :4543
\t}
"""


class Add(PluginTest):
    def test_the_packet_filter_redirects_by_address_and_port(self):
        pod = self.pod(("10.88.0.5/24", "fd88::5/64"))
        self.add(pod, {**IN, "fairlead.io/skip-outbound-ports": "5432,6379,6380-6390",
                       "fairlead.io/skip-inbound-ports": "9100",
                       "fairlead.io/include-inbound-ports": "8000-8010",
                       "fairlead.io/skip-subnets": "10.9.0.0/16"}, redirect="nftables")
        self.assertEqual(pod.filters(), [])
        self.assertEqual(self.state(pod)["redirectReason"], "redirect is nftables")
        shown = pod.nft().replace("priority -101", "priority dstnat - 1").replace("tcp dport", "th dport")
        # nft leaves out what it can infer, which differs by version.
        shown = shown.replace("meta l4proto tcp ", "").replace("meta nfproto ipv4 ", "") \
                     .replace("meta nfproto ipv6 ", "")
        for line in EXPECTED_RULES.replace("meta l4proto tcp ", "").splitlines():
            self.assertIn(line, shown)
        for elements in ("5432, 6379-6390", "10.0.0.0/8, 100.64.0.0/10", "fc00::/7", "8000-8010",
                         "10.9.0.0/16"):
            self.assertIn(elements, " ".join(shown.split()))

    def test_only_the_families_of_the_pod(self):
        pod = self.pod(("fd88::5/64",))
        self.add(pod, redirect="nftables")
        self.assertIn("include6", pod.nft())
        self.assertNotIn("include4", pod.nft())

    def test_programs_redirect_the_blocks_of_the_configuration(self):
        if cgroup_root() is None:
            self.skipTest("no cgroup v2 hierarchy to be written")
        pod = self.pod(("10.88.0.5/24", "fd88::5/64"))
        self.add(pod, {**IN, "fairlead.io/include-cidrs": "10.0.0.0/8,fd00::/8"})
        self.assertEqual(pod.redirect()["blocks"], ["08000000fd" + 15 * "00", "68000000" + 10 * "00" + "ffff0a000000"])
        self.assertEqual(self.state(pod)["redirectReason"], "")

    def test_the_packet_filter_is_the_second_choice(self):
        pod = self.pod(with_cgroup=False)
        answer = self.add(pod)
        self.assertIn("table inet fairlead", pod.nft())
        reason = self.state(pod)["redirectReason"]
        self.assertIn("redirect programs: ", reason)
        added = [event for event in answer.events() if event["event"] == "added"][0]
        self.assertEqual((added["redirect"], added["redirect_reason"]), ("nftables", reason))
        other = self.pod(with_cgroup=False)
        self.add(other, redirect="programs")
        self.assertEqual(other.nft(), "")
        self.assertIn(101, [problem["code"] for problem in self.state(other)["problems"]])
        self.bad(101, ["redirect programs: "], "ADD", other, IN, redirect="programs", failClosed=True)

    def test_a_pod_keeps_its_kind_of_redirect_until_it_ends(self):
        pod = self.pod()
        before = pod.snapshot()
        self.add(pod, redirect="nftables")
        self.good("CHECK", pod, IN, redirect="programs")
        self.good("DEL", pod, redirect="programs")
        self.assertEqual(pod.snapshot(), before)

    def test_another_kind_of_redirect_takes_the_place_of_the_first(self):
        if cgroup_root() is None:
            self.skipTest("no cgroup v2 hierarchy to be written")
        pod = self.pod()
        before = pod.redirect()
        self.add(pod, redirect="nftables")
        translated = pod.redirect()
        self.assertIn("table inet fairlead", translated["nft"])
        self.add(pod)
        self.assert_set_up(pod)
        self.add(pod, redirect="nftables")
        self.assertEqual(pod.redirect(), translated)
        self.good("DEL", pod)
        self.assertEqual(pod.redirect(), before)

    def test_hands_over_and_attaches_the_option_program(self):
        pod = self.pod()
        answer = self.add(pod)
        self.assert_set_up(pod)
        if cgroup_root() is not None:
            self.assertEqual(self.state(pod)["problems"], [])
        added = [event for event in answer.events() if event["event"] == "added"][0]
        self.assertEqual((added["pod"], added["namespace"]), ("web-0", "default"))

    def test_twice(self):
        pod = self.pod()
        before = pod.snapshot()
        self.add(pod)
        first = pod.snapshot()
        self.add(pod)
        self.assertEqual(pod.snapshot(), first)
        self.good("CHECK", pod, IN)
        self.good("DEL", pod)
        self.assertEqual(pod.snapshot(), before)

    def test_again_after_a_call_was_killed_between_two_programs(self):
        if cgroup_root() is None:
            self.skipTest("no cgroup v2 hierarchy to be written")
        pod = self.pod()
        self.add(pod)
        pod.detach("smc_mark")  # which is attached last
        pod.detach("fairlead_conn6")
        self.assertFalse({"smc_mark", "fairlead_conn6"} & set(pod.programs()))
        self.add(pod)
        self.assert_set_up(pod)

    def test_a_pod_without_sidecar_stays_what_it_was(self):
        pod = self.pod(("10.88.0.5/24", "fd88::5/64"))
        before = pod.snapshot()
        for annotations in ({}, {"app": "web"}, {"fairlead.io/inject": "enabled"},
                            {**IN, "fairlead.io/inject": "disabled"}):
            self.add(pod, annotations)
            self.good("CHECK", pod, annotations)
        self.assertEqual(pod.snapshot(), before)
        self.assertEqual(self.attachments(), [])

    def test_versions(self):
        for version in ("0.3.1", "0.4.0", "1.0.0", "1.1.0"):
            pod = self.pod()
            answer = self.good("ADD", pod, IN, cniVersion=version)
            self.assertEqual(answer.json["cniVersion"], version)
            self.assert_set_up(pod)
            self.good("DEL", pod, cniVersion=version)

    def test_second_interface_leaves_the_redirect_to_the_first(self):
        pod = self.pod()
        before = pod.redirect()
        self.add(pod)
        self.add(pod, env={"CNI_IFNAME": "net1"})
        self.good("DEL", pod, env={"CNI_IFNAME": "net1"})
        self.assert_set_up(pod)
        self.good("DEL", pod)
        self.assertEqual(pod.redirect(), before)

    def test_orphaned_plugin_does_nothing(self):
        (self.run_dir / "enabled").unlink()
        pod = self.pod()
        before = pod.snapshot()
        self.add(pod)
        self.good("CHECK", pod, IN)
        self.assertEqual(pod.snapshot(), before)

    def test_alias_of_somebody_else_is_kept(self):
        pod = self.pod()
        pod.inside("ip", "link", "set", "lo", "alias", "theirs")
        self.add(pod)
        self.assertEqual(pod.alias(), "theirs")
        self.assertEqual([problem["code"] for problem in self.state(pod)["problems"]], [104])
        self.bad(104, ["alias"], "CHECK", pod, IN)
        self.good("DEL", pod)
        self.assertEqual(pod.alias(), "theirs")


class FailOpen(PluginTest):
    def test_no_namespace(self):
        pod = self.pod()
        environment = {"CNI_NETNS": "/run/netns/nobody"}
        self.add(pod, env=environment)
        self.bad(100, ["/run/netns/nobody"], "ADD", pod, IN, env=environment, failClosed=True)
        self.good("DEL", pod, env=environment)

    def test_path_that_is_no_namespace(self):
        pod = self.pod()
        self.add(pod, env={"CNI_NETNS": "/etc/hostname"})
        self.bad(100, ["/etc/hostname"], "ADD", pod, IN, env={"CNI_NETNS": "/etc/hostname"},
                 failClosed=True)

    def test_run_dir_that_cannot_be_written(self):
        pod = self.pod()
        before = pod.redirect()
        (self.run_dir / "attachments").write_text("a file")
        self.add(pod)
        self.assertEqual(pod.redirect(), before)
        self.bad(105, ["attachments"], "ADD", pod, IN, failClosed=True)

    def test_no_annotations_and_nobody_to_ask(self):
        pod = self.pod()
        before = pod.snapshot()
        answer = self.good("ADD", pod, logLevel="debug")
        self.assertEqual(answer.events()[0]["event"], "no_annotations")
        self.assertEqual(pod.snapshot(), before)


class Del(PluginTest):
    def test_in_every_state(self):
        pod = self.pod()
        before = pod.snapshot()
        self.good("DEL", pod)  # never added
        self.add(pod)
        self.good("DEL", pod, prevResult=None)
        self.assertEqual(pod.snapshot(), before)
        self.good("DEL", pod, prevResult=None, env={"CNI_NETNS": ""})
        self.assertEqual(self.attachments(), [])

    def test_after_the_namespace_has_gone(self):
        pod = self.pod()
        self.add(pod)
        pin = pod.pin() or Path("none")
        subprocess.run(["ip", "netns", "del", pod.name], check=True)
        self.good("DEL", pod, prevResult=None, env={"CNI_NETNS": ""})
        self.assertEqual(self.attachments(), [])
        self.assertEqual(pod.programs(), [])
        self.assertFalse(pin.exists())

    def test_does_not_touch_a_namespace_that_has_the_path_now(self):
        pod = self.pod()
        self.add(pod, redirect="nftables")
        subprocess.run(["ip", "netns", "del", pod.name], check=True)
        subprocess.run(["ip", "netns", "add", pod.name], check=True)
        pod.inside("nft", "add", "table", "inet", "fairlead")
        self.good("DEL", pod)
        self.assertIn("fairlead", pod.nft())

    def test_with_damaged_state(self):
        pod = self.pod()
        self.add(pod)
        for damage in ("", "{", "[]", '{"format": 2}', '{"format":1,"netns":7,"redirect":{"a":1}}'):
            folder = self.run_dir / "attachments" / pod.container
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "eth0.json").write_text(damage)
            self.good("DEL", pod)
            self.assertEqual(self.attachments(), [])

    def test_with_a_configuration_that_is_not_allowed(self):
        pod = self.pod()
        before = pod.snapshot()
        self.add(pod)
        self.good("DEL", pod, ports="none", runtimeConfig=5, prevResult=[])
        self.assertEqual(pod.snapshot(), before)


class Check(PluginTest):
    def test_names_what_has_changed(self):
        pod = self.pod()
        changes = {
            101: [("nft", "flush", "chain", "inet", "fairlead", "inbound"),
                  ("nft", "add", "rule", "inet", "fairlead", "outbound", "accept"),
                  ("nft", "add", "element", "inet", "fairlead", "include4", "{ 8.8.8.8 }"),
                  ("nft", "delete", "table", "inet", "fairlead")],
            104: [("ip", "link", "set", "lo", "alias", "smc1;pnet=OTHER")]}
        for code, commands in changes.items():
            for command in commands:
                self.add(pod, redirect="nftables")
                self.good("CHECK", pod, IN)
                pod.inside(*command)
                answer = self.bad(code, ["not as ADD left it"], "CHECK", pod, IN)
                self.assertTrue(answer.json["details"], command)
                pod.inside("ip", "link", "set", "lo", "alias", "")

    def test_names_the_programs_that_have_changed(self):
        pod = self.pod()
        if pod.cgroup is None:
            self.skipTest("no cgroup2 here")
        for lose, lost in ((lambda: pod.detach("fairlead_conn4"), "fairlead_conn4"),
                           (lambda: pod.detach("fairlead_name6"), "fairlead_name6"),
                           (lambda: pod.inside("tc", "qdisc", "del", "dev", "eth0", "clsact"), "fairlead_syn"),
                           (lambda: pod.pin().unlink(), "fairlead_lookup")):
            with self.subTest(lost=lost):
                self.add(pod)
                self.good("CHECK", pod, IN)
                lose()
                answer = self.bad(101, ["not as ADD left it"], "CHECK", pod, IN)
                self.assertRegex(answer.json["details"], f"^program {lost}(/eth0)? is missing$")

    def test_an_interface_that_has_gone_is_not_missed(self):
        pod = self.pod()
        if pod.cgroup is None:
            self.skipTest("no cgroup2 here")
        pod.inside("ip", "link", "add", "net1", "type", "veth", "peer", "name", "net3")
        self.add(pod)
        pod.inside("ip", "link", "del", "net1")
        pod.inside("ip", "link", "add", "net2", "type", "veth", "peer", "name", "net4")
        self.good("CHECK", pod, IN)

    def test_option_program(self):
        pod = self.pod()
        if pod.cgroup is None:
            self.skipTest("no cgroup2 here")
        self.add(pod)
        shown = json.loads(subprocess.run(["bpftool", "-j", "cgroup", "show", pod.cgroup], check=True,
                                          capture_output=True, text=True).stdout)
        mark = [program for program in shown if program["name"] == "smc_mark"][0]
        subprocess.run(["bpftool", "cgroup", "detach", pod.cgroup, "sock_create", "id",
                        str(mark["id"])], check=True)
        self.bad(106, ["option program"], "CHECK", pod, IN)

    def test_pnet_of_another_namespace(self):
        asks = {**IN, "fairlead.io/pnet-id": "NETA"}
        pnet = [{"id": "NETA", "rnics": ["mlx5_0/1"], "namespaces": ["prod"]}]
        for arguments, words in (("K8S_POD_NAME=web-0;K8S_POD_NAMESPACE=shop", "namespace shop"),
                                 ("K8S_POD_NAME=web-0", "an unknown namespace")):
            pod = self.pod()
            answer = self.add(pod, asks, pnet=pnet, env={"CNI_ARGS": arguments})
            self.assertIn(f"PNET NETA is not for pods of {words}", answer.stderr)
            self.assertEqual(pod.alias(), "smc1;mode=none;access=pnet_namespace")
            self.bad(102, [f"PNET NETA is not for pods of {words}"], "CHECK", pod, asks, pnet=pnet)
            self.good("DEL", pod)

    def test_pod_that_was_never_added(self):
        self.bad(105, ["no state"], "CHECK", self.pod(), IN)


class Gc(PluginTest):
    def test_keeps_what_is_listed_under_either_key(self):
        pods = [self.pod() for _ in range(3)]
        before = pods[2].snapshot()
        for pod in pods:
            self.add(pod)
        valid = [[{"containerID": pod.container, "ifname": "eth0"}] for pod in pods]
        lists = {"cni.dev/valid-attachments": valid[0], "cni.dev/attachments": valid[1]}
        for _ in range(2):
            self.good("GC", name="othernet", **{"cni.dev/valid-attachments": []})
            self.assert_set_up(pods[2])
        for _ in range(2):
            self.good("GC", **lists)
            self.assert_set_up(pods[0])
            self.assert_set_up(pods[1])
            self.assertEqual(pods[2].snapshot(), before)
        self.good("GC", **{"cni.dev/valid-attachments": None, "cni.dev/attachments": []})
        self.assertEqual(self.attachments(), [])

    def test_refuses_a_list_that_it_does_not_understand(self):
        pod = self.pod()
        self.add(pod)
        self.bad(7, ["cni.dev/valid-attachments", "missing"], "GC")
        for value in ({}, [{}], [{"containerID": 1, "ifname": "eth0"}], "all"):
            self.bad(7, ["cni.dev/valid-attachments"], "GC", **{"cni.dev/valid-attachments": value})
        self.assert_set_up(pod)


class StatusAndVersion(PluginTest):
    def test_status_is_no_reason_to_take_a_node_down(self):
        for changes in ({}, {"ports": 1}, {"failClosed": True}):
            self.assertEqual(self.good("STATUS", **changes).stdout, "")
        self.bad(50, ["ports"], "STATUS", ports=1, failClosed=True)

    def test_version(self):
        for text in ("", "{", "[]", '{"cniVersion":"0.4.0"}'):
            answer = self.raw(self.environment("VERSION"), text)
            self.assertEqual(answer.code, 0)
            self.assertEqual(answer.json["cniVersion"], "0.4.0" if "0.4.0" in text else VERSION)
            self.assertEqual(answer.json["supportedVersions"], ["0.3.1", "0.4.0", "1.0.0", "1.1.0"])

    def test_says_what_it_is_to_who_starts_it_by_hand(self):
        done = subprocess.run([PLUGIN, "--help"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 64)
        self.assertIn("container runtime", done.stderr)


if __name__ == "__main__":
    unittest.TestCase.maxDiff = None
    main()
