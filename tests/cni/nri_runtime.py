"""The runtime's side of NRI: a socket, the multiplexer, ttrpc, and the few necessary protobuf messages, implemented
in the test. No container is created: the caller gets the adjustments that the plugin requested."""
import os
import socket
import struct

PLUGIN, RUNTIME = 1, 2
REQUEST, RESPONSE = 1, 2
FRAME_BYTES_MAX = 4096  # the real one closes the connection above
PLUGIN_SERVICE = "nri.pkg.api.v1alpha1.Plugin"


def varint(number):
    out = b""
    while number > 0x7f:
        out += bytes([number & 0x7f | 0x80])
        number >>= 7
    return out + bytes([number])


def encode(fields):
    """{number: value}; a value is an int, text, bytes, a message as dict, or a list of these."""
    out = b""
    for number, values in fields.items():
        for value in values if isinstance(values, list) else [values]:
            if isinstance(value, int):
                out += varint(number << 3) + varint(value)
                continue
            data = encode(value) if isinstance(value, dict) else value.encode() if isinstance(value, str) else value
            out += varint(number << 3 | 2) + varint(len(data)) + data
    return out


def decode(data):
    """{number: [values]}; messages stay bytes."""
    fields, at = {}, 0

    def take():
        nonlocal at
        number = shift = 0
        while True:
            byte = data[at]
            at += 1
            number |= (byte & 0x7f) << shift
            shift += 7
            if byte < 0x80:
                return number

    while at < len(data):
        key = take()
        value = take()
        if key & 7 == 2:
            value, at = data[at:at + value], at + value
        fields.setdefault(key >> 3, []).append(value)
    return fields


def text_map(pairs):
    return [{1: key, 2: value} for key, value in pairs.items()]


def pod_message(sandbox, name="web-0", namespace="shop", uid="11-22", annotations=None, netns=None, ips=()):
    message = {1: sandbox, 2: name, 3: uid, 4: namespace, 6: text_map(annotations or {}), 10: list(ips)}
    if netns is not None:
        message[8] = {5: [{1: "pid"}, {1: "network", 2: netns}]}
    return message


def device_message(path, major, minor, mode=None, uid=None):
    message = {1: path, 2: "c", 3: major, 4: minor}
    if mode is not None:
        message[5] = {1: mode}
    if uid is not None:
        message[6] = {1: uid}
    return message


ARGS = ["/usr/local/bin/fairlead-proxy", "--config", "/etc/fairlead/pod.yaml"]


def container_message(sandbox, name="fairlead-proxy", uid=2201, devices=(), rlimits=(), memory=0, pid=0, ident="k" * 64,
                      args=(), env=(), mounts=(), namespaces=(), groups=()):
    """Empty is what a runtime does not pass. A mount is (destination, type), a namespace (type, path)."""
    linux = {1: [{1: kind, 2: path} for kind, path in namespaces], 2: list(devices)}
    if memory:
        linux[3] = {1: {1: {1: memory}}}
    message = {1: ident, 2: sandbox, 3: name, 7: list(args), 8: list(env),
               9: [{1: destination, 2: kind, 3: "/somewhere"} for destination, kind in mounts], 11: linux,
               13: [{1: kind, 2: value, 3: value} for kind, value in rlimits]}
    if uid is not None:
        message[21] = {1: uid, 2: uid, 3: list(groups)}
    if pid:
        message[12] = pid
    return message


class Adjustment:
    """Adjustments that the plugin requests."""

    def __init__(self, payload):
        fields = decode(decode(payload).get(1, [b""])[0])
        self.devices, self.rlimits = [], []
        for linux in fields.pop(6, []):
            parts = decode(linux)
            for device in map(decode, parts.pop(1, [])):
                owner, mode = decode(device[6][0])[1][0], decode(device[5][0])[1][0]
                self.devices.append((device[1][0].decode(), device[3][0], device[4][0], mode, owner))
            assert not parts, parts
        for limit in map(decode, fields.pop(7, [])):
            self.rlimits.append((limit[1][0].decode(), limit[2][0], limit[3][0]))
        # No adjustment that a validator of the runtime could reject.
        assert not fields, fields


class Connection:
    """A runtime with one connected plugin."""

    def __init__(self, peer, seconds):
        self.peer, self.stream, self.buffers = peer, 1, {PLUGIN: b"", RUNTIME: b""}
        peer.settimeout(seconds)

    def close(self):
        self.peer.close()

    def receive_exactly(self, count):
        data = b""
        while len(data) < count:
            part = self.peer.recv(count - len(data))
            if not part:
                raise EOFError
            data += part
        return data

    def receive(self, connection):
        """The next ttrpc message of a connection: its stream, type and payload."""
        while True:
            have = self.buffers[connection]
            if len(have) >= 10:
                length, stream, kind = struct.unpack(">IIB", have[:9])
                if len(have) >= 10 + length:
                    self.buffers[connection] = have[10 + length:]
                    return stream, kind, have[10:10 + length]
            number, length = struct.unpack(">II", self.receive_exactly(8))
            assert length <= FRAME_BYTES_MAX, length
            self.buffers[number] += self.receive_exactly(length)

    def send(self, connection, stream, kind, payload):
        data = struct.pack(">IIBB", len(payload), stream, kind, 0) + payload
        self.peer.sendall(struct.pack(">II", connection, len(data)) + data)

    def begin(self, method, payload):
        self.send(PLUGIN, self.stream, REQUEST, encode({1: PLUGIN_SERVICE, 2: method, 3: payload}))
        self.stream += 2

    def call(self, method, payload):
        """The payload of the answer, which must not be an error."""
        self.begin(method, payload)
        stream, kind, answer = self.receive(PLUGIN)
        assert (stream, kind) == (self.stream - 2, RESPONSE), (stream, kind)
        fields = decode(answer)
        assert 1 not in fields, f"the plugin answered with an error: {fields}"
        return fields.get(2, [b""])[0]

    def registration(self):
        stream, kind, request = self.receive(RUNTIME)
        fields = decode(request)
        assert (kind, fields[2]) == (REQUEST, [b"RegisterPlugin"]), fields
        return stream, {key: value[0].decode() for key, value in decode(fields[3][0]).items()}

    def accept(self, pods=(), containers=()):
        """The messages before the first container. Returns the plugin's description of itself."""
        stream, said = self.registration()
        events = decode(self.call("Configure", encode({2: "containerd", 3: "v2.3.7", 4: 5000, 5: 2000})))[2][0]
        assert events == 1 << 3, events
        self.send(RUNTIME, stream, RESPONSE, b"")
        self.call("Synchronize", encode({1: list(pods), 2: list(containers)}))
        return said

    def create(self, pod, container):
        return Adjustment(self.call("CreateContainer", encode({1: pod, 2: container})))


class Runtime:
    """Listens as containerd does: a new socket in a folder at each start."""

    def __init__(self, path, seconds):
        self.path, self.seconds, self.connections = path, seconds, []
        self.start()

    def start(self):
        if os.path.exists(self.path):
            os.unlink(self.path)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.settimeout(self.seconds)
        self.listener.bind(str(self.path))
        self.listener.listen()

    def stop(self):
        self.listener.close()  # the file stays
        for connection in self.connections:
            connection.close()

    def connection(self):
        peer, _ = self.listener.accept()
        self.connections.append(Connection(peer, self.seconds))
        return self.connections[-1]
