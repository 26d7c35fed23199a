"""A Fairlead proxy inside a guest. It runs as a user without any capability. The option program is attached to its
cgroup from outside. Tests query its admin interface."""
import json
import re
import signal
import sys

from expect import Failed, expect, expect_equal, wait_until
from node import BUILD, ROOT

sys.path.insert(0, str(ROOT / "tests/integration"))
from metrics import Metrics  # noqa: E402  lives beside the other tests of programs

PROXY = BUILD / "proxy/fairlead-proxy"
OTHER_DEVICES_PROXY = BUILD / "tests/integration/other_devices_proxy"
ATTACH = BUILD / "tests/lab/option_attach"
UID = 2201
CRASH_WORDS = re.compile(r"assertion failed|Sanitizer|runtime error:|terminate called")


def attach_option_program(node, cgroup="fairlead"):
    """Does the work of the node side for the proxies in the cgroup."""
    folder = f"/sys/fs/cgroup/{cgroup}"
    node.run(["mkdir", "-p", folder])
    log = f"attach.{node.name}.log"
    (node.folder / log).unlink(missing_ok=True)
    attach = node.start([ATTACH, folder, UID], log=log)
    path = node.folder / log
    wait_until(lambda: not attach.running or "attached" in (path.exists() and path.read_text() or ""),
               "the option program")
    expect(attach.running, f"the option program is not attached: {path.read_text()}")
    return attach


class GuestProxy:
    """One fairlead-proxy in a guest; `options` change its configuration, `how` its process."""

    def __init__(self, node, name, listeners, options=None, netns=None, **how):
        self.node, self.name, self.netns = node, name, netns
        config = {"concurrency": 1, "listeners": listeners,
                  "smc": {"option_program": "external", "defer_bytes": 0},
                  "devices": {"shm": {"enabled": False}},
                  "admin": {"listen": "", "socket": f"@fairlead-{name}"}, "drain": {"timeout": "2s"},
                  "log": {"level": "debug"}}
        for key, value in (options or {}).items():
            both = isinstance(value, dict) and isinstance(config.get(key), dict)
            config[key] = {**config[key], **value} if both else value
        other = config.pop("other_devices", None)
        program = ["/usr/bin/env", f"OTHER_DEVICES={other}", OTHER_DEVICES_PROXY] if other else [PROXY]
        path = node.folder / f"{name}.yaml"
        path.write_text(json.dumps(config, indent=1))  # JSON is YAML
        self.log_path = node.folder / f"{name}.log"
        self.log_path.unlink(missing_ok=True)
        self.expected_exit = 0
        self.process = node.start([*program, "-c", f"/tmp/results/{path.name}"], uid=UID,
                                  cgroup="fairlead", log=self.log_path.name,
                                  **({"netns": netns} if netns else {}), **how)
        wait_until(lambda: not self.process.running or " event=ready " in self.log(),
                   f"{name} to become ready", 60)
        if not self.process.running:
            raise Failed(f"{name} does not start: {self.log()[-1500:]}")
        self.ports = {listener: int(port) for listener, port in re.findall(
            r"event=listening listener=(\S+) .*address=\S+:(\d+)", self.log())}
        self.admin = re.search(r"event=admin address=(\S+)", self.log()).group(1)

    def log(self):
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def get(self, path):
        status, body = self.node.call("system.ask", socket=self.admin, path=path,
                                      **({"netns": self.netns} if self.netns else {}))
        expect_equal(status, 200, f"{self.name} {path}")
        return body

    def get_json(self, path):
        return json.loads(self.get(path))

    def metrics(self):
        return Metrics(self.get("/metrics"))

    def expect_smcr(self, at_least=1):
        """Checks that everything used SMC-R."""
        metrics = self.metrics()
        expect_equal(metrics.fallbacks(), {}, f"fallbacks of {self.name}")
        expect_equal(metrics.connections("tcp"), 0, f"TCP connections of {self.name}")
        count = metrics.connections("smcr")
        expect(count >= at_least, f"{self.name}: {count:.0f} SMC-R connections, not {at_least}")
        return metrics

    def expect_fallback(self, reason, side):
        """Returns the only fallback so far."""
        def has():
            return self.metrics().fallbacks()
        wait_until(has, f"a fallback of {self.name}")
        expect_equal(has(), {(reason, side): 1}, f"fallbacks of {self.name}")
        expect_equal(self.metrics().connections("smcr"), 0, f"SMC-R connections of {self.name}")

    def wait_idle(self):
        def idle():
            metrics = self.metrics()
            return metrics.active() == 0 and metrics.value("fairlead_rmb_bytes", state="used") == 0
        wait_until(idle, f"the connections of {self.name} to end")

    def kill(self):
        self.expected_exit = -signal.SIGKILL
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(20)

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def finish(self):
        """Ends it; returns an error text, or None."""
        if self.process.running:
            self.terminate()
        code = self.process.wait(30)
        if CRASH_WORDS.search(self.log()):
            return f"{self.name} reports a bug in itself: {CRASH_WORDS.search(self.log()).group()}"
        if code != self.expected_exit:
            return f"{self.name} ended with {code}, not {self.expected_exit}"
        return None


def static(name, direction, upstream, listen="127.0.0.1:0"):
    return {"name": name, "direction": direction, "mode": "static", "listen": listen,
            "upstream": upstream}


def redirected(name, direction, port):
    return {"name": name, "direction": direction, "mode": "redirect", "listen": f"0.0.0.0:{port}"}
