"""Runs inside a guest and executes requests of the host, which come over a virtio port.

One JSON object a line, both ways. From the host:
  {"id": 7, "op": "exec", "argv": [...], ...}      run a program; its output is kept, or goes to a log
  {"id": 7, "op": "call", "function": "traffic.echo", "arguments": {...}, ...}    call a Python function of the guest folder
  {"id": 7, "op": "signal", "signal": 15}          to the process, or with "group" to all it started
Both of the former take "netns" (a name), "uid", "cgroup" (a path below the hierarchy), "environment".
To the host: {"hello": …} when the port opens, then for each id any number of {"id", "event": …} and at
last {"id", "exit", "output", "value" or "error"}.
"""
import ctypes
import importlib
import json
import os
import resource
import select
import signal
import sys
import tempfile
import traceback
from pathlib import Path

OUTPUT_BYTES_MAX = 4 << 20
CLONE_NEWNET = 0x40000000
PR_SET_NO_NEW_PRIVS = 38

libc = ctypes.CDLL(None, use_errno=True)


def open_port():
    for name in Path("/sys/class/virtio-ports").glob("*/name"):
        if name.read_text().strip() == "fairlead.agent":
            return os.open(f"/dev/{name.parent.name}", os.O_RDWR)
    raise SystemExit("no virtio port fairlead.agent")


def check(result, what):
    if result != 0:
        raise OSError(ctypes.get_errno(), what)


def become(request):
    """In the child: enters the requested namespace and cgroup, and drops rights."""
    os.setsid()
    # Python ignores the signal, and programs would inherit that.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    if request.get("cgroup"):
        folder = Path("/sys/fs/cgroup") / request["cgroup"]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cgroup.procs").write_text(str(os.getpid()))
    if request.get("netns"):
        with open(f"/run/netns/{request['netns']}", "rb") as namespace:
            check(libc.setns(namespace.fileno(), CLONE_NEWNET), f"setns {request['netns']}")
    if "memlock" in request:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (request["memlock"], request["memlock"]))
    if request.get("uid"):
        os.setgroups([])
        os.setresgid(request["uid"], request["uid"], request["uid"])
        os.setresuid(request["uid"], request["uid"], request["uid"])
        check(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    os.environ.update(request.get("environment", {}))


class Child:
    """A process of a request: its pidfd, the pipe for its events and the file for its output."""

    def __init__(self, request):
        self.id = request["id"]
        self.log = request.get("log")
        self.output = open(self.log, "ab") if self.log else tempfile.TemporaryFile(dir="/run")
        self.buffer = b""
        self.last = {}
        self.pipe_open = True
        self.pipe, write_end = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            self.run_child(request, write_end)
        os.close(write_end)
        self.pidfd = os.pidfd_open(self.pid)

    def run_child(self, request, pipe):
        code = 1
        try:
            nothing = os.open("/dev/null", os.O_RDONLY)
            os.dup2(nothing, 0)
            os.dup2(self.output.fileno(), 1)
            os.dup2(self.output.fileno(), 2)
            become(request)
            if request["op"] == "exec":
                os.execvp(request["argv"][0], request["argv"])
            self.call(request, pipe)
            code = 0
        except BaseException as error:  # every error must reach the host
            traceback.print_exc()
            tell(pipe, {"error": f"{type(error).__name__}: {error}"})
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    @staticmethod
    def call(request, pipe):
        module, name = request["function"].split(".")
        function = getattr(importlib.import_module(module), name)
        if getattr(function, "speaks", False):
            value = function(lambda **event: tell(pipe, {"event": event}), **request["arguments"])
        else:
            value = function(**request["arguments"])
        tell(pipe, {"value": value})

    def read_events(self):
        """The current contents of the pipe."""
        while select.select([self.pipe], [], [], 0)[0]:
            part = os.read(self.pipe, 1 << 16)
            if not part:
                break
            self.buffer += part
        *lines, self.buffer = self.buffer.split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "event" in message:
                yield {"id": self.id, **message}
            else:
                self.last = message

    def finish(self):
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        size = os.fstat(self.output.fileno()).st_size
        output = b"" if self.log else os.pread(self.output.fileno(), OUTPUT_BYTES_MAX,
                                               max(0, size - OUTPUT_BYTES_MAX))
        os.close(self.pipe)
        os.close(self.pidfd)
        self.output.close()
        return {"id": self.id, "exit": status, "output": output.decode(errors="replace"), **self.last}


def tell(pipe, message):
    os.write(pipe, json.dumps(message).encode() + b"\n")


class Agent:
    def __init__(self):
        self.port = open_port()
        self.children = {}
        self.poll = select.poll()
        self.poll.register(self.port, select.POLLIN)

    def send(self, message):
        data = json.dumps(message).encode() + b"\n"
        while data:
            data = data[os.write(self.port, data):]

    def handle(self, request):
        try:
            if request["op"] == "signal":
                return self.signal(request)
            child = Child(request)
        except OSError as error:
            self.send({"id": request["id"], "exit": -1, "output": "", "error": str(error)})
            return
        self.children[child.id] = child
        for fd in (child.pidfd, child.pipe):
            self.poll.register(fd, select.POLLIN)

    def signal(self, request):
        child = self.children.get(request["id"])
        if child is not None:
            send = os.killpg if request.get("group") else os.kill
            send(child.pid, request["signal"])

    def look_after(self, child, ready):
        for event in child.read_events():
            self.send(event)
        if child.pidfd in ready:
            self.poll.unregister(child.pidfd)
            if child.pipe_open:
                self.poll.unregister(child.pipe)
            del self.children[child.id]
            self.send(child.finish())
        elif ready.get(child.pipe, 0) & select.POLLHUP:
            # exec closed it; the pidfd reports the end.
            self.poll.unregister(child.pipe)
            child.pipe_open = False

    def serve(self):
        self.send({"hello": os.uname().release})
        rest = b""
        while True:
            ready = dict(self.poll.poll())
            if self.port in ready:
                part = os.read(self.port, 1 << 16)
                if not part:
                    raise SystemExit("the host has gone")
                *lines, rest = (rest + part).split(b"\n")
                for line in lines:
                    self.handle(json.loads(line))
            for child in list(self.children.values()):
                if child.pidfd in ready or child.pipe in ready:
                    self.look_after(child, ready)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    # Loaded once; children get them by fork.
    for module in ("system", "traffic", "fabric"):
        importlib.import_module(module)
    Agent().serve()
