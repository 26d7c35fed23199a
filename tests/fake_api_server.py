"""The parts of a Kubernetes API server that tests need: HTTPS with its own certificate, and a token."""
import http.server
import json
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


class FakeApiServer:
    """Subclasses implement answer(), which is called under `lock` and returns status and JSON."""

    def __init__(self, folder, token):
        make_certificate(folder, "api", "IP:127.0.0.1")
        self.account = folder
        (folder / "ca.crt").write_bytes((folder / "tls.crt").read_bytes())
        (folder / "token").write_text(token)
        self.lock = threading.Lock()
        self.refused = []
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

    def handler(self, token):
        api = self

        class Handler(http.server.BaseHTTPRequestHandler):
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
                        status, reply = api.answer(self.command, self.path, body)
                text = json.dumps(reply).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_PUT = do_PATCH = do_POST = do_any

            def log_message(self, *_):
                pass

        return Handler
