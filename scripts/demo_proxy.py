"""One fairlead-proxy of the demo: starts it, waits for it and queries it."""
import json
import re
import time

from demo_scene import Failure, expect

SECONDS_TO_START = 30
SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)


class Proxy:
    def __init__(self, scene, name, ctl):
        self.scene = scene
        self.name = name
        self.log = scene.directory / f"{name}.log"
        self.socket = scene.directory / "run" / f"{name}.sock"
        self.ctl_command = [ctl, "--admin", f"unix:{self.socket}"]

    def start(self, command, settings):
        """Appends --config to `command`. The file is JSON, which is also YAML."""
        config = self.scene.write(f"{self.name}.yaml", json.dumps(dict(settings, **{
            "concurrency": 1,
            "devices": {"shm": {"broker": self.scene.broker}},
            "admin": {"listen": "", "socket": str(self.socket)},
            "drain": {"timeout": "1s"}}), indent=2) + "\n")
        process = self.scene.start(self.name, [*command, "--config", config])
        deadline = time.monotonic() + SECONDS_TO_START
        while True:
            try:
                self.get("/readyz")
                if "no broker has connected" not in self.get("/devices"):
                    return
            except Failure:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise Failure(f"the proxy of the {self.name} does not start: "
                                  + self.log.read_text()[-300:]) from None
            expect(time.monotonic() < deadline, f"the broker does not find the proxy of the {self.name}")
            time.sleep(0.05)

    def get(self, path):
        """An answer of the admin interface."""
        return self.scene.run(["curl", "-sSf", "--unix-socket", self.socket,
                               f"http://fairlead{path}"])

    def fact(self, name):
        """One self-check of the proxy: (status, finding)."""
        checks = json.loads(self.get("/doctor"))["checks"]
        return next((check["status"], check["finding"]) for check in checks
                    if check["name"] == name)

    def total(self, metric, **labels):
        """Sum of the samples of a metric that have these labels."""
        found = 0.0
        for name, text, value in SAMPLE.findall(self.get("/metrics")):
            has = dict(re.findall(r'(\w+)="([^"]*)"', text))
            if name == "fairlead_" + metric and labels.items() <= has.items():
                found += float(value)
        return int(found)
