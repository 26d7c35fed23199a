"""The parts of a Kubernetes API server that tests need: HTTPS with its own certificate, and a token."""
import hashlib
import http.server
import json
import re
import ssl
import subprocess
import sys
import threading


def openssl(*arguments, **options):
    return subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=60, **options)


def make_certificate(folder, subject, alternative):
    """Self-signed tls.crt and tls.key."""
    folder.mkdir(exist_ok=True)
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30",
            "-subj", f"/CN={subject}", "-addext", f"subjectAltName={alternative}",
            "-keyout", folder / "tls.key", "-out", folder / "tls.crt")


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        """Ignores clients that close before they have read everything."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


METADATA_ONLY = "as=PartialObjectMetadata"


def filler(count):
    """Stands for a string of so many characters, which only an answer has."""
    return f"@filler {count}@"


def expanded(text):
    """The parts of an answer, of a MiB at most."""
    for number, part in enumerate(re.split(rb"@filler (\d+)@", text)):
        if number % 2 == 0:
            yield from (part[at:at + (1 << 20)] for at in range(0, len(part), 1 << 20))
        else:
            yield from (b"x" * min(1 << 20, int(part) - at) for at in range(0, int(part), 1 << 20))


def versioned(item):
    """The object with a resourceVersion that is the same while it is the same."""
    digest = hashlib.sha256(json.dumps(item).encode()).hexdigest()
    # As Go writes it: the names come first, and managedFields last.
    metadata = {key: item["metadata"][key] for key in ("name", "namespace", "uid") if key in item["metadata"]}
    return {**item, "metadata": {**metadata, "resourceVersion": digest[:16], **item["metadata"]}}


class FakeApiServer:
    """Subclasses implement answer(), which is called under `lock` and returns status and JSON. `accept` is what the
    request accepts meanwhile."""

    def __init__(self, folder, token):
        make_certificate(folder, "api", "IP:127.0.0.1")
        self.account = folder
        (folder / "ca.crt").write_bytes((folder / "tls.crt").read_bytes())
        (folder / "token").write_text(token)
        self.lock = threading.Lock()
        self.refused = []
        self.accept = ""
        self.chunked = False  # answers have no length
        self.bytes_max = None  # the connection ends after so many bytes of a body
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
        self.server = Server(("127.0.0.1", 0), self.handler(token))
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def environment(self):
        return {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "FAIRLEAD_SERVICE_ACCOUNT": str(self.account),
                "KUBERNETES_SERVICE_PORT": str(self.server.server_port)}

    def answer(self, method, path, body):
        raise NotImplementedError

    def shaped(self, item):
        """One object as the request wants it: whole, or its metadata alone."""
        item = versioned(item)
        if METADATA_ONLY not in self.accept:
            return item
        return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": item["metadata"]}

    def page(self, kind, items, query):
        """`limit` objects from the place that `continue` says."""
        begin = int(query.get("continue", "0 /").split()[0])
        end = begin + int(query["limit"])
        more = {"continue": f"{end} /+&"} if end < len(items) else {}
        if METADATA_ONLY in self.accept:
            kind = "PartialObjectMetadataList"
        return {"kind": kind, "apiVersion": "v1", "metadata": more,
                "items": [self.shaped(item) for item in items[begin:end]]}

    def handler(self, token):
        api = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"  # which chunks need
            disable_nagle_algorithm = True  # a body would wait for the delayed acknowledgement of its header

            def do_any(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                with api.lock:
                    if self.headers.get("Connection", "").lower() == "close":
                        # Then the end of the stream follows the reply at once, and a libevent client may see the end
                        # first.
                        status, reply = 400, {"message": "let the client close"}
                    elif self.headers.get("Authorization") != f"Bearer {token}":
                        status, reply = 401, {"message": "who are you"}
                        api.refused.append(self.path)
                    else:
                        api.accept = self.headers.get("Accept", "")
                        status, reply = api.answer(self.command, self.path, body)
                    chunked, bytes_max = api.chunked, api.bytes_max
                self.send(status, json.dumps(reply).encode(), chunked, bytes_max)

            def send(self, status, text, chunked, bytes_max):
                self.send_response(status)
                if chunked:
                    self.send_header("Transfer-Encoding", "chunked")
                else:
                    self.send_header("Content-Length", str(sum(map(len, expanded(text)))))
                self.end_headers()
                if bytes_max is not None and bytes_max < len(text):
                    self.close_connection = True
                    ends, text = b"", text[:bytes_max]
                else:
                    ends = b"0\r\n\r\n" if chunked else b""
                for part in expanded(text):
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(part), part) if chunked else part)
                self.wfile.write(ends)

            do_GET = do_PUT = do_PATCH = do_POST = do_any

            def log_message(self, *_):
                pass

        return Handler
