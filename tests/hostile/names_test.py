"""Goal: no word of a command line reaches a terminal, the path of a URL or a file of another folder as it is, for every
option and positional of every program. Method: the options come from the programs' own --help, so that new ones are
covered; each gets each hostile value. With sanitizers, which make a start several times as long, each gets a fifth of
them, and another fifth than the one before. A played proxy records what it is asked for.

Environment: FAIRLEAD_BIN, the folder of fairlead-proxy and fairleadctl; FAIRLEAD_CNI, FAIRLEAD_NODE, FAIRLEAD_INJECTOR."""
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

sys.path.insert(1, str(Path(__file__).parents[1]))

from suite import SLOWNESS, main, seconds  # pylint: disable=wrong-import-position

ROOT = Path(__file__).parents[2]
BIN = Path(os.environ.get("FAIRLEAD_BIN", ROOT / "build/dev/proxy"))
CNI = Path(os.environ.get("FAIRLEAD_CNI", ROOT / "build/dev/cni/fairlead-cni"))
NODE = Path(os.environ.get("FAIRLEAD_NODE", ROOT / "build/dev/cni/fairlead-node"))
INJECTOR = Path(os.environ.get("FAIRLEAD_INJECTOR", ROOT / "build/dev/injector/fairlead-injector"))

SECONDS_MAX = 30
OUTPUT_MAX = 8192
LONGEST = 130000  # execve(2) allows 128 KiB a word

# Refused before the program looks at them.
CONTROL = {b"a\x1b[2Jb": "escape", b"a\nb": "line", b"a\rb": "return", b"a\x07": "bell", b"a\x7f": "delete",
           b"\xff\xfe": "no UTF-8", b"\xc2\x9b2J": "C1", "\u202eabc".encode(): "direction", b"a" * LONGEST: "long",
           b"--" + b"b" * LONGEST: "long option", b"\xed\xa0\x80": "surrogate", b"\xc0\xaf": "overlong"}
# No names of anything in Kubernetes.
TRAVERSAL = [b"../../x", b"a/b", b"x?y=1", b"%2e%2e", b"a#b", b"..", b".", b"a..b", b"-", b"-rf", b"A_B", b" ", b"a b",
             b"a" * 254, b"x;y", b"$(id)"]
OTHERS = [b"", b"x" * 20000, b"https://[::1", "j\u00fcrgen".encode(), b"{" * 100]

# The values of one option or positional are every STRIDE-th.
STRIDE = 5 if SLOWNESS > 1 else 1

# Options that name an object of Kubernetes, by their names.
IS_NAME = re.compile(r"namespace|node-name|--secret|--service|--webhook|daemonsets")
# Folders that fairlead-node changes or removes: only absolute ones, without "..".
IS_OWN_FOLDER = re.compile(r"--(bin|conf|run)-dir|--cgroup-root")
OPTION = re.compile(r"^  ((?:-\w,)?--[\w-]+|-\w)(?: ([A-Z][^ ]*))?(?: |$)", re.M)
POSITIONAL = re.compile(r"^  (\w+)(?: [A-Z]+)?(?:\s|$)", re.M)


def section(text, name):
    found = re.search(rf"^{name}:\n((?:  .*\n|\n(?=  ))*)", text, re.M)
    return found.group(1) if found else ""


class PlayedProxy:
    """Answers every request with an empty object, and records the first lines."""
    def __init__(self, path):
        self.asked = []
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen(64)
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            try:
                accepted, _ = self.listener.accept()
            except OSError:
                return
            with accepted:
                self.asked.append(accepted.recv(1 << 20).split(b"\r\n")[0])
                accepted.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")


