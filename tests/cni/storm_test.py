"""Goal: concurrent, interrupted and numerous calls leave the same pods and state as sequential calls; and the
plugin uses few resources."""
import json
import os
import random
import select
import statistics
import time

from plugin import IN, REDIRECT_PROGRAMS, SLOWNESS, PluginTest, cgroup_root, main

PARALLEL = 50
KILLS = 24
CPU_SECONDS_WITHOUT_SIDECAR = 0.005
CPU_SECONDS_WITH_SIDECAR = 0.030
COST_CALLS = 15


class Storm(PluginTest):
    def start_all(self, verb, pods, annotations):
        running = []
        for pod in pods:
            text = json.dumps(self.config(pod, annotations))
            process, data = self.start(self.environment(verb, pod), text)
            process.stdin.write(data)
            process.stdin.close()
            running.append(process)
        return running

    def finish_all(self, running):
        for process in running:
            error = process.stderr.read()
            answer = process.stdout.read()
            process.stdout.close()
            process.stderr.close()
            self.assertEqual(process.wait(60), 0, (answer, error))

    def test_fifty_at_once(self):
        pods = [self.pod() for _ in range(PARALLEL)]
        before = pods[-1].snapshot()
        self.finish_all(self.start_all("ADD", pods, IN))
        for pod in pods:
            self.assert_set_up(pod)
        self.finish_all(self.start_all("DEL", pods, IN))
        self.assertEqual(pods[-1].snapshot(), before)
        self.assertEqual(self.attachments(), [])

    def test_fifty_at_once_for_one_pod(self):
        """After a timeout the runtime calls again while the first call still runs."""
        pod = self.pod()
        before = pod.snapshot()
        running = []
        for number in range(PARALLEL):
            running += self.start_all("DEL" if number % 5 == 4 else "ADD", [pod], IN)
        self.finish_all(running)
        self.add(pod)
        self.assert_set_up(pod)
        self.good("CHECK", pod, IN)
        self.good("DEL", pod)
        self.assertEqual(pod.snapshot(), before)
        self.assertEqual(self.attachments(), [])

    def wall_seconds(self, pod):
        begin = time.monotonic()
        self.finish_all(self.start_all("ADD", [pod], IN))
        return time.monotonic() - begin

    def test_killed_in_the_middle(self):
        pod = self.pod()
        before = pod.snapshot()
        chance = random.Random(9)
        longest = statistics.median(self.wall_seconds(pod) for _ in range(5))
        self.good("DEL", pod)
        cut_off = 0
        for number in range(KILLS):
            if number % 4 == 3:
                self.add(pod)
            process, = self.start_all("DEL" if number % 4 == 3 else "ADD", [pod], IN)
            # The progress of the call is random; the test only needs it to be interrupted.
            ended = os.pidfd_open(process.pid)
            if not select.select([ended], [], [], chance.uniform(0, longest))[0]:
                process.kill()
                cut_off += 1
            else:
                longest *= 0.7  # the machine has become faster
            os.close(ended)
            process.wait()
            process.stdout.close()
            process.stderr.close()
            redirect = pod.redirect()
            if {"fairlead_conn4", "fairlead_conn6"} & set(redirect["programs"]):  # they need all others
                self.assertEqual((redirect["filters"], redirect["pinned"]), (["fairlead_syn"], True))
                self.assertLessEqual(set(REDIRECT_PROGRAMS) - {"fairlead_conn6"}, set(redirect["programs"]))
            if "fairlead" in redirect["nft"]:
                self.assertIn("option 254", redirect["nft"])  # all of it, or nothing
            if number % 2:
                self.add(pod)
                self.assert_set_up(pod)
                self.good("CHECK", pod, IN)
            self.good("DEL", pod)
            self.assertEqual(pod.snapshot(), before)
            self.assertEqual(self.attachments(), [])
        print(f"killed {cut_off} of {KILLS} calls")
        self.assertGreater(cut_off, 0)


class Cost(PluginTest):
    def measure(self, annotations):
        pod = self.pod()
        # The minimum, because the effect of other programs on the caches only adds to it.
        return min(self.add(pod, annotations).cpu_seconds for _ in range(COST_CALLS))

    def test_processor_time_of_add(self):
        without = self.measure({"app": "web"})
        with_sidecar = self.measure(IN)
        program = "" if cgroup_root() else ", without the option program: no cgroup2 here"
        print(f"ADD costs {without * 1000:.1f} ms of processor time for a pod without sidecar, "
              f"{with_sidecar * 1000:.1f} ms for one with it{program}")
        # Sanitizers have a cost that production builds do not have.
        if SLOWNESS == 1:
            self.assertLessEqual(without, CPU_SECONDS_WITHOUT_SIDECAR)
            self.assertLessEqual(with_sidecar, CPU_SECONDS_WITH_SIDECAR)


if __name__ == "__main__":
    main()
