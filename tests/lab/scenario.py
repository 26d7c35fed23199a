"""The environment of a scenario: nodes, their pods and kernels, proxies and servers on them."""
import contextlib
import time

import guest_proxy
import pods
from expect import expect
from kernel_smc import KernelSmc
from node import LabError

SCENARIOS = []  # in the order in which they run


def scenario(function):
    """Registers a function that takes a Stage; its docstring is its description."""
    SCENARIOS.append(function)
    return function


def scenarios_by(roles):
    """Decorates a function that takes a Stage and a role: a scenario for each of {role: end of its name}."""
    def register(function):
        for role, ending in roles.items():
            def play(stage, role=role):
                function(stage, role)
            play.__name__ = f"{function.__name__}_{ending}"
            play.__doc__ = function.__doc__
            scenario(play)
        return function
    return register


class Stage:
    """The environment of a scenario. Everything started on it ends with it."""

    UEID = "FAIRLEAD"

    def __init__(self, lab):
        self.lab, self.say = lab, lab.say
        self.name = ""  # of the scenario
        self.a, self.b = lab.nodes
        self.kernels = {node.name: KernelSmc(node) for node in lab.nodes}
        self.counter = 0
        self.proxies = []
        self.lasting = []  # processes that outlive a scenario
        self.redirected = []  # nodes whose pod sends its TCP to a proxy

    def prepare(self, node):
        """Once after each boot of a node."""
        self.kernels[node.name].tell("ueid", "add", self.UEID)
        other = self.b if node is self.a else self.a
        pods.make(node, other)
        self.lasting.append(guest_proxy.attach_option_program(node))

    def redirect(self, node):
        """Redirects the pod's TCP to the proxy in it, until the end of the scenario."""
        self.redirected.append(node)
        pods.redirect(node)

    def wait_boot(self, node):
        """Waits for a node that was switched off and on, and prepares it again."""
        node.connect()
        self.prepare(node)

    def restart(self):
        """Switches both nodes off and on, so that later scenarios find no remaining state."""
        self.lab.power_cycle()
        with contextlib.suppress(LabError):  # about proxies that ended with their nodes
            self.finish(failed=True)
        self.lasting.clear()
        for node in self.lab.nodes:
            self.wait_boot(node)

    def finish(self, failed=False):
        """Ends everything; returns errors of the proxies."""
        problems = [problem for proxy in reversed(self.proxies) if (problem := proxy.finish())]
        if failed or problems:
            for proxy in self.proxies:
                print(f"--- end of the log of {proxy.name}\n{proxy.log()[-4000:]}", flush=True)
        self.proxies.clear()
        for node in self.redirected:
            pods.no_redirect(node)
        self.redirected.clear()
        for node in self.lab.nodes:
            node.stop_all(but=self.lasting)
            self.kernels[node.name].test_links_every()
        expect(not problems, "; ".join(problems))

    def proxy(self, node, listeners, options=None, netns=None, **how):
        """A proxy without capabilities; it ends with the scenario, and its exit code counts. `how` as in
        Node.start()."""
        self.counter += 1
        name = f"{self.name}.{node.name}{self.counter}"
        made = guest_proxy.GuestProxy(node, name, listeners, options, netns, **how)
        self.proxies.append(made)
        return made

    def outbound(self, node, host, port, options=None, **how):
        """A proxy in the node's own network, towards a static upstream; [proxy, port to connect to]."""
        made = self.proxy(node, [guest_proxy.static("out", "outbound", f"{host}:{port}")],
                          options, **how)
        return made, made.ports["out"]

    def inbound(self, node, port, options=None, **how):
        """The same in front of a local application."""
        made = self.proxy(node, [guest_proxy.static("in", "inbound", f"127.0.0.1:{port}",
                                                    f"{node.address}:0")], options, **how)
        return made, made.ports["in"]

    def serve(self, node, family, netns=None, **arguments):
        """[process, port]"""
        server = node.spawn("traffic.serve", netns=netns, family=family, **arguments)
        return server, server.event()["port"]

    def outcome(self, server, key, timeout=60):
        """The results of the server's end of a talk."""
        deadline = time.monotonic() + timeout
        while True:
            event = server.event(max(0.1, deadline - time.monotonic()))
            if event.get("key") == key:
                return event["results"]

    def talk(self, node, server, address, port, mine, theirs, timeout=120, **how):
        """[results of the client's steps, results of the server's] of one connection."""
        self.counter += 1
        key = f"talk{self.counter}."
        client = node.spawn("traffic.talk", address=address, port=port, mine=mine, theirs=theirs,
                            key=key, **how)
        results = client.value(timeout)
        try:
            return results[0], self.outcome(server, f"{key}0", 20)
        except LabError as error:
            raise LabError(f"{error}; the client's end: {results[0]}") from None
