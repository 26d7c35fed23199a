"""Goal: sidecars get the RNICs of their pod from fairlead-node, other containers get nothing, and every pod starts.
Method: the program, a container runtime that creates no containers (nri_runtime.py), and a sysfs of files."""
import json
import os
import resource
import subprocess
import tempfile
import unittest
from pathlib import Path

import node_test
from node_test import NODE, SECONDS_MAX
from nri_runtime import ARGS, Runtime, container_message, device_message, encode, pod_message
from plugin import IN, cgroup_root, main, seconds, wait_until

UNLIMITED = 2 ** 64 - 1
MEMLOCK = "RLIMIT_MEMLOCK"
SIDECAR = 2201


def may_raise_limits():
    """Without this right a runtime cannot start a container with a higher limit, so the agent must not request one."""
    effective = int(Path("/proc/self/status").read_text(encoding="ascii").split("CapEff:")[1].split()[0], 16)
    return bool(effective >> 24 & 1)


def memlock_expected(wanted):
    """This process is the runtime."""
    if may_raise_limits():
        return [(MEMLOCK, wanted, wanted)]
    hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
    hard = UNLIMITED if hard == resource.RLIM_INFINITY else hard
    return [(MEMLOCK, wanted, wanted)] if wanted <= hard else []


class NriTest(node_test.AgentTest):
    """An agent with two RNICs, mlx5_0 and mlx5_1, of which the first is the PNET's."""
    PNET = '{"pnet": [{"id": "NETA", "rnics": ["mlx5_0/1"]}]}'

    def setUp(self):
        super().setUp()
        # A short path: the address of a Unix socket has at most 107 bytes.
        self.sockets = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="nri-")))
        self.socket = self.sockets / "nri.sock"
        self.sysfs = self.folder / "sys"
        for number in range(2):
            verbs = self.sysfs / f"class/infiniband_verbs/uverbs{number}"
            port = self.sysfs / f"class/infiniband/mlx5_{number}/ports/1/gid_attrs/ndevs"
            verbs.mkdir(parents=True)
            port.mkdir(parents=True)
            (port.parents[1] / "state").write_text("4: ACTIVE\n")
            (verbs / "ibdev").write_text(f"mlx5_{number}\n")
            (verbs / "dev").write_text(f"231:{192 + number}\n")

    def enterContext(self, context):  # from Python 3.11; kept for older ones
        self.addCleanup(context.__exit__, None, None, None)
        return context.__enter__()

    def start_agent(self, *words):
        return super().start_agent("--nri-socket", self.socket, "--sysfs", self.sysfs, "--settings", self.PNET, *words)

    def runtime(self):
        made = Runtime(self.socket, seconds(SECONDS_MAX))
        self.addCleanup(made.stop)
        return made

    def connected(self, *words, pods=(), containers=()):
        runtime = self.runtime()
        agent = self.start_agent(*words)
        connection = runtime.connection()
        connection.accept(pods, containers)
        return runtime, agent, connection

    def metric(self, line):
        wait_until(lambda: f"\n{line}\n" in self.get("/metrics")[1], line, SECONDS_MAX)


