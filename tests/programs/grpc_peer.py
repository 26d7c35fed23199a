"""A gRPC server and its client: calls, a stream both ways, and a stream that the client cancels.

    grpc_peer.py serve ADDRESS
    grpc_peer.py use ADDRESS CALLS    prints what it found as JSON
"""
import hashlib
import json
import sys
import time
from concurrent import futures

import grpc

STREAM_BYTES = 20_000
SERVICE = "fairlead.test"


def echo(request, _context):
    return request[::-1]


def echo_stream(requests, _context):
    for request in requests:
        yield request[::-1]


def endless(request, context):
    while context.is_active():
        yield request


def serve(address):
    handlers = {"Call": grpc.unary_unary_rpc_method_handler(echo),
                "Stream": grpc.stream_stream_rpc_method_handler(echo_stream),
                "Endless": grpc.unary_stream_rpc_method_handler(endless)}
    server = grpc.server(futures.ThreadPoolExecutor(8))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    server.add_insecure_port(address)
    server.start()
    server.wait_for_termination()


def use(address, calls):
    digest, errors, waits = hashlib.sha256(), 0, []
    begin = time.monotonic()
    with grpc.insecure_channel(address) as channel:
        call = channel.unary_unary(f"/{SERVICE}/Call")
        for number in range(calls):
            sent = time.monotonic()
            try:
                digest.update(call(b"%08d" % number * 20, timeout=60))
            except grpc.RpcError:
                errors += 1
            waits.append(time.monotonic() - sent)
        rate = calls / (time.monotonic() - begin)
        messages = (bytes([number % 256]) * STREAM_BYTES for number in range(calls // 4))
        for answer in channel.stream_stream(f"/{SERVICE}/Stream")(messages, timeout=120):
            digest.update(answer)
        stream = channel.unary_stream(f"/{SERVICE}/Endless")(b"again" * 1000, timeout=60)
        for _ in range(100):
            next(stream)
        stream.cancel()
        cancelled = False
        try:
            for _ in stream:
                pass
        except grpc.RpcError as error:
            cancelled = error.code() == grpc.StatusCode.CANCELLED
    waits.sort()
    print(json.dumps({"digest": digest.hexdigest(), "errors": errors, "rate": rate, "cancelled": cancelled,
                      "p999": waits[int(len(waits) * 0.999)]}))


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2])
    else:
        use(sys.argv[2], int(sys.argv[3]))
