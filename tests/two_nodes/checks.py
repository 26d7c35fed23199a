"""Registry of the checks, in their order. Each check leaves the cluster as the next one expects it: two pods of each
Deployment with sidecars, RNICs up, the chart installed."""
import contextlib

from expect import Failed, expect, wait_until

CHECKS = []
SECONDS_TO_ROLL = 300


def check(function):
    """Registers a function that takes a Stage; its docstring is its description."""
    CHECKS.append(function)
    return function


class Stage:
    def __init__(self, place, shop):
        self.place, self.shop, self.cluster, self.say = place, shop, place.cluster, place.say
        self.nodes = place.nodes

    def far(self):
        """A client, and a server on the other node."""
        return self.shop.pod("web", "node-1"), self.shop.pod("redis", "node-2")

    def near(self):
        """A client, and a server on its node."""
        return self.shop.pod("web", "node-1"), self.shop.pod("redis", "node-1")

    def near_ends(self):
        client, server = self.near()
        return client, server.address

    def agents_run(self):
        """Each node's, of the newest revision, and the runtime knows them."""
        self.cluster.kubectl("-n", "fairlead-system", "rollout", "status", "daemonset/fairlead-node-roce",
                             f"--timeout={SECONDS_TO_ROLL}s", timeout=SECONDS_TO_ROLL + 30)
        for node in self.nodes:
            wait_until(lambda node=node: "event=registered" in self.agent_log(node), f"the agent of {node.name}",
                       SECONDS_TO_ROLL)

    def agent_log(self, node):
        """Of the agent that runs there now."""
        name = self.agent(node)
        return self.cluster.kubectl("-n", "fairlead-system", "logs", name, check=False) if name else ""

    def agent(self, node):
        return self.cluster.kubectl(
            "-n", "fairlead-system", "get", "pods", "-l", "app.kubernetes.io/component=node", "--field-selector",
            f"spec.nodeName={node.name},status.phase=Running", "-o", "jsonpath={.items[0].metadata.name}", check=False)

    def not_slow(self, node):
        """A runtime that has disconnected the agent explains a missing device."""
        expect("closing plugin" not in node.log_of("containerd").read_text(errors="replace"),
               f"containerd of {node.name} has closed a plugin that was too slow for it")

    @contextlib.contextmanager
    def explained(self, node):
        """Reports if the runtime is the cause of a failure."""
        try:
            yield
        except Failed as error:
            lines = [line for line in self.agent_log(node).splitlines() if "rnic" in line or " WARN " in line]
            told = f"{error}; the agent of {node.name} says: " + " | ".join(lines[-20:])
            try:
                self.not_slow(node)
            except Failed as cause:
                raise Failed(f"{told} ({cause})") from None
            raise Failed(told) from None
