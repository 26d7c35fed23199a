"""Pods on the nodes: a network namespace each, with routes as in a routed pod network."""
NAME = "pod"


def address(node):
    return f"10.9.{node.number}.2"


def make(node, other):
    """The pod of a node. 10.9.1.2 is on node a, 10.9.2.2 on node b."""
    gateway = f"10.9.{node.number}.1"
    inside = f"ip netns exec {NAME}"
    node.run(["/bin/sh", "-ec", f"""
        ip netns add {NAME}
        ip link add veth-pod mtu {node.mtu} type veth peer name eth0 mtu {node.mtu} netns {NAME}
        ip address add {gateway}/24 dev veth-pod
        ip link set veth-pod up
        {inside} ip link set lo up
        {inside} ip address add {address(node)}/24 dev eth0
        {inside} ip link set eth0 up
        {inside} ip route add default via {gateway}
        ip route add 10.9.{other.number}.0/24 via {other.address}
        """])


def redirect(node):
    """Redirects the pod's TCP to the proxy, except the proxy's own."""
    node.write("/run/redirect.nft", """
        table ip fairlead {
          chain out {
            type nat hook output priority -100;
            meta l4proto tcp meta skuid != 2201 ip daddr 10.9.0.0/16 redirect to :4540
          }
          chain in {
            type nat hook prerouting priority -100;
            iifname "eth0" meta l4proto tcp redirect to :4543
          }
        }
        """)
    node.run(["ip", "netns", "exec", NAME, "nft", "-f", "/run/redirect.nft"])


def no_redirect(node):
    node.run(["ip", "netns", "exec", NAME, "nft", "delete", "table", "ip", "fairlead"], check=False)
