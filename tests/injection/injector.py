"""A running fairlead-injector, and a fake API server for it."""
import base64
import http.client
import json
import os
import re
import socket
import ssl
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(1, str(Path(__file__).parents[1]))

from fake_api_server import (  # pylint: disable=wrong-import-position,unused-import
    FakeApiServer, make_certificate, openssl)
from suite import wait_until  # pylint: disable=wrong-import-position

HERE = Path(__file__).parent
SECONDS_MAX = 60
HOST = "fairlead-injector.fairlead-system.svc"


def wait_for(what, predicate):
    """Polls for an effect of the program's own activity; the deadline allows for a very busy machine."""
    return wait_until(predicate, what, SECONDS_MAX)


class Injector:
    def __init__(self, binary, *arguments, settings=HERE / "settings.json", environment=None):
        self.folder = tempfile.TemporaryDirectory()
        self.log = Path(self.folder.name) / "log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [binary, "--settings", settings, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", *arguments],
                stderr=log, stdout=log, env={**os.environ, **(environment or {})})
        self.admin_port = self.port_of("admin")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        code = self.process.wait(SECONDS_MAX)
        text = self.log.read_text(errors="replace")
        self.folder.cleanup()
        assert code == 0, f"exit code {code}\n{text}"

    def port_of(self, what):
        def find():
            assert self.process.poll() is None, self.log.read_text()
            for line in self.log.read_text().splitlines():
                if f"event=listening what={what} " in line:
                    return int(line.rsplit(":", 1)[1])
            return None
        return wait_for(f"the port of {what}", find)

    def get(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.admin_port, timeout=SECONDS_MAX)
        connection.request("GET", path)
        reply = connection.getresponse()
        return reply.status, reply.read().decode()

    def metrics(self):
        return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1])
                for line in self.get("/metrics")[1].splitlines() if not line.startswith("#")}


class Client:
    """Like an API server: HTTPS, and the certificate is verified for the name of the Service."""

    def __init__(self, port, ca_pem, name=HOST):
        self.port, self.name = port, name
        self.context = ssl.create_default_context(cadata=ca_pem)

    def connect(self):
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=SECONDS_MAX, context=self.context)
        connection.connect = lambda: None
        raw = socket.create_connection(("127.0.0.1", self.port), SECONDS_MAX)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sock = self.context.wrap_socket(raw, server_hostname=self.name)
        return connection

    def post(self, path, body):
        connection = self.connect()
        try:
            connection.request("POST", path, body, {"Content-Type": "application/json"})
            reply = connection.getresponse()
            return reply.status, reply.read()
        finally:
            connection.close()

    def served_certificate(self):
        connection = self.connect()
        try:
            return connection.sock.getpeercert(binary_form=True)
        finally:
            connection.close()


def review(pod, uid="u-1", **more):
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
                       "request": {"uid": uid, "kind": {"group": "", "version": "v1", "kind": "Pod"},
                                   "operation": "CREATE", "namespace": "shop", "object": pod, **more}})


class ApiServer(FakeApiServer):
    """The part of an API server that the injector uses, with its rules for versions of objects."""

    def __init__(self, folder, token):
        self.secret = {"apiVersion": "v1", "kind": "Secret",
                       "metadata": {"name": "certs", "namespace": "fairlead-system", "resourceVersion": "1"}}
        self.hooks = {"webhooks": [{"name": "a", "clientConfig": {"service": {}}},
                                   {"name": "b", "clientConfig": {"service": {}, "caBundle": "b2xk"}}]}
        self.events = []
        super().__init__(folder, token)

    def bundles(self):
        with self.lock:
            return [base64.b64decode(hook["clientConfig"].get("caBundle", "")).decode()
                    for hook in self.hooks["webhooks"]]

    def answer(self, method, path, body):
        if path == "/api/v1/namespaces/fairlead-system/secrets/certs":
            if method == "PUT":
                sent = json.loads(body)
                if sent["metadata"]["resourceVersion"] != self.secret["metadata"]["resourceVersion"]:
                    return 409, {"message": "conflict"}
                sent["metadata"]["resourceVersion"] = str(int(sent["metadata"]["resourceVersion"]) + 1)
                self.secret = sent
            return 200, self.secret
        if path.endswith("/mutatingwebhookconfigurations/fairlead"):
            if method == "PATCH":
                for step in json.loads(body):
                    _, _, index, *rest = step["path"].split("/")
                    hook = self.hooks["webhooks"][int(index)]
                    if step["op"] == "test":
                        assert hook[rest[0]] == step["value"]
                    else:
                        hook["clientConfig"]["caBundle"] = step["value"]
            return 200, self.hooks
        if method == "POST" and re.fullmatch("/api/v1/namespaces/[a-z]+/events", path):
            self.events.append(json.loads(body))
            return 201, {}
        return 404, {"message": f"no {method} {path}"}