class HostileNames(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="fl-names-")
        self.addCleanup(folder.cleanup)
        self.top = Path(folder.name)
        # So deep that paths with ".." stay below it.
        self.folder = self.top / "a/b/c/d"
        for name in ("bin", "conf"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        (self.folder / "valid.yaml").write_text("log:\n  level: info\n", encoding="utf-8")
        self.proxy = PlayedProxy(self.top / "admin.sock")
        self.addCleanup(self.proxy.listener.close)
        self.runs = 0
        self.checked = 0  # options and positionals

    def run_program(self, words):
        keep = {name: value for name, value in os.environ.items()
                if not name.startswith(("FAIRLEAD_", "CNI_", "KUBE")) or name.endswith("SLOWNESS")}
        # Names from the environment of a test machine must not stand in for options.
        for name in ("NODE_NAME", "NAMESPACE"):
            keep.pop(name, None)
        environment = {**keep, "FAIRLEAD_ADMIN": f"unix:{self.top}/admin.sock", "HOME": str(self.folder)}
        self.runs += 1
        return subprocess.run(words, cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=seconds(SECONDS_MAX), check=False)

    def help_of(self, command):
        done = self.run_program([*command, "--help"])
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.decode()

    def attempt(self, command, name, value, words):
        """Runs it, and returns (code, standard error) after the checks that hold for every value."""
        done = self.run_program(words)
        where = (command[1:], name, value[:30], done.returncode, done.stdout[:300], done.stderr[:300])
        self.assertGreaterEqual(done.returncode, 0, where)
        self.assertLess(len(done.stdout) + len(done.stderr), OUTPUT_MAX, where)
        for stream in (done.stdout, done.stderr):
            text = stream.decode("utf-8")  # what is printed is UTF-8
            self.assertTrue(all(c in "\n\t" or c.isprintable() for c in text), where)
        return done.returncode, done.stderr.decode(), where

    def check_value(self, command, name, make_words, is_name):
        """`make_words` of a value: the whole command line."""
        shown = name.split(",")[-1]
        self.checked += 1
        for value in [*CONTROL, *TRAVERSAL, *OTHERS][self.checked % STRIDE::STRIDE]:
            code, error, where = self.attempt(command, name, value, make_words(value))
            if value in CONTROL or (is_name and value in TRAVERSAL and not value.startswith(b"-")):
                self.assertNotEqual(code, 0, where)
                self.assertIn("allowed", error, where)
                # The name of a positional stands in no word in front of it.
                if name.startswith("-"):
                    self.assertTrue(shown in error or name.split(",")[0] in error, where)
                self.assertIn('"', error, where)

    def check_command(self, command, good):
        """`good`: values that make the command end soon, by option; "" has words for positionals."""
        text = self.help_of(command)
        options = [(names, kind) for names, kind in OPTION.findall(section(text, "Options")) if kind]
        positionals = POSITIONAL.findall(section(text, "Positionals"))

        def words(tested, value):
            kept = [w for option, given in good.items() if option and option not in tested.split(",")
                    for w in [option, given]]
            places = list(good.get("", []))
            if tested in positionals:
                places[positionals.index(tested):positionals.index(tested) + 1] = [value]
                return [*command, *kept, *places]
            # One word, so that a value with "-" in front is a value.
            option = tested.split(",")[-1].encode()
            together = [option + b"=" + value] if option.startswith(b"--") else [option, value]
            return [*command, *kept, *together, *places]

        for names, _ in options:
            self.check_value(command, names, lambda value, names=names: words(names, value),
                             bool(IS_NAME.search(names) or command[0] == NODE and IS_OWN_FOLDER.search(names)))
            # As two words, too.
            long_name = names.split(",")[-1]
            self.check_value(command, long_name, lambda value, names=names, long_name=long_name: [
                w for word in words(names, value)
                for w in ([long_name, value] if word == long_name.encode() + b"=" + value else [word])], False)
        for place in positionals:
            self.check_value(command, place, lambda value, place=place: words(place, value), bool(IS_NAME.search(place)))
        return options, positionals

    def subcommands(self, program):
        return re.findall(r"^  ([a-z][\w-]*)", section(self.help_of([program]), "Subcommands"), re.M)

    def test_proxy(self):
        # Ends by the wrong level where the tested option alone would start a proxy.
        options, _ = self.check_command([BIN / "fairlead-proxy"], {"--set": "log.level=nonsense"})
        self.assertGreaterEqual(len(options), 3)
        self.check_value([BIN / "fairlead-proxy"], "--set", lambda value: [
            BIN / "fairlead-proxy", "--validate", "valid.yaml", b"--set=log.level=" + value], False)

    def test_injector(self):
        options, _ = self.check_command([INJECTOR], {"--settings": "missing.json"})
        self.assertGreaterEqual(len(options), 8)

    def test_node(self):
        places = {"--bin-dir": str(self.folder / "bin"), "--conf-dir": str(self.folder / "conf"),
                  "--run-dir": str(self.folder / "run")}
        # Nonsense as settings ends the command before it does anything.
        plugin = {**places, "--plugin": str(CNI), "--settings": "{"}
        good = {"run": {**plugin, "--listen": ""}, "install": plugin, "uninstall": {**places, "--cgroup-root": str(self.folder / "bin")},
                "broker": {"--run-dir": str(self.folder / "missing/run"), "--netns-dir": "/missing"},
                "withdraw": {"--namespace": "x", "": ["x"]}, "gc": places}
        found = self.subcommands(NODE)
        self.assertLessEqual(set(good), set(found))
        for name in found:
            self.check_command([NODE, name], good.get(name, {}))

    def test_ctl(self):
        good = {"port": {"": ["shm0", "1", "up"]}, "echo": {"--wait": "0.1", "": ["127.0.0.1"]},
                "inject": {"--file": "missing.yaml"}, "docs": {"": ["reasons"]}, "completion": {"": ["bash"]},
                "log-level": {"": ["info"]}, "why": {"": ["10.0.0.1"]}, "check": {"--kubeconfig": "missing"},
                "status": {"--kubeconfig": "missing"}, "stats": {"--times": "1"}}
        ctl = BIN / "ctl/fairleadctl"
        found = self.subcommands(ctl)
        self.assertGreater(len(found), 12)
        positionals = 0
        for name in found:
            positionals += len(self.check_command([ctl, name], good.get(name, {}))[1])
        self.assertGreater(positionals, 3)
        # The options of all commands.
        options = [names for names, kind in OPTION.findall(section(self.help_of([ctl]), "Options")) if kind]
        self.assertGreaterEqual(len(options), 3)
        for names in options:
            option = names.split(",")[-1].encode()
            self.check_value([ctl], names, lambda value, option=option: [ctl, option + b"=" + value, "devices"], False)
        self.assertTrue(self.proxy.asked)
        for line in self.proxy.asked:
            self.assertRegex(line, rb"^(GET|POST) (/[a-z]+)?/?(\?[a-z]+=[\w.:%~-]*(&[a-z]+=[\w.:%~-]*)*)? HTTP/1.1$")

    def test_a_kubeconfig_with_a_hostile_namespace(self):
        for name in ("..", "a/b", "x?y", "%2e%2e", "a#b", "-x", "a..b"):
            (self.folder / "config").write_text(
                "apiVersion: v1\ncurrent-context: c\ncontexts:\n- name: c\n  context: {cluster: k, user: u, "
                f"namespace: \"{name}\"}}\nclusters:\n- name: k\n  cluster: {{server: \"https://127.0.0.1:1\"}}\n"
                "users:\n- name: u\n  user: {token: t}\n", encoding="utf-8")
            done = self.run_program([BIN / "ctl/fairleadctl", "check", "--kubeconfig", "config"])
            self.assertEqual(done.returncode, 2, done)
            self.assertIn(b"no name of a namespace", done.stderr)

    def test_the_plugin_as_a_command(self):
        for value in [*CONTROL, *TRAVERSAL, *OTHERS]:
            code, _, where = self.attempt([CNI], "", value, [CNI, value])
            self.assertEqual(code, 64, where)

    def tearDown(self):
        print(f"{self._testMethodName}: {self.runs} runs")
        # Nothing was made beside the folder of the test.
        self.assertLessEqual({entry.name for entry in self.top.iterdir()}, {"a", "admin.sock"})


if __name__ == "__main__":
    main()
