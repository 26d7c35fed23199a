"""Goal: a burst of introductions at one broker is answered as a whole and in bounded time, also while other pods
flood it. Method: a hundred network namespaces as pods, each with a device of the test that sends what a sidecar sends,
and fairlead-node. The test prints the figures of docs/broker.md."""
import resource
import select
import struct
import time

import brokered
import plugin
from attacked import processor_seconds
from brokered import BLANK, CHANNEL, CONNECT, REQUEST, SLOTS, WELCOME
from wired import harness

PODS = 100
AT_ONCE = 64  # introductions of one pod
EACH = 8  # of each pod, where all begin at the same time
FLOODING = 3  # pods
# cni/node/broker/broker_book.h: what a pod may use before its share counts.
SECONDS_OF_A_BURST = 4096 * 50e-6
OWN_SECONDS = 2  # for the introductions themselves, where nobody floods


class Burst(brokered.BrokerTest):
    def setUp(self):
        super().setUp()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))

    def crowd(self, count):
        """A device in each of so many pods, enrolled by its number."""
        devices = []
        for number in range(count):
            pod = self.pod((f"10.213.92.{number + 1}/24",), with_cgroup=False)
            devices.append(self.device(pod))  # listens before the broker knows the pod
            self.add(pod)
        for number, device in enumerate(devices):
            self.assertEqual(device.enroll(self.peer(number)), (WELCOME, 0, self.peer(number)))
        return devices

    @staticmethod
    def peer(number):
        return struct.pack(">Q", number + 1)

    @staticmethod
    def introduce(device, peers):
        """To all of them by one wake-up, as a sidecar does at its start."""
        for peer in peers:
            device.put(REQUEST.pack(CONNECT, 0, 0, peer, 0, 0))
        device.wake()

    def read(self, devices, answered, seconds):
        """Reads all records but blanks until `answered` says that it is enough; (device, kind, side, peer) each."""
        records = []
        deadline = time.monotonic() + seconds
        by_descriptor = {device.link.fileno(): device for device in devices}
        with select.epoll() as ready:
            for descriptor in by_descriptor:
                ready.register(descriptor, select.EPOLLIN)
            while not answered(records):
                left = deadline - time.monotonic()
                self.assertGreater(left, 0, f"{len(records)} records came in {seconds:g} s")
                for descriptor, _ in ready.poll(left):
                    device = by_descriptor[descriptor]
                    record = device.hear_any()
                    self.assertIsNotNone(record)
                    device.drop_descriptors()
                    if record.kind != BLANK:
                        records.append((device, record.kind, record.side, record.peer))
        return records

    def assert_introduced(self, records, wishes):
        """Each wish, as (device, its peer, the other device, its peer), made one channel, and nothing else came."""
        wanted = [(one, CHANNEL, 0, other_peer) for one, _, _, other_peer in wishes]
        wanted += [(other, CHANNEL, 1, one_peer) for _, one_peer, other, _ in wishes]
        key = {device: number for number, device in enumerate({row[0]: None for row in wanted})}
        self.assertEqual(sorted((key[row[0]], *row[1:]) for row in records),
                         sorted((key[row[0]], *row[1:]) for row in wanted))

    def timed(self, devices, wishes, seconds):
        """Seconds until all wishes have come true, and the records."""
        begin = time.monotonic()
        for device in {wish[0]: None for wish in wishes}:
            self.introduce(device, [other for one, _, _, other in wishes if one is device])
        records = self.read(devices, lambda records: len(records) >= 2 * len(wishes), harness.seconds(seconds))
        return time.monotonic() - begin, records

    def test_bursts_of_a_full_node_are_answered_as_a_whole(self):
        devices = self.crowd(PODS)
        self.assertEqual(self.node("fairlead_node_broker_devices"), PODS)
        wishes = [(devices[0], self.peer(0), devices[number], self.peer(number)) for number in range(1, AT_ONCE + 1)]
        passed, records = self.timed(devices, wishes, OWN_SECONDS)
        self.assert_introduced(records, wishes)
        print(f"{AT_ONCE} introductions of one pod at once: all in {passed * 1000:.0f} ms")
        wishes = [(devices[number], self.peer(number), devices[(number + step) % PODS], self.peer((number + step) % PODS))
                  for number in range(PODS) for step in range(1, EACH + 1)]
        used = processor_seconds(self.agent.pid)
        passed, records = self.timed(devices, wishes, 5 * OWN_SECONDS)
        self.assert_introduced(records, wishes)
        print(f"{EACH} introductions of each of {PODS} pods at once: all {len(wishes)} in {passed * 1000:.0f} ms; "
              f"the agent used {(processor_seconds(self.agent.pid) - used) * 1000:.0f} ms of a processor")
        self.assertEqual(self.node("fairlead_node_broker_introductions_total", result="good"), AT_ONCE + PODS * EACH)
        self.assertEqual(self.node("fairlead_node_broker_records_lost_total"), 0)

    def test_bursts_of_others_delay_a_pod_by_their_shares_at_most(self):
        devices = self.crowd(AT_ONCE + 1 + FLOODING)
        calm, flooding = devices[:-FLOODING], devices[-FLOODING:]
        # Rings full of introductions, of pods that never read what they get.
        for device in flooding:
            self.introduce(device, [self.peer(number % len(devices)) for number in range(SLOTS)])
        wishes = [(calm[0], self.peer(0), device, self.peer(number)) for number, device in enumerate(calm) if number > 0]
        foreign = {self.peer(len(calm) + number) for number in range(FLOODING)}

        def own(records):
            return [record for record in records if record[3] not in foreign]
        bound = OWN_SECONDS + FLOODING * SECONDS_OF_A_BURST
        begin = time.monotonic()
        self.introduce(calm[0], [wish[3] for wish in wishes])
        records = self.read(calm, lambda records: len(own(records)) >= 2 * len(wishes), harness.seconds(bound))
        passed = time.monotonic() - begin
        self.assert_introduced(own(records), wishes)
        print(f"{len(wishes)} introductions while {FLOODING} pods have {FLOODING * SLOTS} waiting: all in "
              f"{passed * 1000:.0f} ms; the bound is {bound * 1000:.0f} ms on idle processors")


if __name__ == "__main__":
    plugin.main()
