"""Proxies whose shared-memory devices have several ports each, and control of the ports' state."""
from harness import wait_until

# Two links are the default then.
TWO_PORTS = {"other_devices": {"ports": 2}}
THREE_PORTS = {"other_devices": {"ports": 3}, "smc": {"max_links": 3}}


def take_port(proxy, port, state):
    """Sets the port "down" or "up", at the devices of all workers."""
    proxy.post(f"/ports?device=shm0&port={port}&state={state}")
    want = "active" if state == "up" else "down"
    wait_until(lambda: port_states(proxy, port) == {want}, f"port {port} of {proxy.name} to go {state}")


def port_states(proxy, port):
    """Each worker has a device and may react later than the others."""
    return {row["state"] for row in proxy.get_json("/devices")["devices"] if row["port"] == port}


def group_types(proxy):
    return [group["type"] for group in proxy.get_json("/linkgroups")["link_groups"]]


def link_counts(proxy):
    return [len(group["links"]) for group in proxy.get_json("/linkgroups")["link_groups"]]


def wait_links(count, *proxies):
    """Waits until every link group has as many links, at both ends."""
    for proxy in proxies:
        wait_until(lambda: (counts := link_counts(proxy)) and set(counts) == {count},
                   f"the link groups of {proxy.name} to have {count} links")


def wait_symmetric(*proxies):
    """Waits until every link group has two links without a port in common, at both ends."""
    for proxy in proxies:
        wait_until(lambda: (types := group_types(proxy)) and set(types) == {"symmetric"},
                   f"the link groups of {proxy.name} to become symmetric")
