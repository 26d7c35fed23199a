"""Two proxies with ordinary programs in pods on two nodes, on the nodes' Soft-RoCE devices."""
import json
import re

import pods
from expect import expect, expect_equal, wait_until
from guest_proxy import redirected
from scenario import scenario

OUTBOUND, INBOUND = 4540, 4543
REDIS = 6379


def pod_pair(stage, options=None):
    """A proxy in each pod, with the redirect: [on a, on b]"""
    made = []
    for node in (stage.a, stage.b):
        stage.redirect(node)
        made.append(stage.proxy(node, [redirected("out", "outbound", OUTBOUND),
                                       redirected("in", "inbound", INBOUND)], options, netns=pods.NAME))
    return made


def in_pod(node, argv, **how):
    return node.run(argv, netns=pods.NAME, **how)


def start_in_pod(node, argv, port):
    """A server, once it listens."""
    server = node.start(argv, netns=pods.NAME)
    wait_until(lambda: f":{port} " in in_pod(node, ["ss", "-Hltn"]) or not server.running,
               f"{argv[0]} to listen", 60)
    expect(server.running, f"{argv[0]} does not start")
    return server


def start_redis(node):
    """The address of its pod, where a server of redis listens."""
    start_in_pod(node, ["redis-server", "--port", REDIS, "--bind", "0.0.0.0", "--save", "", "--protected-mode", "no"], REDIS)
    return pods.address(node)


def expect_only_smcr(proxies, at_least, resets=0):
    for proxy in proxies:
        metrics = proxy.expect_smcr(at_least)
        groups = proxy.get_json("/linkgroups")["link_groups"]
        expect(groups, f"{proxy.name} has no link group")
        count = metrics.value("fairlead_connections_reset_total")
        expect(count <= resets, f"{proxy.name} has seen {count:.0f} resets")
    for proxy in proxies:
        proxy.wait_idle()


@scenario
def redis_between_pods(stage):
    """redis-benchmark in a pod of a, redis-server in one of b, both unmodified"""
    proxies = pod_pair(stage)
    host = start_redis(stage.b)
    said = in_pod(stage.a, ["redis-benchmark", "-h", host, "-p", REDIS, "-c", "10", "-n", "500",
                            "-d", "1000", "-t", "set,get", "-q"], timeout=120)
    expect_equal(len(re.findall(r"requests per second", said)), 2, said)
    expect_only_smcr(proxies, 20)


@scenario
def earned_between_pods(stage):
    """a connection with one request stays TCP between the proxies; one with many requests or bytes earns SMC-R"""
    proxies = pod_pair(stage, {"smc": {"defer_bytes": "64KiB"}})
    host = start_redis(stage.b)
    value = "x" * 100_000
    for request in (["PING"], ["-r", "40", "PING"], ["SET", "key", value], ["GET", "key"]):
        said = in_pod(stage.a, ["redis-cli", "-h", host, "-p", REDIS, *request], timeout=60)
        expect(said.startswith(("PONG", "OK", value)), f"redis-cli {request[:2]}: {said[:80]}")
    for proxy in proxies:
        proxy.wait_idle()
        metrics = proxy.metrics()
        expect_equal([metrics.connections(name) for name in ("short", "smcr", "tcp")], [1, 3, 0],
                     f"short, SMC-R and TCP connections of {proxy.name}")


@scenario
def http_between_pods(stage):
    """curl fetches a file from nginx, whole"""
    proxies = pod_pair(stage)
    stage.b.run(["/bin/sh", "-ec", "mkdir -p /tmp/lab/www; chmod 755 /tmp/lab /tmp/lab/www; "
                                   "head -c 5000000 /dev/urandom > /tmp/lab/www/file"])
    stage.b.write("/tmp/lab/nginx.conf", """
        daemon off; pid /tmp/lab/nginx.pid; error_log stderr;
        events {}
        http { access_log off; server { listen 8080; root /tmp/lab/www; } }
        """)
    start_in_pod(stage.b, ["nginx", "-p", "/tmp/lab", "-c", "/tmp/lab/nginx.conf"], 8080)
    command = f"for i in 1 2 3; do curl -sSf -m 60 http://{pods.address(stage.b)}:8080/file | sha256sum; done"
    got = in_pod(stage.a, ["/bin/sh", "-ec", command], timeout=120).split("\n")
    wanted = stage.b.run(["/bin/sh", "-c", "sha256sum < /tmp/lab/www/file"]).strip()
    expect_equal(got[:3], [wanted] * 3, "what curl got")
    expect_only_smcr(proxies, 3)


@scenario
def iperf_between_pods(stage):
    """iperf3, both directions"""
    proxies = pod_pair(stage)
    start_in_pod(stage.b, ["iperf3", "-s", "-p", 5201], 5201)
    for direction in ([], ["-R"]):
        said = in_pod(stage.a, ["iperf3", "-c", pods.address(stage.b), "-p", 5201, "-n", "20M", "-J",
                                *direction], timeout=120)
        end = json.loads(said)["end"]
        # The receiver stops counting when the sender has finished; the rest is in buffers.
        expect(end["sum_received"]["bytes"] >= 10_000_000, f"iperf3 moved {end['sum_received']}")
    # Its server closes the data stream with unread data, which is a reset.
    expect_only_smcr(proxies, 4, resets=2)
