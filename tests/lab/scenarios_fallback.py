"""If SMC-R is not possible between the proxy and a kernel, the same connection uses TCP. Both sides report the
reason, and no byte is lost."""
import contextlib

import pods
from exchange import talk_both_ways
from expect import expect, expect_equal
from kernel_smc import Change
from scenario import scenario
from scenarios_interop import both

DECLINED_BY_PEER = 0x05000000
NO_UEID_MATCH = 0x03030000


NO_RNIC = {"devices": {"shm": {"enabled": False}, "verbs": {"enabled": False}}}


def to_kernel(stage, options=None, family="smc"):
    """A proxy on a, a server on b behind the kernel's SMC. [proxy, change of kernel b]"""
    server, port = stage.serve(stage.b, family)
    proxy, entry = stage.outbound(stage.a, stage.b.address, port, options)
    change = Change(stage.kernels["b"])
    talk_both_ways(stage, stage.a, server, "127.0.0.1", entry)
    return proxy, change.look()


def from_kernel(stage, options=None):
    """A client behind the kernel's SMC on b, a proxy on a. [proxy, change of kernel b]"""
    server, port = stage.serve(stage.a, "tcp")
    proxy, entry = stage.inbound(stage.a, port, options)
    change = Change(stage.kernels["b"])
    talk_both_ways(stage, stage.b, server, stage.a.address, entry, family="smc")
    return proxy, change.look()


def with_kernel(stage, role, options=None):
    """The same, `role` is the proxy's."""
    return (to_kernel if role == "client" else from_kernel)(stage, options)


def expect_no_smcr(counts):
    expect_equal((counts["client_v2"], counts["server_v2"]), (0, 0), "SMC-R connections of the kernel")


def expect_declined(role, proxy, counts, reason, side="local", code=DECLINED_BY_PEER):
    """Checks a fallback, by that side and as the kernel reports it; `role` is the proxy's."""
    proxy.expect_fallback(reason, side)
    expect_no_smcr(counts)
    expect_equal(counts["reasons"], {("server" if role == "client" else "client", code): 1}, "reasons of the kernel")


@both
def no_device_of_ours(stage, role):
    """the proxy sees no RDMA device: TCP, and the kernel gets a Decline"""
    proxy, counts = with_kernel(stage, role, NO_RNIC)
    # The program of the node side still writes the option, so a kernel server expects CLC.
    expect_declined(role, proxy, counts, "no_rdma_device")


@scenario
def plain_tcp_server(stage):
    """a server without SMC: the SYN/ACK has no option, TCP from the first byte"""
    proxy, counts = to_kernel(stage, family="tcp")
    proxy.expect_fallback("peer_not_injected", "local")
    expect_no_smcr(counts)


@scenario
def plain_tcp_client(stage):
    """a client without SMC reaches the application through the inbound proxy"""
    server, port = stage.serve(stage.a, "tcp")
    proxy, entry = stage.inbound(stage.a, port)
    talk_both_ways(stage, stage.b, server, stage.a.address, entry)
    proxy.expect_fallback("peer_not_injected", "local")


@both
def no_common_ueid(stage, role):
    """no UEID in common: the server declines the client's Proposal, whichever is the kernel"""
    proxy, counts = with_kernel(stage, role, {"smc": {"ueids": ["OTHER"], "option_program": "external"}})
    if role == "client":
        expect_declined(role, proxy, counts, "no_device", "peer", NO_UEID_MATCH)
    else:
        expect_declined(role, proxy, counts, "no_device")


@scenario
def no_device_of_the_kernel_as_server(stage):
    """a kernel server in a pod, whose network has no RDMA device, declines"""
    server, port = stage.serve(stage.b, "smc", netns=pods.NAME)
    proxy, entry = stage.outbound(stage.a, pods.address(stage.b), port)
    talk_both_ways(stage, stage.a, server, "127.0.0.1", entry)
    proxy.expect_fallback("no_rdma_device", "peer")


@scenario
def no_device_of_the_kernel_as_client(stage):
    """a kernel client without RDMA device declines, before any Proposal"""
    server, port = stage.serve(stage.a, "tcp")
    proxy, entry = stage.inbound(stage.a, port)
    talk_both_ways(stage, stage.b, server, stage.a.address, entry, family="smc", netns=pods.NAME)
    proxy.expect_fallback("no_device", "peer")


@contextlib.contextmanager
def option_stripped(node):
    """A middlebox between the nodes that removes the SMC option from every SYN/ACK of this one."""
    node.write("/run/strip.nft", """
        table ip strip {
          chain out {
            type filter hook output priority mangle;
            oifname eth0 tcp flags & (syn | ack) == (syn | ack) reset tcp option 254
          }
        }
        """)
    node.run(["nft", "-f", "/run/strip.nft"])
    try:
        yield
    finally:
        node.run(["nft", "delete", "table", "ip", "strip"])


@scenario
def option_stripped_on_the_way_back(stage):
    """the proxy's SYN/ACK loses its option: the kernel client sends data instead of CLC, and the data arrives"""
    with option_stripped(stage.a):
        proxy, counts = from_kernel(stage)
    proxy.expect_fallback("option_stripped", "local")
    expect_no_smcr(counts)


@scenario
def handshake_stall_of_the_client(stage):
    """a client with the option that then sends nothing: ended after the timeout, the proxy continues"""
    server, port = stage.serve(stage.a, "tcp")
    proxy, entry = stage.inbound(stage.a, port, {
        "smc": {"handshake_timeout": "1s", "option_program": "external"}})
    ending = stage.b.call("traffic.silent", address=stage.a.address, port=entry, uid=2201,
                          cgroup="fairlead")
    expect(ending in ("fin", "reset"), f"the silent client saw {ending}")
    talk_both_ways(stage, stage.b, server, stage.a.address, entry, family="smc")
    proxy.wait_idle()
    expect_equal(proxy.metrics().connections("smcr"), 1, "SMC-R connections behind the silent client")
