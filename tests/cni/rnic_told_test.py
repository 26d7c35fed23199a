"""Goal: a sidecar without an RNIC reports the reason that its node gave, and follows its changes. Method: a real
sidecar in a wired pod; the test writes the note in the node side's format."""
import subprocess

import plugin
import wired
from wired import harness


class Told(wired.WiredTest):
    def test_devices_doctor_and_connections_say_what_the_node_said(self):
        pod = self.wired_pod(plugin.IN)
        note = pod.alias()
        server = self.wired_pod({})
        self.redis(server)
        proxy = self.sidecar(pod, "one", {"devices": {"shm": {"enabled": False}, "verbs": {"enabled": "auto"}}})
        if any(row["kind"] == "verbs" for row in proxy.get_json("/devices")["devices"]):
            self.skipTest("this machine has an RNIC")
        for access, reason, words in (("namespace", "rnic_not_given", "gives no RNICs to pods of this namespace"),
                                      ("no_rnic", "no_rdma_device", "no RNIC of this pod's network"),
                                      ("foreign", "rnic_not_given", "not the sidecar as the injection makes it"),
                                      ("shared_processes", "rnic_not_given", "other containers see the sidecar's process"),
                                      ("pnet_namespace", "rnic_not_given", "not for pods of this namespace"),
                                      # removed between the node's decision and the sidecar's start
                                      ("granted", "rnic_not_given", "the node gave an RNIC"),
                                      ("late_failed", "rnic_not_given", "restart the pod")):
            pod.inside("ip", "link", "set", "lo", "alias", f"{note};access={access}")

            def told(words=words):
                rows = proxy.get_json("/devices")["devices"]
                return any(row["state"] == "absent" and words in row["detail"] for row in rows)
            harness.wait_until(told, f"the sidecar to say {access}", 30)
            subprocess.run(pod.command_in_cgroup("redis-cli", "-h", server.address(), "PING"), check=True, capture_output=True,
                           timeout=harness.seconds(60))
            self.assertEqual(proxy.get_json("/why")["decisions"][0]["reason"], reason)
            checks = {check["name"]: check for check in proxy.get_json("/doctor")["checks"]}
            self.assertIn(words, checks["devices"]["finding"])
            self.assertNotIn('rnic="rnic"', proxy.get("/metrics"))
        pod.inside("ip", "link", "set", "lo", "alias", note)
        harness.wait_until(lambda: not any(row["state"] == "absent" for row in proxy.get_json("/devices")["devices"]),
                           "the sidecar to say nothing", 30)


if __name__ == "__main__":
    plugin.main()
