"""The test's own container runtime: podman, which calls CNI plugins from a configuration as any runtime does.
Images and containers are in a folder of the test; the host's podman is not affected.

Environment: FAIRLEAD_IMAGES, a folder of docker/build.sh with the image; without it, docker/build.sh builds one from
the programs under test.
"""
import json
import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
NEEDED = ("podman", "buildah", "runc", "conmon", "ip")
PLUGIN_DIRS = [Path("/usr/lib/cni"), Path("/opt/cni/bin")]
FAIRLEAD = "localhost/fairlead"
REDIS = "localhost/redis"
PAUSE = "localhost/pause"
REDIS_PROGRAMS = ("redis-server", "redis-cli", "redis-benchmark")
BUILD_SECONDS_MAX = 720  # it only ends a build that hangs
# The container that keeps a pod's namespaces.
PAUSE_SOURCE = "#include <signal.h>\n#include <unistd.h>\nint main() { signal(SIGTERM, _exit); for (;;) pause(); }\n"


def why_not(*programs):
    """The reason why containers or `programs` of the test cannot run here, or None."""
    if os.geteuid() != 0:
        return "not root"
    path = os.environ["PATH"] + ":/usr/sbin:/sbin"
    missing = [name for name in (*NEEDED, *programs) if shutil.which(name, path=path) is None]
    if missing:
        return f"{', '.join(missing)} not installed; scripts/bootstrap.sh k8s"
    if not any((path / "bridge").exists() for path in PLUGIN_DIRS):
        return "the CNI plugins are not installed; scripts/bootstrap.sh k8s"
    return ""


def image_folder(build, folder):
    """Folder of the image, which is built from the programs in `build` unless the environment names one."""
    if given := os.environ.get("FAIRLEAD_IMAGES"):
        return Path(given)
    subprocess.run([ROOT / "docker" / "build.sh", "--programs", build, folder], check=True, timeout=BUILD_SECONDS_MAX,
                   stdin=subprocess.DEVNULL)
    return Path(folder)


def copy_with_libraries(program, root):
    """Copies a program of this machine and its libraries to the same paths below `root`."""
    path = shutil.which(program)
    listed = subprocess.run(["ldd", path], check=True, capture_output=True, text=True).stdout
    libraries = [word for word in listed.split() if word.startswith("/")]
    for name in (path, *libraries):
        (root / name[1:]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(name, root / name[1:])


class Runtime:
    def __init__(self, images, folder):
        self.images, self.folder = Path(images).resolve(), Path(folder)
        self.conf_dir, self.bin_dir = self.folder / "net.d", self.folder / "bin"
        for path in (self.conf_dir, self.bin_dir):
            path.mkdir()
        plugins = [str(path) for path in (self.bin_dir, *PLUGIN_DIRS)]
        # This cgroup manager and these limits also work inside a container.
        (self.folder / "containers.conf").write_text(
            f'[network]\nnetwork_backend = "cni"\nnetwork_config_dir = "{self.conf_dir}"\n'
            f"cni_plugin_dirs = {json.dumps(plugins)}\n"
            '[engine]\nruntime = "runc"\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n'
            '[containers]\nlog_driver = "k8s-file"\ndefault_ulimits = ["nofile=20000:20000", "nproc=1000:1000"]\n')
        self.environment = {**os.environ, "CONTAINERS_CONF": str(self.folder / "containers.conf")}
        self.storage = ["--storage-driver", "vfs", "--root", str(self.images / "storage"),
                        "--runroot", str(self.images / "run")]
        self.pods, self.containers = [], []

    def podman(self, *words, check=True, timeout=300):
        done = subprocess.run(["podman", *self.storage, *map(str, words)], env=self.environment, check=False,
                              capture_output=True, text=True, timeout=timeout)
        if check and done.returncode != 0:
            raise AssertionError(f"podman {' '.join(map(str, words))}: {done.stderr}")
        return done.stdout

    def buildah(self, *words):
        subprocess.run(["buildah", *self.storage, *map(str, words)], check=True, capture_output=True, text=True,
                       timeout=BUILD_SECONDS_MAX)

    def make_redis(self):
        """The application, from this machine's packages, without a registry."""
        root = self.folder / "redis"
        (root / "tmp").mkdir(parents=True)
        for program in REDIS_PROGRAMS:
            copy_with_libraries(program, root)
        self.make_image(REDIS, root)

    def make_image(self, name, root, *command):
        """Builds an image that contains only the files below `root`."""
        recipe = self.folder / "Dockerfile.files"
        recipe.write_text(f"FROM scratch\nCOPY . /\nENTRYPOINT {json.dumps(command)}\n")
        self.buildah("bud", "--isolation", "chroot", "-t", name, "-f", recipe, root)

    def make_pause(self):
        root = self.folder / "pause"
        root.mkdir()
        subprocess.run(["gcc", "-static", "-o", root / "pause", "-x", "c", "-"], input=PAUSE_SOURCE, text=True, check=True,
                       timeout=60)
        self.make_image(PAUSE, root, "/pause")

    def patched(self, name, tag):
        """A file of another image with the same content, which a runtime does not take for the same."""
        recipe = self.folder / "Dockerfile.patched"
        recipe.write_text(f"FROM {name}\nLABEL version={tag}\n")
        self.buildah("bud", "--isolation", "chroot", "--pull-never", "-t", f"{name}:{tag}", "-f", recipe, self.folder)
        return self.archive(name, tag, f"{name}:{tag}")

    def archive(self, name, tag, image=""):
        """A file that runtimes import: of `image`, or the latest one of that name."""
        path = self.folder / f"{Path(name).name}-{tag}.tar"
        path.unlink(missing_ok=True)
        self.buildah("push", image or name, f"docker-archive:{path}:{name}:{tag}")
        return path

    def why_no_container(self):
        """The reason why a plain container cannot run here, such as missing rights, or None."""
        done = subprocess.run(["podman", *self.storage, "run", "--rm", "--network", "none", REDIS, "redis-cli", "--version"],
                              env=self.environment, check=False, capture_output=True, text=True, timeout=120)
        return "" if done.returncode == 0 else "no container runs here: " + done.stderr.strip()

    def pod(self, name, network):
        self.podman("pod", "create", "--name", name, "--network", network, "--share", "net")
        self.pods.append(name)
        self.podman("pod", "start", name)  # its network namespace, by the plugins
        infra = json.loads(self.podman("pod", "inspect", name))["InfraContainerID"]
        settings = json.loads(self.podman("container", "inspect", infra))[0]["NetworkSettings"]
        return settings["Networks"][network]["IPAddress"]

    def run(self, name, *words):
        self.podman("run", "--detach", "--name", name, *words)
        self.containers.append(name)

    def logs(self, name):
        done = subprocess.run(["podman", *self.storage, "logs", name], env=self.environment, check=False,
                              capture_output=True, text=True, timeout=60)
        return done.stdout + done.stderr

    def remove_all(self):
        for name in reversed(self.containers):
            self.podman("rm", "--force", "--time", "5", name, check=False)
        for name in reversed(self.pods):
            self.podman("pod", "rm", "--force", "--time", "5", name, check=False)
