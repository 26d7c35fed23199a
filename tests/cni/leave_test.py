"""Goal: the uninstallation leaves nothing on a node, and reports when all nodes are done. Method:
clustered.py; the test acts as the controller of the DaemonSets."""
import json
import os
import subprocess

from clustered import FROM_API, NODE, SECONDS_MAX, ClusterTest
from plugin import NO_REDIRECT, main, seconds


class Leave(ClusterTest):
    def test_a_node_is_left_without_a_trace(self):
        others = {"fairlead-pool": "a", "fairlead.io/other": "x"}
        self.api.labels = dict(others)
        before = {path.name: path.read_text() for path in self.conf.iterdir()}
        late = self.running_pod(("10.88.4.1/24",))
        agent = self.start_agent("--label-node", *FROM_API)
        self.wait(lambda: len(self.api.labels) == 4 and self.api.reasons(), "labels and repair")
        self.assert_set_up(late)
        agent.terminate()
        self.assertEqual(agent.wait(seconds(SECONDS_MAX)), 0)
        self.assertEqual(len(self.api.labels), 4)
        token = self.folder / "account" / "token"
        token.write_text("wrong")
        agent = self.start_agent("--label-node", *FROM_API, environment={"FAIRLEAD_LEAVE": "true"}, sign="not_left")
        self.assertFalse(self.ready())
        token.write_text("secret")
        self.wait(self.ready, "the node to be left")
        self.assertEqual(self.api.labels, others)
        self.assertEqual({path.name: json.loads(path.read_text()) for path in self.conf.iterdir()},
                         {name: json.loads(text) for name, text in before.items()})
        self.assertEqual((list(self.run_dir.iterdir()), list((self.folder / "bin").iterdir())), ([], []))
        self.assertEqual((late.redirect(), late.alias(), late.programs()), (NO_REDIRECT, "", []))
        self.assertEqual(len(self.api.reasons()), 1)  # and it is not repaired again
        agent.terminate()
        self.assertEqual(agent.wait(seconds(SECONDS_MAX)), 0)

    def withdraw(self, *words):
        done = subprocess.run([NODE, "withdraw", "--namespace", "fl", *words], capture_output=True, text=True,
                              env={**os.environ, **self.api.environment()}, timeout=seconds(60), check=False)
        return done.returncode, done.stderr

    def test_all_nodes_are_left_before_it_says_so(self):
        self.api.sets = {"a": [3, [0, 2, 3]], "b": [0, [0]]}
        code, log = self.withdraw("a", "b", "gone")
        self.assertEqual((code, log.count("event=all_left"), log.count("nodes=3 left=3")), (0, 3, 1), log)
        self.assertEqual(self.api.sets["a"][1], [3])
        self.assertEqual([name for name, _ in self.api.patches], ["a", "b"])
        spec = self.api.patches[0][1]["spec"]
        self.assertEqual(spec["template"]["spec"]["containers"],
                         [{"name": "node", "env": [{"name": "FAIRLEAD_LEAVE", "value": "true"}]}])
        self.assertEqual(spec["updateStrategy"]["rollingUpdate"]["maxUnavailable"], "100%")

    def test_nodes_that_do_not_answer_are_given_up(self):
        self.api.sets = {"a": [3, [2]], "b": [1, [1]]}
        for words, code in (((), 1), (("--best-effort",), 0)):
            ended, log = self.withdraw("--timeout", "1.5", "a", "b", *words)
            self.assertEqual(ended, code, log)
            self.assertIn("event=not_all_left daemonset=a nodes=3 left=2", log)
            self.assertIn("event=all_left daemonset=b", log)
        (self.folder / "account" / "token").write_text("wrong")
        ended, log = self.withdraw("--timeout", "0.5", "a")
        self.assertEqual(ended, 1)
        self.assertIn("status 401", log)


if __name__ == "__main__":
    main()
