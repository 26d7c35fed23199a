"""Goal: whatever is in the environment, on standard input or below its run folder, the plugin answers with a
result or with an error that names the variable or file. It neither crashes nor waits without end, follows no
link out of its folder, and touches no other pod. Method: one row for each kind of nonsense."""
import fcntl
import json
import os
import re
import shutil
import socket
import time

from plugin import IN, PluginTest, main, seconds

STRING_MAX = 131000  # of one variable; execve(2) allows 128 KiB
ANSWER_MAX = 20  # seconds, for a call that has nothing to wait for
OTHER_USER = 12345

HOSTILE_TEXTS = ["x" * STRING_MAX, "a\nb", "\x1b[2J\x07", "../../etc", "/" * 5000, "%2e%2e%2f", "a\x01b", "\udcff\udcfe",
                 "-rf", "$(reboot)", ";;;===;;", "{" * 1000, "\u202e\u200b"]


class Hostile(PluginTest):
    def setUp(self):
        super().setUp()
        self.other = self.pod()
        self.add(self.other)
        self.before = self.other.snapshot()
        self.kept = self.state(self.other)

    def tearDown(self):
        """The neighbour's pod and state are as they were."""
        self.assertEqual(self.other.snapshot(), self.before)
        self.assertEqual(self.state(self.other), self.kept)
        self.good("CHECK", self.other, IN)

    def timed(self, verb, pod=None, annotations=None, env=None, text=None, **changes):
        """A call that answers at once, in JSON if it fails, and writes only lines of JSON to stderr."""
        begun = time.monotonic()
        if text is None:
            text = json.dumps(self.config(pod, annotations, **changes))
        answer = self.raw(self.environment(verb, pod, **(env or {})), text)
        self.assertLess(time.monotonic() - begun, seconds(ANSWER_MAX))
        if answer.code != 0:
            self.assertTrue(answer.json["msg"].isprintable(), answer.json["msg"])
            self.assertLess(len(answer.stdout), 4096)
        for line in answer.stderr.splitlines():
            json.loads(line)
            self.assertTrue(line.isprintable(), line)
        return answer

    def folder(self, pod):
        return self.run_dir / "attachments" / pod.container

    def state_file(self, pod):
        return self.folder(pod) / "eth0.json"

    # The environment

    def test_every_variable_with_nonsense(self):
        pod = self.pod()
        before = pod.snapshot()
        for name in ("CNI_COMMAND", "CNI_CONTAINERID", "CNI_IFNAME"):
            for value in HOSTILE_TEXTS:
                # A name of an interface may be of any printable characters.
                if name == "CNI_IFNAME" and re.fullmatch("[!-.0-9;-~]{1,15}", value):
                    continue
                answer = self.timed("ADD", pod, IN, {name: value})
                self.assertEqual((answer.code, answer.json["code"]), (1, 4), (name, value[:20]))
                self.assertIn(f'{name}: "', answer.json["msg"])
        self.assertEqual(pod.snapshot(), before)

    def test_namespaces_that_are_none(self):
        pod = self.pod()
        before = pod.snapshot()
        pipe, plain = self.run_dir / "pipe", self.run_dir / "plain"
        os.mkfifo(pipe)
        plain.touch()
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self.run_dir / "socket"))
        self.addCleanup(listener.close)
        for path in [*HOSTILE_TEXTS, str(pipe), str(plain), str(self.run_dir / "socket"), str(self.run_dir),
                     "/proc/self/ns/pid", "/dev/zero", "/dev/tty", "relative", "/proc/self/fd/0"]:
            answer = self.timed("ADD", pod, IN, {"CNI_NETNS": path}, failClosed=True)
            self.assertEqual((answer.code, answer.json["code"]), (1, 100), path[:20])
            self.assertIn('CNI_NETNS: "', answer.json["msg"])
            for verb in ("CHECK", "DEL"):
                self.timed(verb, pod, IN, {"CNI_NETNS": path})
        self.assertEqual(pod.snapshot(), before)

    def test_arguments_and_path_with_nonsense(self):
        for value in HOSTILE_TEXTS:
            pod = self.pod(with_cgroup=False)
            for env in ({"CNI_ARGS": value}, {"CNI_PATH": value}, {f"CNI_{i}": value for i in range(8)},
                        {"CNI_ARGS": f"K8S_POD_NAME={value[:STRING_MAX - 200]};K8S_POD_NAMESPACE={value[:50]};"
                                     f"K8S_POD_UID={value[:50]}"}):
                self.timed("ADD", pod, IN, env)
                self.timed("ADD", pod, None, env)  # asks the node side
                self.timed("DEL", pod, IN, env)

    # Standard input

    def test_input_with_nonsense(self):
        pod = self.pod()
        before = pod.snapshot()
        deep = {}
        for _ in range(31):
            deep = {"a": deep}
        for key in ("name", "cniVersion", "runDir", "prevResult", "runtimeConfig", "ports", "pnet", "includeCIDRs"):
            for value in [*(text[:9000].encode("utf-8", "replace").decode() for text in HOSTILE_TEXTS), 7, -1, 1e300, True,
                          [], [[]], deep, ["x"] * 10000]:
                if key == "name" and isinstance(value, str):
                    continue
                for verb in ("ADD", "CHECK", "GC", "STATUS"):
                    given = {"cni.dev/valid-attachments": [{"containerID": self.other.container, "ifname": "eth0"}]}
                    self.timed(verb, pod, IN, **{**given, key: value})
        self.timed("DEL", pod, IN)
        self.assertEqual(pod.snapshot(), before)

    def test_waits_have_an_end(self):
        """Standard input that never ends, and the lock of a container that is never released."""
        pod = self.pod()
        self.folder(pod).mkdir(parents=True)
        lock = os.open(self.folder(pod), os.O_RDONLY)
        self.addCleanup(os.close, lock)
        fcntl.flock(lock, fcntl.LOCK_EX)
        begun = time.monotonic()
        endless, text = self.start(self.environment("ADD", pod), json.dumps(self.config(pod, IN)))
        locked, _ = self.start(self.environment("ADD", pod), "")
        locked.stdin.write(json.dumps(self.config(pod, IN, failClosed=True)).encode())
        locked.stdin.close()
        endless.stdin.write(text[:10])
        endless.stdin.flush()
        for process, code, word in ((endless, 5, "no end within"), (locked, 105, pod.container)):
            answer = json.loads(process.stdout.read())
            self.assertEqual(answer["code"], code, answer)
            self.assertIn(word, answer["msg"])
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                stream.close()
        self.assertLess(time.monotonic() - begun, seconds(60))

    # The run folder

    def replacements(self, outside):
        """Kinds of things in place of a file; each takes its path."""
        def listen(path):
            listener = socket.socket(socket.AF_UNIX)
            # The path may be too long for an address.
            here = os.open(path.parent, os.O_RDONLY)
            listener.bind(f"/proc/self/fd/{here}/{path.name}")
            os.close(here)
            self.addCleanup(listener.close)

        def other_owner(path):
            path.touch()
            os.chown(path, OTHER_USER, OTHER_USER)

        of_other = self.state_file(self.other).read_text(encoding="utf-8")
        damaged = {"containerID": 5, "ifname": [], "netns": {}, "netnsInode": -1, "redirect": {"a": 1}, "problems": [[]],
                   "format": 1, "finished": "yes", "optionCgroup": 7, "clientAddressMap": 1 << 60}
        return {
            "folder": lambda path: path.mkdir(), "pipe": os.mkfifo, "socket": listen, "other owner": other_owner,
            "link": lambda path: path.symlink_to(outside), "dangling link": lambda path: path.symlink_to("/nonexistent/x"),
            "link to itself": lambda path: path.symlink_to(path.name),
            "link to another's": lambda path: path.symlink_to(self.state_file(self.other)),
            "copy of another's": lambda path: path.write_text(of_other, encoding="utf-8"),
            "device": lambda path: os.mknod(path, 0o20600, os.makedev(1, 5)),
            "empty": lambda path: path.touch(), "cut": lambda path: path.write_text(of_other[:100], encoding="utf-8"),
            "huge": lambda path: path.write_bytes(b"{" + b" " * (4 << 20) + b"}"),
            "deep": lambda path: path.write_text("[" * 100000, encoding="utf-8"),
            "not text": lambda path: path.write_bytes(bytes(range(256)) * 16),
            "wrong types": lambda path: path.write_text(json.dumps(damaged), encoding="utf-8"),
        }

    def test_states_of_all_kinds(self):
        outside = self.run_dir / "outside"
        outside.write_text("{}", encoding="utf-8")
        for kind, make in self.replacements(outside).items():
            for fresh in (False, True):
                with self.subTest(kind=kind, fresh=fresh):
                    pod = self.pod()
                    self.add(pod)
                    path = self.folder(pod) / " new" if fresh else self.state_file(pod)
                    path.unlink(missing_ok=True)
                    make(path)
                    checked = self.timed("CHECK", pod, IN)
                    if not fresh:
                        self.assertEqual((checked.code, checked.json["code"]), (1, 105), checked.stdout)
                        self.assertIn("state: ", checked.json["msg"])
                    self.timed("ADD", pod, IN)
                    self.timed("GC", **{"cni.dev/valid-attachments": [
                        {"containerID": one.container, "ifname": "eth0"} for one in (pod, self.other)]})
                    self.assertEqual(self.timed("DEL", pod, IN).code, 0)
                    self.assertEqual(outside.read_text(encoding="utf-8"), "{}")
                    if path.exists() and path.is_dir():
                        path.rmdir()

    def test_an_ignored_state_is_in_the_log(self):
        pod = self.pod()
        self.add(pod)
        self.state_file(pod).write_text("{}", encoding="utf-8")
        lines = [line for line in self.timed("DEL", pod, IN).events() if line["event"] == "state_ignored"]
        self.assertEqual([(line["container"], line["interface"]) for line in lines], [(pod.container, "eth0")])
        self.assertIn("format", lines[0]["what"])

    def test_folders_of_all_kinds(self):
        """In place of a container's folder, and of the folder of all containers."""
        outside = self.run_dir / "outside"
        outside.mkdir()
        (outside / "eth0.json").write_text(self.state_file(self.other).read_text(encoding="utf-8"), encoding="utf-8")
        held = self.run_dir / "held"
        for kind, make in self.replacements(outside).items():
            if kind == "folder":
                continue
            for everything in (False, True):
                with self.subTest(kind=kind, everything=everything):
                    pod = self.pod()
                    path = self.run_dir / "attachments" if everything else self.folder(pod)
                    if everything:
                        shutil.copytree(path, held)
                        made = self.replacements(outside)[kind]
                        shutil.rmtree(path)
                        path.parent.mkdir(exist_ok=True)
                        if "another's" in kind:
                            path.symlink_to(held)
                        else:
                            made(path)
                    else:
                        make(path)
                    answer = self.timed("ADD", pod, IN, failClosed=True)
                    self.assertEqual((answer.code, answer.json["code"]), (1, 105), answer.stdout)
                    self.assertIn("state: ", answer.json["msg"])
                    self.assertEqual(self.timed("DEL", pod, IN).code, 0)
                    self.timed("CHECK", pod, IN)
                    self.timed("GC", **{"cni.dev/valid-attachments": [
                        {"containerID": self.other.container, "ifname": "eth0"}]})
                    if path.is_symlink() or not path.is_dir():
                        path.unlink()
                    if everything:
                        shutil.rmtree(path, ignore_errors=True)
                        held.rename(path)
                    self.assertEqual([entry.name for entry in outside.iterdir()], ["eth0.json"])

    def test_a_folder_of_another_user(self):
        pod = self.pod()
        self.folder(pod).mkdir()
        os.chown(self.folder(pod), OTHER_USER, OTHER_USER)
        answer = self.timed("ADD", pod, IN, failClosed=True)
        self.assertEqual((answer.code, answer.json["code"]), (1, 105), answer.stdout)
        self.assertIn(f"user {OTHER_USER}", answer.json["msg"])

    def test_sockets_of_all_kinds(self):
        """In place of agent.sock and log.sock."""
        outside = self.run_dir / "outside"
        outside.touch()
        for name in ("agent.sock", "log.sock"):
            for kind, make in self.replacements(outside).items():
                with self.subTest(name=name, kind=kind):
                    path = self.run_dir / name
                    make(path)
                    pod = self.pod(with_cgroup=False)
                    self.assertEqual(self.timed("ADD", pod).json, pod.previous_result())
                    self.timed("DEL", pod, IN)
                    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()

    # A stranger in place of the node side

    def play_agent(self, answer, user=0):
        """Listens on agent.sock as that user, in a process of its own."""
        path = self.run_dir / "agent.sock"
        ready, told = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                listener.bind(str(path))
                os.setresuid(user, user, user)
                listener.listen(4)
                os.write(told, b"1")
                while True:
                    accepted, _ = listener.accept()
                    answer(accepted)
            finally:
                os._exit(0)  # pylint: disable=protected-access
        self.assertEqual(os.read(ready, 1), b"1")
        os.close(ready)
        os.close(told)

        def stop():
            os.kill(child, 9)
            os.waitpid(child, 0)
            path.unlink()
        return stop

    def test_strangers_that_answer(self):
        def lingering(accepted):
            accepted.recv(1 << 16)
            listener = socket.create_server(("127.0.0.1", 0))
            held = socket.create_connection(listener.getsockname())
            held.setblocking(False)
            try:
                while held.send(b"x" * 65536):
                    pass
            except BlockingIOError:
                pass
            held.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\x3c\0\0\0")
            try:
                socket.send_fds(accepted, [b"{}"], [held.fileno()])
            except PermissionError:  # the plugin's socket refuses descriptors, since Linux 6.16
                accepted.send(b"{}")
            kept.extend([accepted, listener, held])

        def say(data):
            def answer(accepted):
                accepted.recv(1 << 16)
                accepted.send(data)
            return answer

        kept = []
        opted_in = json.dumps({"annotations": IN}).encode()
        rows = {"never": kept.append, "ends at once": lambda accepted: accepted.close(),
                "nonsense": say(b"\xff\x00{"), "deep": say(b"[" * 100000), "long": say(b'"' + b"x" * 150000 + b'"'),
                "types": say(b'{"annotations": [1], "cgroup": {}}'), "descriptors": lingering,
                "path": say(json.dumps({"annotations": {}, "cgroup": "/../../etc"}).encode())}
        for name, answer in rows.items():
            with self.subTest(name):
                stop = self.play_agent(answer)
                pod = self.pod()
                before = pod.snapshot()
                self.assertEqual(self.timed("ADD", pod).json, pod.previous_result())
                self.assertEqual(pod.snapshot(), before)
                stop()
        with self.subTest("another user"):
            stop = self.play_agent(say(opted_in), OTHER_USER)
            pod = self.pod()
            before = pod.snapshot()
            self.assertEqual(self.timed("ADD", pod).json, pod.previous_result())
            self.assertEqual(pod.snapshot(), before)
            stop()
        stop = self.play_agent(say(opted_in))
        pod = self.pod()
        self.timed("ADD", pod)
        self.assert_set_up(pod)
        stop()


if __name__ == "__main__":
    main()
