"""Where SMC-R cannot be between us and a kernel, the same connection is TCP: both sides say why, and no
byte is lost."""
import contextlib

from expect import expect_equal, expect_stream
from kernel_smc import Change
from scenario import scenario

COUNT = 200_000
BOTH_WAYS = [["send", COUNT, 1], ["shutdown"], ["receive"]]
AND_BACK = [["receive"], ["send", COUNT, 2], ["close"]]
DECLINED_BY_PEER = 0x05000000
NO_UEID_MATCH = 0x03030000
PEER_NO_OPTION = 0x03010000


@contextlib.contextmanager
def no_rnic(node):
    node.run(["rdma", "link", "delete", "rxe0"])
    try:
        yield
    finally:
        add_rnic(node)


def add_rnic(node):
    node.run(["rdma", "link", "add", "rxe0", "type", "rxe", "netdev", "eth0"])
    node.run(["/bin/sh", "-c", "chmod 0666 /dev/infiniband/uverbs*"])


def talk_both_ways(stage, node, server, address, port, **how):
    mine, theirs = stage.talk(node, server, address, port, BOTH_WAYS, AND_BACK, **how)
    expect_stream(mine[0], theirs[0], "to the server")
    expect_stream(theirs[1], mine[2], "to the client")


def to_kernel(stage, options=None, family="smc"):
    """Our proxy on a, a server on b behind the kernel's SMC. [proxy, change of kernel b]"""
    server, port = stage.serve(stage.b, family)
    proxy, entry = stage.outbound(stage.a, stage.b.address, port, options)
    change = Change(stage.kernels["b"])
    talk_both_ways(stage, stage.a, server, "127.0.0.1", entry)
    return proxy, change.look()


def from_kernel(stage, options=None):
    """A client behind the kernel's SMC on b, our proxy on a. [proxy, change of kernel b]"""
    server, port = stage.serve(stage.a, "tcp")
    proxy, entry = stage.inbound(stage.a, port, options)
    change = Change(stage.kernels["b"])
    talk_both_ways(stage, stage.b, server, stage.a.address, entry, family="smc")
    return proxy, change.look()


def expect_no_smcr(counts):
    expect_equal((counts["client_v2"], counts["server_v2"]), (0, 0), "SMC-R connections of the kernel")


@scenario
def no_device_of_ours_as_client(stage):
    """our proxy sees no RDMA device: TCP to a kernel server, which is told so by a Decline"""
    with no_rnic(stage.a):
        proxy, counts = to_kernel(stage)
        proxy.expect_fallback("no_rdma_device", "local")
    expect_no_smcr(counts)
    # The program of the node side writes the option all the same, so the kernel awaits CLC.
    expect_equal(counts["reasons"], {("server", DECLINED_BY_PEER): 1}, "reasons of the kernel")


@scenario
def no_device_of_ours_as_server(stage):
    """our proxy sees no RDMA device and declines a kernel client's Proposal"""
    with no_rnic(stage.a):
        proxy, counts = from_kernel(stage)
        proxy.expect_fallback("no_rdma_device", "local")
    expect_no_smcr(counts)
    expect_equal(counts["reasons"], {("client", DECLINED_BY_PEER): 1}, "reasons of the kernel")


@scenario
def plain_tcp_client(stage):
    """a client without SMC reaches the application through our inbound proxy"""
    server, port = stage.serve(stage.a, "tcp")
    proxy, entry = stage.inbound(stage.a, port)
    talk_both_ways(stage, stage.b, server, stage.a.address, entry)
    proxy.expect_fallback("peer_not_injected", "local")
