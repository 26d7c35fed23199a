"""Goal: the option program is attached to the pod's cgroup, whatever the source of its path. Method: the plugin's
process, cgroups with the kubelet's names, and bpftool as an independent check."""
import os
import unittest

from plugin import ANNOTATIONS, IN, PluginTest, cgroup_root, main


class Cgroup(PluginTest):
    def test_no_cgroup_to_be_found(self):
        pod = self.pod(with_cgroup=False)
        self.add(pod)
        self.assert_set_up(pod)
        self.assertEqual([problem["code"] for problem in self.state(pod)["problems"]], [106])

    @unittest.skipIf(cgroup_root() is None, "no cgroup v2 hierarchy to be written")
    def test_cgroup_by_the_name_that_the_kubelet_gives_it(self):
        """Runtimes that pass the pod's uid, but no cgroup: containerd before 1.7.1."""
        top = cgroup_root() / f"kubefl{os.getpid()}"
        top.mkdir()
        self.addCleanup(top.rmdir)
        # Of this process alone: the search covers the pods of every test on this machine.
        own = os.getpid()
        for uid, name in ((f"11-{own}", f"pod11-{own}"), (f"33-{own}", f"kubefl-pod33_{own}.slice")):
            pod = self.pod(with_cgroup=False)
            pod.cgroup = top / name
            pod.cgroup.mkdir()
            self.addCleanup(pod.close)
            self.add(pod, runtimeConfig={ANNOTATIONS: IN}, env={"CNI_ARGS": f"IgnoreUnknown=1;K8S_POD_UID={uid}"})
            self.assert_set_up(pod)
            self.assertEqual(self.state(pod)["problems"], [])
            self.good("DEL", pod)
            self.assertEqual(pod.programs(), [])


if __name__ == "__main__":
    main()
