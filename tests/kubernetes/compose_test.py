#!/usr/bin/env python3
"""docker/compose.yaml is valid, and the proxy accepts its settings: compose_test.py <folder of fairlead-proxy>"""
import ipaddress
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

import yaml

sys.path.insert(1, str(Path(__file__).parents[1]))

from suite import main  # pylint: disable=wrong-import-position

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docker" / "compose.yaml"
IMAGE_CONFIG = "/etc/fairlead/"  # where docker/collect.sh puts config/
PROXY = Path(sys.argv.pop(1)) / "fairlead-proxy"
NODE = PROXY.parents[1] / "cni/fairlead-node"


class Compose(unittest.TestCase):
    def setUp(self):
        self.compose = yaml.safe_load(FILE.read_text())
        self.services = self.compose["services"]
        self.proxies = {name: service for name, service in self.services.items() if name.endswith("-proxy")}

    def test_docker_compose_takes_it(self):
        if shutil.which("docker-compose") is None:
            self.skipTest("docker-compose is not installed; scripts/bootstrap.sh k8s")
        done = subprocess.run(["docker-compose", "--file", FILE, "config", "--quiet"], check=False, capture_output=True,
                              text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_proxies_understand_their_settings(self):
        self.assertEqual(len(self.proxies), 2)
        for name, service in self.proxies.items():
            flag, path = service["command"]
            self.assertEqual(flag, "--config")
            self.assertTrue(path.startswith(IMAGE_CONFIG), path)
            done = subprocess.run([PROXY, "--validate", ROOT / "config" / path.removeprefix(IMAGE_CONFIG)],
                                  env=service["environment"], check=False, capture_output=True, text=True, timeout=60)
            self.assertEqual((done.returncode, "ignored" in done.stderr), (0, False), name + done.stdout + done.stderr)

    def test_the_broker_understands_its_command(self):
        broker = self.services["broker"]
        (volume,) = broker["volumes"]
        self.assertEqual(broker["command"][1:3], ["--netns-dir", volume["target"]])
        command = [word.replace("/run/", "/nowhere/run/") for word in broker["command"]]
        done = subprocess.run([NODE, *command], check=False, capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (1, "fairlead-node: /nowhere/run/broker: No such file or directory\n"))

    def test_proxies_meet_where_the_file_says(self):
        subnet = ipaddress.ip_network(self.compose["networks"]["default"]["ipam"]["config"][0]["subnet"])
        listeners = {}
        for name, service in self.proxies.items():
            self.assertEqual(service["image"], "fairlead")
            self.assertEqual(ipaddress.ip_network(service["environment"]["FAIRLEAD_SMC_ASSUME"]), subnet)
            kind, pod = service["network_mode"].split(":")
            self.assertEqual((kind, name), ("service", f"{pod}-proxy"))
            (listener,) = yaml.safe_load(service["environment"]["FAIRLEAD_LISTENERS"])
            address = ipaddress.ip_address(self.services[pod]["networks"]["default"]["ipv4_address"])
            self.assertIn(address, subnet)
            listeners[listener["direction"]] = (address, listener)
        server, inbound = listeners["inbound"]
        self.assertEqual(listeners["outbound"][1]["upstream"], f"{server}:{inbound['listen'].split(':')[1]}")


if __name__ == "__main__":
    main()
