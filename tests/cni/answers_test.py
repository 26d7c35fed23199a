"""Goal: if the runtime passes no annotations, as behind Multus, the pod gets the same setup by the answer of the
node side. The plugin does not wait for a missing answer. Method: clustered.py."""
import json
import socket

from clustered import FROM_API, RUNS, SECONDS_MAX, ClusterTest
from fake_api_server import filler
from plugin import IN, NO_REDIRECT, main, seconds, wait_until

BEYOND = 17 << 20  # bytes, more than the agent reads of a pod


class Answers(ClusterTest):
    def add_as_multus(self, pod, uid=None):
        answer = self.call_as_multus(pod, uid)
        self.assertEqual(answer.code, 0, answer.stdout + answer.stderr)
        return answer

    def answered_as_multus(self, pod):
        """Calls until the agent has answered: the plugin does not wait long, and a busy machine may take longer.
        Returns the last answer and the number of calls."""
        calls = 0

        def answered():
            nonlocal calls
            calls += 1
            answer = self.add_as_multus(pod)
            return None if "no_annotations" in [event["event"] for event in answer.events()] else answer
        return wait_until(answered, "an answer of the agent", SECONDS_MAX), calls

    def refused_as_multus(self, pod):
        answer = self.call_as_multus(pod, failClosed=True)
        return answer if answer.code != 0 else None

    def call_as_multus(self, pod, uid=None, **how):
        """Of the runtime's configuration it passes only CNI_ARGS to the delegate."""
        arguments = (f"IgnoreUnknown=true;K8S_POD_NAMESPACE=shop;K8S_POD_NAME={pod.name};"
                     f"K8S_POD_INFRA_CONTAINER_ID={pod.container};K8S_POD_UID={uid or '0000-' + pod.container}")
        return self.call("ADD", pod, runtimeConfig=None, logLevel="debug", env={"CNI_ARGS": arguments},
                         pnet=[{"id": "NETA", "rnics": ["mlx5_0/1"]}], cniVersion="0.3.1", **how)

    def test_tells_the_plugin_what_nobody_else_does(self):
        model = self.pod(("10.88.5.1/24",))
        self.add(model, pnet=[{"id": "NETA", "rnics": ["mlx5_0/1"]}])
        starting = {**RUNS, "started": False}
        pod = self.running_pod(("10.88.5.2/24",), annotations={**IN, "other/annotation": "x" * 200_000}, status=starting)
        plain = self.running_pod(("10.88.5.3/24",), annotations={}, status=starting)
        before = plain.snapshot()
        self.start_agent(*FROM_API)
        _, calls = self.answered_as_multus(pod)
        self.assert_set_up(pod)
        self.assertEqual((pod.redirect(), pod.alias()), (model.redirect(), model.alias()))
        (state,) = [state for state in self.states() if state["containerID"] == pod.container]
        self.assertEqual(state["problems"], [] if pod.cgroup else state["problems"])
        _, more_calls = self.answered_as_multus(plain)
        self.assertEqual(plain.snapshot(), before)
        self.assertEqual(self.api.asked, calls + more_calls)
        self.good("DEL", pod)
        self.assertEqual((pod.redirect(), pod.programs()), (NO_REDIRECT, []))
        # It does not answer for another pod of that name, nor for an unknown one.
        self.assertEqual(self.add_as_multus(pod, uid="of-another").events()[0]["event"], "no_annotations")
        with self.api.lock:
            self.api.pods.clear()
        self.assertEqual(self.add_as_multus(pod).events()[0]["event"], "no_annotations")
        self.assertEqual(pod.redirect(), NO_REDIRECT)

    def test_of_a_long_pod_the_metadata_is_enough(self):
        pod = self.running_pod(("10.88.5.4/24",), status={**RUNS, "started": False},
                               spec={"containers": [{"name": filler(BEYOND)}]})
        self.start_agent(*FROM_API)
        self.answered_as_multus(pod)
        self.assert_set_up(pod)

    def test_metadata_beyond_the_limit_is_not_taken_for_a_pod_without_sidecar(self):
        pod = self.running_pod(("10.88.5.5/24",), status={**RUNS, "started": False})
        with self.api.lock:
            self.api.pods[0]["metadata"]["labels"] = {"a": filler(BEYOND)}
        self.start_agent(*FROM_API)

        answer, _ = self.answered_as_multus(pod)
        self.assertEqual(answer.events()[0]["event"], "add_failed")
        self.assertIn("it is not known whether the pod has a sidecar: its metadata is 178", answer.events()[0]["what"])
        refused = wait_until(lambda: self.refused_as_multus(pod), "a refusal", SECONDS_MAX)
        self.assertEqual(refused.json["code"], 101)
        self.assertIn("16777216 are allowed", refused.json["msg"])
        self.assertEqual((pod.redirect(), self.states()), (NO_REDIRECT, []))
        self.assertIn("event=no_answer", self.log.read_text())

    def test_a_silent_api_server_holds_no_pod_up(self):
        pods = [self.running_pod((f"10.88.6.{number + 1}/24",), status={**RUNS, "started": False})
                for number in range(3)]
        self.start_agent(*FROM_API)
        with self.api.lock:  # which every answer needs
            for pod in pods:
                self.assertEqual(self.add_as_multus(pod).events()[0]["event"], "no_annotations")
        self.answered_as_multus(pods[0])
        self.assert_set_up(pods[0])
        for nonsense in (b"", b"{", b"[]", b'{"ask":"secrets","namespace":"shop","pod":"x"}', b'{"ask":"annotations"}',
                         b"[" * 4000):
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
                client.connect(str(self.run_dir / "agent.sock"))
                client.send(nonsense)
                client.settimeout(seconds(SECONDS_MAX))
                answer = client.recv(65536)
            self.assertIn("error", json.loads(answer or b'{"error": 1}'))
        self.assertEqual((self.run_dir / "agent.sock").stat().st_mode & 0o777, 0o600)


if __name__ == "__main__":
    main()
