"""Applications of a test cluster: redis in Deployments under Pod Security `restricted`, and their images. Claims of RNICs."""
import containers

DRA_DRIVER = "rdma.fairlead.test"  # tests/two_nodes/dra_driver/main.go
VERSION = "0.1.0"
IMAGES = {containers.FAIRLEAD: VERSION, containers.REDIS: "1", containers.PAUSE: "1"}
SHOP = ("-n", "shop")
PORT = 6379
GRACE_SECONDS = 20
REQUESTS_TO_EARN = 20  # SMC-R, see smc.defer_turns
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace",
             "metadata": {"name": "shop", "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "redis", "namespace": "shop"},
           "spec": {"selector": {"app": "redis"}, "ports": [{"port": PORT}], "ipFamilyPolicy": "PreferDualStack"}}


def device_class():
    """A class of that driver's devices."""
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "rnic"},
            "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{DRA_DRIVER}'"}}]}}


def claim_template(name, rnic):
    """Of claims for a device of this RNIC."""
    selector = {"cel": {"expression": f"device.attributes['{DRA_DRIVER}'].rnic == '{rnic}'"}}
    request = {"name": "nic", "exactly": {"deviceClassName": "rnic", "selectors": [selector]}}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": name, "namespace": "shop"},
            "spec": {"spec": {"devices": {"requests": [request]}}}}


def deployment(name, **spec):
    """redis-server, also in the client's pod, because it keeps running and the image has no sleep. `spec` is added to the pod's."""
    labels = {"app": name}
    redis = {"name": "redis", "image": f"{containers.REDIS}:{IMAGES[containers.REDIS]}",
             "command": ["/usr/bin/redis-server", "--bind", "*", "-::*", "--protected-mode", "no", "--save", "",
                         "--dir", "/tmp"],
             "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1},
             "securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "allowPrivilegeEscalation": False,
                                 "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"}}}
    pod = {"terminationGracePeriodSeconds": GRACE_SECONDS, "containers": [redis], **spec}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "shop"},
            "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}}


def archives(runtime):
    """Files of all images, Fairlead's from the runtime's own store, the others created here."""
    runtime.make_redis()
    runtime.make_pause()
    return [runtime.archive(name, tag) for name, tag in IMAGES.items()]
