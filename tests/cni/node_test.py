"""Goal: fairlead-node installs the plugin on a node, keeps it installed, and removes it completely. Method:
the test's own folders in place of the node's, the real programs, and a runtime's files as they are
found on nodes."""
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import unittest
import urllib.error
import urllib.request
from pathlib import Path

from plugin import PLUGIN, PluginTest, main, seconds, wait_until
from slow_clients import assert_probes_are_answered

NODE = Path(os.environ.get("FAIRLEAD_NODE", PLUGIN.with_name("fairlead-node")))
LIST = {"cniVersion": "1.0.0", "name": "podnet", "plugins": [
    {"type": "bridge", "bridge": "cni0", "ipam": {"type": "host-local", "subnet": "10.244.0.0/24"}},
    {"type": "portmap", "capabilities": {"portMappings": True}}]}
SECONDS_MAX = 20


class Node(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="fairlead-node-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.conf, self.run_dir = self.folder / "net.d", self.folder / "run"
        self.bins = [self.folder / "bin", self.folder / "bin2"]
        self.conf.mkdir()
        self.plugin = self.folder / "fairlead-cni"
        shutil.copy(PLUGIN, self.plugin)
        self.list = self.conf / "10-podnet.conflist"
        self.list.write_text(json.dumps(LIST, indent=4))
        self.list.chmod(0o640)

    def places(self):
        return ["--conf-dir", self.conf, "--run-dir", self.run_dir,
                *[word for folder in self.bins for word in ("--bin-dir", folder)]]

    def run_node(self, verb, *words, code=0):
        done = subprocess.run([NODE, verb, *self.places(), *words], capture_output=True, text=True,
                              check=False, timeout=seconds(SECONDS_MAX))
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def install(self, *words, code=0):
        return self.run_node("install", "--plugin", self.plugin, *words, code=code)

    def plugins(self, path=None):
        return json.loads((path or self.list).read_text())["plugins"]

    def everything(self):
        return {str(path.relative_to(self.folder)): path.read_bytes()
                for path in sorted(self.folder.rglob("*")) if path.is_file()}


class Install(Node):
    def test_appends_its_entry_and_takes_it_out_again(self):
        before = self.everything()
        self.install("--settings", json.dumps({"includeCIDRs": ["10.244.0.0/16"]}))
        self.assertEqual(self.plugins()[:2], LIST["plugins"])
        self.assertEqual(self.plugins()[2], {
            "type": "fairlead-cni", "runDir": str(self.run_dir), "includeCIDRs": ["10.244.0.0/16"],
            "capabilities": {"io.kubernetes.cri.pod-annotations": True, "cgroupPath": True}})
        self.assertEqual(list(json.loads(self.list.read_text())), list(LIST))  # the order of keys
        self.assertEqual(self.list.stat().st_mode & 0o777, 0o640)
        for folder in self.bins:
            self.assertEqual((folder / "fairlead-cni").read_bytes(), PLUGIN.read_bytes())
            self.assertTrue(os.access(folder / "fairlead-cni", os.X_OK))
        self.assertTrue((self.run_dir / "enabled").exists())
        for _ in range(2):
            self.run_node("uninstall")
            after = self.everything()
            self.assertEqual(json.loads(after.pop(name := "net.d/10-podnet.conflist")), LIST)
            self.assertEqual(after, {key: value for key, value in before.items() if key != name})

    def test_the_seccomp_profile_is_one_file_of_its_folder(self):
        place, source = self.folder / "seccomp/fairlead", self.folder / "profile.json"
        source.write_text('{"defaultAction": "SCMP_ACT_ERRNO"}')
        words = ("--seccomp-dir", place, "--seccomp-profile", source)
        self.install()
        self.assertFalse(place.exists(), "without the option")
        self.install(*words)
        installed = place / "fairlead-proxy.json"
        self.assertEqual(installed.read_bytes(), source.read_bytes())
        self.assertEqual(installed.stat().st_mode & 0o777, 0o644)
        (place / "other.json").write_text("of somebody")
        (self.folder / "elsewhere").write_text("of somebody")
        # A link of somebody is replaced, not followed; an upgrade replaces the content.
        installed.unlink()
        installed.symlink_to(self.folder / "elsewhere")
        source.write_text('{"defaultAction": "SCMP_ACT_LOG"}')
        self.install(*words)
        self.assertFalse(installed.is_symlink())
        self.assertEqual(installed.read_bytes(), source.read_bytes())
        self.assertEqual((self.folder / "elsewhere").read_text(), "of somebody")
        self.assertEqual(sorted(path.name for path in place.iterdir()), ["fairlead-proxy.json", "other.json"])
        number = installed.stat().st_ino
        self.install(*words)
        self.assertEqual(installed.stat().st_ino, number, "written again without a change")
        # Sidecars that restart need it after the agent has gone.
        self.run_node("uninstall")
        self.assertTrue(installed.exists())

    def test_a_wrong_seccomp_profile_is_refused_by_name(self):
        source = self.folder / "profile.json"
        for text in ("[]", "{}", "no JSON"):
            source.write_text(text)
            told = self.install("--seccomp-dir", self.folder / "seccomp", "--seccomp-profile", source, code=1)
            self.assertIn(f"--seccomp-profile: {source} is not allowed", told)
        self.assertIn("/nowhere.json", self.install("--seccomp-dir", self.folder / "seccomp", "--seccomp-profile", "/nowhere.json", code=1))
        self.assertFalse((self.folder / "seccomp").exists())
        self.assertIn("--seccomp-dir", self.install("--seccomp-dir", "seccomp", code=64))

    def test_twice_changes_nothing(self):
        self.install()
        before = {path: path.stat().st_ino for path in (self.list, self.bins[0] / "fairlead-cni")}
        self.install()
        self.assertEqual({path: path.stat().st_ino for path in before}, before)

    def test_upgrade_replaces_binary_and_entry(self):
        self.install()
        self.plugin.write_bytes(PLUGIN.read_bytes() + b"newer")
        self.install("--settings", '{"failClosed": true}')
        self.assertTrue((self.bins[1] / "fairlead-cni").read_bytes().endswith(b"newer"))
        ours = [plugin for plugin in self.plugins() if plugin["type"] == "fairlead-cni"]
        self.assertEqual([plugin["failClosed"] for plugin in ours], [True])

    def test_single_plugin_file_is_copied_and_not_touched(self):
        self.list.unlink()
        single = self.conf / "10-only.conf"
        text = '{"cniVersion":"0.3.1","name":"only","type":"bridge","x":1}'
        single.write_text(text)
        self.install()
        own = json.loads((self.conf / "01-fairlead.conflist").read_text())
        self.assertEqual((own["cniVersion"], own["name"]), ("0.3.1", "only"))
        self.assertEqual(own["plugins"][0], {"type": "bridge", "x": 1})
        self.assertEqual(own["plugins"][1]["type"], "fairlead-cni")
        self.assertEqual(single.read_text(), text)
        self.run_node("uninstall")
        self.assertEqual([path.name for path in self.conf.iterdir()], ["10-only.conf"])
        (self.conf / "00-a.conf").write_text(text)
        self.assertIn("00-a.conf", self.install(code=1))

    def test_waits_for_a_configuration_that_can_be_read(self):
        for text in (None, "{", "[]", "{}", '{"plugins": []}'):
            self.list.unlink(missing_ok=True)
            if text is not None:
                self.list.write_text(text)
            self.assertIn("waiting", self.install())
            self.assertEqual(self.list.read_text() if text is not None else None, text)

    def test_refuses_settings_that_the_plugin_would_refuse(self):
        before = self.everything()
        for settings, words in (('{"ports": {"inbound": 0}}', "ports.inbound: 0 is not allowed"),
                                ('{"includeCidrs": []}', '"includeCidrs" is no key'),
                                ("nonsense", "settings")):
            self.assertIn(words, self.install("--settings", settings, code=1))
        self.assertEqual(self.everything(), before)
        self.run_node("install", "--no-such-option", code=64)

    def test_inventory_is_json(self):
        done = subprocess.run([NODE, "inventory"], capture_output=True, text=True, check=True)
        self.assertIn(json.loads(done.stdout)["rdma_mode"], ("none", "shared", "exclusive"))


class Multus(Node):
    """The forms in which Multus, in front of the network, names its network. In each of them the runtime
    still calls Multus first, and Multus never calls itself."""
    OURS = "fairlead-cni"

    def setUp(self):
        super().setUp()
        self.multus = self.conf / "00-multus.conf"

    def write(self, path, **configuration):
        path.write_text(json.dumps({"cniVersion": "1.0.0", "name": path.stem, **configuration}))

    def types(self, plugins):
        return [plugin["type"] for plugin in plugins]

    def runtime_takes(self):
        return min(path.name for path in self.conf.iterdir())

    def test_copy_of_the_network_gets_the_entry(self):
        for delegate in (LIST, {"cniVersion": "1.0.0", "name": "podnet", "type": "bridge"}):
            for inside in (lambda multus: multus, lambda multus: {"plugins": [multus, {"type": "tuning"}]}):
                self.write(self.multus, **inside({"type": "multus", "kubeconfig": "/k", "delegates": [delegate]}))
                before = json.loads(self.multus.read_text())
                primary = self.list.read_bytes()
                for _ in range(2):
                    self.assertIn("installed", self.install())
                after = json.loads(self.multus.read_text())
                (given,) = after.get("plugins", [after])[0]["delegates"]
                self.assertEqual(self.types(given["plugins"]),
                                 [*self.types(delegate.get("plugins", [delegate])), self.OURS])
                self.assertEqual(given["name"], "podnet")
                self.assertEqual((self.list.read_bytes(), self.runtime_takes()), (primary, "00-multus.conf"))
                self.run_node("uninstall")
                if "plugins" in delegate:
                    self.assertEqual(json.loads(self.multus.read_text()), before)
                self.assertNotIn(self.OURS, self.multus.read_text())

    def test_file_that_it_names_gets_the_entry(self):
        for name in (f"/host/etc/cni/net.d/{self.list.name}", LIST["name"]):
            self.write(self.multus, type="multus-shim", clusterNetwork=name)
            before = self.multus.read_bytes()
            self.assertIn(f"installed: {self.list}", self.install())
            self.assertEqual(self.types(self.plugins()), [*self.types(LIST["plugins"]), self.OURS])
            self.assertEqual((self.multus.read_bytes(), self.runtime_takes()), (before, "00-multus.conf"))
            self.run_node("uninstall")
            self.assertEqual(json.loads(self.list.read_text()), LIST)

    def test_single_plugin_waits_until_it_takes_our_list(self):
        self.list.unlink()
        single = self.conf / "10-only.conf"
        self.write(single, type="bridge")
        self.write(self.multus, type="multus-shim", clusterNetwork=f"/host/etc/cni/net.d/{single.name}")
        before = (single.read_bytes(), self.multus.read_bytes())
        for _ in range(2):
            self.assertIn("waiting", self.install())
        self.assertEqual((single.read_bytes(), self.multus.read_bytes(), self.runtime_takes()),
                         (*before, "00-multus.conf"))
        # At its start Multus uses the first file that is not its own.
        first = min(path.name for path in self.conf.iterdir() if not path.name.startswith("00-multus"))
        self.assertEqual(self.types(self.plugins(self.conf / first)), ["bridge", self.OURS])
        self.write(self.multus, type="multus-shim", clusterNetwork=f"/host/etc/cni/net.d/{first}")
        self.assertIn("installed", self.install())
        self.assertEqual(self.types(self.plugins(self.conf / first)), ["bridge", self.OURS])

    def test_what_leads_nowhere_is_waited_for(self):
        before = self.list.read_bytes()
        for multus in ({"clusterNetwork": "/host/etc/cni/net.d/20-gone.conflist"}, {"clusterNetwork": "ns/net"},
                       {"clusterNetwork": "/host/00-multus.conf"}, {}, {"delegates": []}, {"delegates": [1]},
                       {"clusterNetwork": 3}):
            self.write(self.multus, type="multus", **multus)
            text = self.multus.read_bytes()
            self.assertIn("waiting", self.install(), multus)
            self.assertEqual((self.multus.read_bytes(), self.list.read_bytes()), (text, before))
            self.assertEqual(len(list(self.conf.iterdir())), 2)


class AgentTest(Node, PluginTest):
    def setUp(self):
        Node.setUp(self)
        # One folder for both; install or PluginTest created it.
        PluginTest.setUp(self)
        self.log = self.folder.with_name(self.folder.name + ".log")
        self.log.touch()
        self.addCleanup(self.log.unlink, missing_ok=True)

    def start_agent(self, *words):
        with open(self.log, "wb") as log:
            agent = self.spawn([NODE, "run", *self.places(), "--plugin", self.plugin, "--listen",
                                "127.0.0.1:0", *words], stdout=log, stderr=log)
        self.see(" node event=ready")
        self.address = re.search(r"event=listening address=(\S+)", self.log.read_text()).group(1)
        return agent

    def see(self, words):
        wait_until(lambda: words in self.log.read_text(), words, SECONDS_MAX)

    def get(self, path):
        try:
            with urllib.request.urlopen(f"http://{self.address}{path}", timeout=seconds(SECONDS_MAX)) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()


class Agent(AgentTest):
    def test_answers_probes_beside_slow_clients(self):
        self.start_agent()
        host, port = self.address.rsplit(":", 1)
        assert_probes_are_answered(self, (host, int(port)),
                                   lambda: self.assertEqual(self.get("/livez")[0], 200),
                                   b"GET /livez HTTP/1.1\r\nX-Slow: ")
        self.assertNotIn('fairlead_node_http_refused_total{reason="crowded"} 0\n', self.get("/metrics")[1])
        self.see(" http event=refused reason=crowded source=127.0.0.1 ")

    def test_serves_nothing_but_probes_and_metrics(self):
        self.start_agent()
        for path in ("/", "/config", "/pods", "/debug/pprof", "/metrics/.."):
            self.assertEqual(self.get(path)[0], 404, path)
        self.assertIn('fairlead_node_http_refused_total{reason="not_served"} 5\n', self.get("/metrics")[1])

    def test_puts_its_entry_back_and_leaves_it_when_it_goes(self):
        agent = self.start_agent()
        self.assertEqual(self.get("/readyz")[0], 200)
        for number in range(3):
            changed = {**LIST, "name": f"podnet{number}"}
            fresh = self.conf / ".new"
            fresh.write_text(json.dumps(changed))
            fresh.rename(self.list)
            wait_until(lambda: len(self.plugins()) == 3, "the entry", SECONDS_MAX)
        self.list.unlink()
        wait_until(lambda: self.get("/readyz")[0] == 503, "the agent to notice", SECONDS_MAX)
        self.list.write_text(json.dumps(LIST))
        wait_until(lambda: self.get("/readyz")[0] == 200, "the agent to notice", SECONDS_MAX)
        agent.send_signal(signal.SIGTERM)
        self.assertEqual(agent.wait(seconds(SECONDS_MAX)), 0, self.log.read_text())
        self.assertEqual(len(self.plugins()), 3)
        self.assertTrue((self.run_dir / "enabled").exists())
        self.run_node("uninstall")
        self.assertEqual(self.plugins(), LIST["plugins"])

    def test_shows_and_counts_what_the_plugin_says(self):
        self.start_agent()
        pod = self.pod()
        self.add(pod)
        self.see('"event":"added"')
        line = 'fairlead_node_cni_events_total{command="ADD",event="added"} 1'
        wait_until(lambda: line in self.get("/metrics")[1], "the count", SECONDS_MAX)
        text = self.get("/metrics")[1]
        self.assertIn("fairlead_node_install_ready 1", text)
        if shutil.which("promtool"):
            checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True,
                                     text=True, check=False)
            self.assertEqual((checked.returncode, checked.stdout), (0, ""), checked.stderr)
        self.good("DEL", pod)

    def test_uninstall_takes_what_running_pods_have(self):
        pods = [self.pod(("10.88.0.4/24", "fd88::4/64")), self.pod()]
        untouched = self.pod()
        agent = self.start_agent()
        for pod in pods:
            self.add(pod)
            self.assert_set_up(pod)
        agent.send_signal(signal.SIGTERM)
        self.assertEqual(agent.wait(seconds(SECONDS_MAX)), 0, self.log.read_text())
        for _ in range(2):
            self.run_node("uninstall")
            for pod in pods:
                self.assertEqual((pod.redirect(), pod.alias(), pod.programs()),
                                 (untouched.redirect(), untouched.alias(), []))
            self.assertEqual(list(self.run_dir.iterdir()), [])
        # A runtime that has cached the old configuration may still call its plugins.
        for verb in ("CHECK", "DEL"):
            self.good(verb, pods[0])

    def test_collects_what_dead_pods_left(self):
        pods = [self.pod(), self.pod()]
        for pod in pods:
            self.add(pod)
        subprocess.run(["ip", "netns", "del", pods[0].name], check=True)
        self.assertIn("1 kept, 1 collected", self.run_node("gc"))
        self.assertEqual(pods[0].programs(), [])
        self.assert_set_up(pods[1])
        self.assertIn("1 kept, 0 collected", self.run_node("gc"))
        self.good("DEL", pods[1])


if __name__ == "__main__":
    main()
