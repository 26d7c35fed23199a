"""An open connection between a proxy and the kernel, as the kernel's sock_diag shows it."""
from expect import expect, expect_equal, wait_until
from scenario import scenario
from scenarios_fallback import NO_RNIC
from scenarios_interop import KIB, Way, both

COUNT = 10_000
ACTIVE = 1  # SMC_ACTIVE
DECLINED_BY_PEER = 0x05000000
STEPS = ([["send", COUNT, 1], ["receive", COUNT], ["hold"]],
         [["receive", COUNT], ["send", COUNT, 2], ["hold"]])


def socket_of(stage, way):
    """The kernel's socket of the one connection."""
    port = f":{way.port}" if way.role == "server" else None
    found = [one for one in stage.kernels["b"].show()["sockets"]
             if one["state"] == ACTIVE and (port is None or one["peer"].endswith(port))]
    return found[0] if len(found) == 1 else None


@both
def sock_diag(stage, role):
    """sock_diag has the connection: SMC-R, the proxy's token and element, and the number of bytes"""
    way = Way(stage, role, {"buffers": {"size": "64KiB", "publish": "16KiB"}})
    client = way.spawn(*STEPS, "diag.")
    client.event(30)
    wait_until(lambda: way.proxy.metrics().connections("smcr") == 1, "SMC-R")
    row = way.proxy.get_json("/connections")["connections"][0]
    # The server's end sends a byte of its own before, the client's a line.
    of_client, of_server = ("sent", "received") if role == "server" else ("received", "sent")

    def arrived():
        one = socket_of(stage, way)
        return one and one[f"{of_server}_producer"]["count"] == COUNT + 1 and one
    one = wait_until(arrived, "all bytes by the kernel's cursor")
    expect_equal(one["mode"], "smcr", "mode of the kernel's socket")
    expect_equal(one["token"], row["peer_token"], "token of the kernel's socket")
    # Half of buffers.size: the other half is the send ring.
    expect_equal((one["peer_element_bytes"], one["element_bytes"]),
                 (32 * KIB, row["peer_rmb_bytes"]), "elements by the kernel's account")
    expect(one[f"{of_client}_producer"]["count"] >= COUNT, f"cursors of the client's end: {one}")
    client.stop()
    way.proxy.wait_idle()


@scenario
def sock_diag_of_a_fallback(stage):
    """sock_diag has a connection that became TCP, with the reason of the proxy's Decline"""
    way = Way(stage, "server", NO_RNIC)
    client = way.spawn(*STEPS, "diag.")
    client.event(30)
    one = wait_until(lambda: socket_of(stage, way), "the kernel's socket")
    expect_equal((one["mode"], one["reason"]), ("tcp", DECLINED_BY_PEER), "the kernel's socket")
    expect(one["peer_reason"] != 0, f"the kernel does not show our reason: {one}")
    client.stop()
