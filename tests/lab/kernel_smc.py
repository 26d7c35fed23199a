"""The kernel's own SMC on a node: its state and its counters."""
import json

from node import BUILD


class KernelSmc:
    """The kernel's SMC on a node."""

    TOOL = BUILD / "tests/lab/smc_state"
    TEST_LINK_SECONDS = 30  # by default

    def __init__(self, node):
        self.node = node
        self.probe = self.TEST_LINK_SECONDS

    def tell(self, *words):
        self.node.run([self.TOOL, *words], timeout=20)

    def test_links_every(self, seconds=TEST_LINK_SECONDS):
        """New groups, until the end of the scenario, send TEST_LINK on links that were silent for this time."""
        if seconds != self.probe:
            self.node.run(["sysctl", "-qw", f"net.smc.smcr_testlink_time={seconds}"])
        self.probe = seconds

    def show(self):
        return json.loads(self.node.run([self.TOOL, "show"], timeout=20))

    def counts(self):
        """The statistics of SMC-R, flat, with fallbacks as {(role, reason): count}."""
        shown = self.show()
        smcr = shown["stats"]["smcr"]
        counts = {name: value for name, value in smcr.items() if isinstance(value, int)}
        counts["full_at_peer"] = smcr["sending"]["full_at_peer"]
        counts["reasons"] = {("server" if row.get("server") else "client", row["reason"]): row["count"]
                             for row in shown["fallbacks"] if row.get("reason")}
        return counts


class Change:
    """Counters of a kernel since the creation of this object."""

    def __init__(self, kernel_smc):
        self.kernel, self.before = kernel_smc, kernel_smc.counts()

    def look(self):
        after = self.kernel.counts()
        change = {name: value - self.before.get(name, 0) for name, value in after.items()
                  if isinstance(value, int)}
        change["reasons"] = {reason: count - self.before["reasons"].get(reason, 0)
                             for reason, count in after["reasons"].items()
                             if count != self.before["reasons"].get(reason, 0)}
        return change