class Sidecars(NriTest):
    DEVICE = ("/dev/infiniband/uverbs0", 231, 192, 0o600, SIDECAR)

    def test_sidecar_gets_the_devices_of_its_pnet_and_the_application_nothing(self):
        _, _, runtime = self.connected()
        pod = pod_message("a" * 64, annotations=IN)
        made = runtime.create(pod, container_message("a" * 64, memory=512 << 20))
        self.assertEqual(made.devices, [self.DEVICE])
        self.assertEqual(made.rlimits, memlock_expected(512 << 20))
        for other in (container_message("a" * 64, name="app"), container_message("a" * 64, uid=0)):
            made = runtime.create(pod, other)
            self.assertEqual((made.devices, made.rlimits), ([], []))
        self.see("nri event=rnic_access pod=shop/web-0 result=granted rnics=mlx5_0")
        self.see("nri event=rnic_access pod=shop/web-0 result=wrong_user")
        self.metric('fairlead_node_rnic_access_total{result="granted"} 1')
        self.metric('fairlead_node_rnic_access_total{result="wrong_user"} 1')
        self.metric("fairlead_node_nri_connected 1")
        self.metric("fairlead_node_nri_registrations_total 1")

    def test_container_that_only_has_the_sidecars_name_gets_nothing(self):
        """Also one that existed before the agent; the log names field and value, the pod hears the result."""
        _, _, runtime = self.connected("--rnic-env", "COMPANY_ZONE")
        pod = self.pod()
        self.add(pod, rnicMode="none")
        message = pod_message(pod.container, annotations=IN)
        good = {"args": ARGS, "env": ["PATH=/bin", "COMPANY_ZONE=a", "FAIRLEAD_LOG_LEVEL=info"],
                "mounts": [("/proc", "proc"), ("/dev", "tmpfs"), ("/etc/hosts", "bind")],
                "namespaces": [("pid", ""), ("network", "/proc/7/ns/net")], "groups": [SIDECAR]}
        cases = (("foreign", {"args": ["/bin/sh"]}, "field=args value=/bin/sh"),
                 ("foreign", {"env": ["LD_PRELOAD=/tmp/secret.so"]}, "field=env value=LD_PRELOAD"),
                 ("foreign", {"mounts": [("/etc/fairlead", "bind")]}, "field=mounts value=/etc/fairlead"),
                 ("foreign", {"groups": [0]}, 'field=user value="group 0"'),
                 ("shared_processes", {"namespaces": [("network", "")]}, 'field=namespaces value="no pid"'),
                 ("shared_processes", {"namespaces": [("pid", "/proc/7/ns/pid")]},
                  'field=namespaces value="pid /proc/7/ns/pid"'))
        made = runtime.create(pod_message("a" * 64, annotations=IN), container_message("a" * 64, **good))
        self.assertEqual(made.devices, [self.DEVICE])
        for result, changed, words in cases:
            made = runtime.create(message, container_message(pod.container, **{**good, **changed}))
            self.assertEqual((made.devices, made.rlimits), ([], []), changed)
            self.see(f"result={result} rnics=- memlock=unchanged {words}")
            wait_until(lambda: pod.alias().endswith(f";access={result}"), result, SECONDS_MAX)
        self.metric('fairlead_node_rnic_access_total{result="foreign"} 4')
        self.metric('fairlead_node_rnic_access_total{result="shared_processes"} 2')
        self.assertNotIn("secret", self.log.read_text())

    def test_existing_container_that_only_has_the_sidecars_name_gets_nothing(self):
        self.connected(pods=[pod_message("a" * 64, annotations=IN)],
                       containers=[container_message("a" * 64, args=[*ARGS, "--log", "x"], pid=1)])
        self.see("nri event=rnic_not_given_late pod=shop/web-0 result=foreign field=args value=")
        self.metric('fairlead_node_rnic_late_total{result="failed"} 0')
        self.run_node("run", "--rnic-env", "LD_PRELOAD", code=64)

    def test_rnic_that_has_gone_by_the_time_the_container_is_made(self):
        """Its pod starts without it, and the next one has it again."""
        _, _, runtime = self.connected()
        pod = pod_message("a" * 64, annotations=IN)
        verbs, device = self.sysfs / "class/infiniband_verbs/uverbs0", self.sysfs / "class/infiniband/mlx5_0"
        for there in (True, False, True):
            made = runtime.create(pod, container_message("a" * 64, memory=512 << 20))
            self.assertEqual(made.devices, [self.DEVICE] if there else [])
            self.assertEqual(made.rlimits, memlock_expected(512 << 20) if there else [])
            for path in (verbs, device):
                away = self.folder / f"{path.name}.away"
                (path if path.exists() else away).rename(away if path.exists() else path)
        self.see("nri event=rnic_access pod=shop/web-0 result=no_rnic rnics=- memlock=unchanged")
        self.metric('fairlead_node_rnic_access_total{result="granted"} 2')
        self.metric('fairlead_node_rnic_access_total{result="no_rnic"} 1')

    def test_two_networks_with_one_rnic_are_refused_by_name(self):
        two = '{"pnet": [{"id": "NETA", "rnics": ["mlx5_0/1"]}, {"id": "NETB", "rnics": ["mlx5_1/1", "mlx5_0/1"]}]}'
        done = subprocess.run([NODE, "run", *self.places(), "--plugin", self.plugin, "--settings", two, "--sysfs", self.sysfs],
                              capture_output=True, text=True, timeout=seconds(SECONDS_MAX), check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn('pnet[1].rnics: "mlx5_0/1" is in pnet[0] (NETA), which keeps it; allowed: each port in one PNET',
                      done.stderr)

    def test_pod_that_was_not_injected_gets_nothing_by_a_containers_name(self):
        _, _, runtime = self.connected()
        for annotations in ({}, {"fairlead.io/inject": "enabled"}, {**IN, "fairlead.io/inject": "disabled"}):
            made = runtime.create(pod_message("a" * 64, annotations=annotations), container_message("a" * 64))
            self.assertEqual((made.devices, made.rlimits), ([], []), annotations)

    def test_namespaces_are_the_clusters_word(self):
        _, _, runtime = self.connected("--rnic-namespace", "prod", "--rnic-namespace", "stage")
        for namespace, devices in (("shop", []), ("prod", [self.DEVICE]), ("stage", [self.DEVICE])):
            made = runtime.create(pod_message("a" * 64, namespace=namespace, annotations=IN), container_message("a" * 64))
            self.assertEqual(made.devices, devices, namespace)
        self.metric('fairlead_node_rnic_access_total{result="namespace"} 1')

    def test_pnet_is_for_pods_of_its_namespaces(self):
        """By the sandbox's namespace, also where the plugin set the pod up before the configuration had the list."""
        one = {"id": "NETA", "rnics": ["mlx5_0/1"]}
        mine = {"pnet": [{**one, "namespaces": ["prod"]}, {"id": "NETB", "rnics": ["mlx5_1/1"]}]}
        second = ("/dev/infiniband/uverbs1", 231, 193, 0o600, SIDECAR)
        self.PNET = json.dumps(mine)
        _, _, runtime = self.connected()
        asks = {**IN, "fairlead.io/pnet-id": "NETA"}
        for namespace, annotations, devices in (("prod", asks, [self.DEVICE]), ("prod", IN, [self.DEVICE]),
                                                ("shop", asks, []), ("", asks, []), ("shop", IN, [second]),
                                                ("", IN, [second])):
            made = runtime.create(pod_message("a" * 64, namespace=namespace, annotations=annotations),
                                  container_message("a" * 64))
            self.assertEqual(made.devices, devices, (namespace, annotations))
        self.see("nri event=rnic_access pod=shop/web-0 result=pnet_namespace rnics=-")
        self.metric('fairlead_node_rnic_access_total{result="pnet_namespace"} 2')
        pod = self.pod()
        self.add(pod, asks, pnet=[one])
        (path,) = (self.run_dir / "attachments" / pod.container).glob("*.json")
        state = json.loads(path.read_text())
        path.write_text(json.dumps({**state, "alias": "smc1;pnet=NETA;mode=shared;gid=auto"}))
        made = runtime.create(pod_message(pod.container, annotations=asks), container_message(pod.container))
        self.assertEqual(made.devices, [])
        wait_until(lambda: pod.alias().endswith(";access=pnet_namespace"), "the note", SECONDS_MAX)
        made = runtime.create(pod_message(pod.container, namespace="prod", annotations=asks),
                              container_message(pod.container))
        self.assertEqual(made.devices, [self.DEVICE])

    def test_limit_is_what_the_command_line_says(self):
        for words, wanted in (("unlimited", UNLIMITED), (str(1 << 16), 1 << 16)):
            _, agent, runtime = self.connected("--rnic-memlock", words)
            made = runtime.create(pod_message("a" * 64, annotations=IN), container_message("a" * 64))
            self.assertEqual(made.rlimits, memlock_expected(wanted))
            agent.kill()
            agent.wait()
        self.run_node("run", "--rnic-memlock", "12MiB", code=64)
        self.run_node("run", "--rnic-access", "some", code=64)

    def test_pod_hears_what_was_decided(self):
        """The plugin checked this machine, which may have no RNIC; the agent uses its result."""
        _, _, runtime = self.connected("--rnic-namespace", "shop")
        pod = self.pod()
        self.add(pod, rnicMode="none")
        self.assertEqual(pod.alias(), "smc1;mode=none")
        for namespace, result in (("shop", "no_rnic"), ("other", "namespace")):
            runtime.create(pod_message(pod.container, namespace=namespace, annotations=IN),
                           container_message(pod.container))
            wait_until(lambda: pod.alias().endswith(f";access={result}"), result, SECONDS_MAX)
        self.good("CHECK", pod)
        self.good("DEL", pod)
        self.assertEqual(pod.alias(), "")

    @unittest.skipIf(cgroup_root() is None, "no cgroup v2 hierarchy to be written")
    def test_sidecar_that_ran_before_is_given_its_device_or_the_reason(self):
        """The unit test covers the means; here the process is not the container's."""
        sandbox, container = "a" * 64, "k" * 64
        # Of this process alone: the search covers the pods of every test on this machine.
        uid = f"late-{os.getpid()}"
        top = cgroup_root() / f"kubelate{os.getpid()}"
        for folder in (top, top / f"pod{uid}", top / f"pod{uid}" / f"cri-containerd-{container}.scope"):
            folder.mkdir()
            self.addCleanup(folder.rmdir)
        pods = [pod_message(sandbox, uid=uid, annotations=IN), pod_message("b" * 64, name="web-1", annotations=IN)]
        present = [device_message("/dev/infiniband/uverbs0", 231, 192, 0o600, SIDECAR)]
        self.connected("--cgroup-root", str(cgroup_root()),
                       pods=pods, containers=[container_message(sandbox, pid=1, ident=container),
                                              container_message(sandbox, name="app", pid=1),
                                              container_message("b" * 64, devices=present, pid=1)])
        self.see('nri event=rnic_not_given_late pod=shop/web-0 what="the process belongs to another container" hint=')
        self.metric('fairlead_node_rnic_late_total{result="failed"} 1')
        self.metric('fairlead_node_rnic_late_total{result="given"} 0')
        self.assertNotIn("web-1", self.log.read_text())

    def test_other_modes_ask_nothing_of_the_runtime(self):
        runtime = self.runtime()
        runtime.listener.settimeout(0)
        for mode in ("resource", "claim", "none"):
            agent = self.start_agent("--rnic-access", mode)
            # The agent is ready, so it would already have connected to the runtime.
            self.assertRaises(BlockingIOError, runtime.connection)
            self.assertNotIn("nri_connected", self.get("/metrics")[1])
            agent.kill()
            agent.wait()


class NeverInTheWay(NriTest):
    """The four ways in which a plugin prevents the start of a container, and those in which it delays one."""

    def test_no_answer_is_an_error(self):
        _, _, runtime = self.connected()
        for payload in (b"", b"\xff\xff", b"\x0a\x7f", encode({1: b"\xff", 2: b"\xff"}),
                        encode({1: pod_message("../../x", annotations=IN), 2: container_message("../../x")})):
            runtime.call("CreateContainer", payload)
        runtime.call("Synchronize", b"\xff")
        runtime.call("Configure", b"\xff")

    def test_leaves_alone_what_another_plugin_has_set(self):
        """Also another agent: two of them run for a moment in a rolling update with surge."""
        _, _, runtime = self.connected()
        theirs = [device_message("/dev/infiniband/uverbs0", 231, 192, 0o600, SIDECAR)]
        made = runtime.create(pod_message("a" * 64, annotations=IN),
                              container_message("a" * 64, devices=theirs, rlimits=[(MEMLOCK, UNLIMITED)]))
        self.assertEqual((made.devices, made.rlimits), ([], []))
        self.metric('fairlead_node_rnic_access_total{result="already_granted"} 1')

    def test_asks_for_no_limit_that_the_runtime_cannot_set(self):
        """This process is the runtime; without the right to raise limits, its own hard limit is the maximum."""
        before = resource.getrlimit(resource.RLIMIT_MEMLOCK)
        if may_raise_limits():
            self.skipTest("this process may raise limits")
        if before[1] == resource.RLIM_INFINITY:
            resource.setrlimit(resource.RLIMIT_MEMLOCK, (1 << 20, 1 << 20))
        hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
        _, _, runtime = self.connected()
        for memory, rlimits in ((0, []), (hard + 1, []), (hard, [(MEMLOCK, hard, hard)])):
            made = runtime.create(pod_message("a" * 64, annotations=IN), container_message("a" * 64, memory=memory))
            self.assertEqual((len(made.devices), made.rlimits), (1, rlimits))

    def test_asks_for_nothing_that_validators_look_at(self):
        """Adjustment refuses all fields but devices and limits; a hundred variants of a sidecar cause no other field."""
        _, _, runtime = self.connected()
        for number in range(100):
            container = container_message("a" * 64, uid=None if number % 2 else SIDECAR, memory=number << 20)
            runtime.create(pod_message("a" * 64, name=f"web-{number}", annotations={**IN, "x": "y" * 100 * number}),
                           container)

    def test_connects_again_when_the_runtime_has_been_away(self):
        runtime, _, connection = self.connected()
        connection.close()
        runtime.stop()
        self.metric("fairlead_node_nri_connected 0")
        self.see("nri event=not_connected")
        runtime.start()
        again = runtime.connection()
        again.accept()
        self.assertEqual(len(again.create(pod_message("a" * 64, annotations=IN), container_message("a" * 64)).devices), 1)
        self.metric("fairlead_node_nri_registrations_total 2")

    def test_runtime_without_the_interface_is_no_trouble(self):
        self.start_agent()
        self.see("nri event=not_connected")
        self.assertEqual(self.get("/readyz")[0], 200)
        self.assertEqual(self.get("/livez")[0], 200)
        runtime = self.runtime()
        runtime.connection().accept()

    def test_runtime_that_speaks_nonsense_or_stops_in_the_middle(self):
        runtime = self.runtime()
        self.start_agent()
        for nonsense in (b"\xff" * 64, b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0\0\0\1\0\0\0\xff", b""):
            connection = runtime.connection()
            connection.registration()
            connection.peer.sendall(nonsense)
            connection.close()
        connection = runtime.connection()
        connection.accept()
        connection.begin("CreateContainer", encode({1: pod_message("a" * 64, annotations=IN)})[:-3])
        connection.close()
        connection = runtime.connection()
        connection.accept()
        self.assertEqual(self.get("/livez")[0], 200)

    def test_refused_registration_is_told_and_tried_again(self):
        runtime = self.runtime()
        self.start_agent()
        connection = runtime.connection()
        stream, said = connection.registration()
        self.assertEqual((said[1], said[2]), ("fairlead", "90"))
        connection.send(2, stream, 2, encode({1: {1: 7, 2: "no"}}))
        self.see("registration refused by the runtime")
        runtime.connection().accept()


if __name__ == "__main__":
    main()
