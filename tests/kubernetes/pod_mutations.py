"""Values for the fields of a pod, from the API server's own schema: every field that it knows, also those of later versions."""
import copy

DEPTH_MAX = 7
# Fields that recur in themselves, or that the API server fills.
LEFT_OUT = {"ephemeralContainers"}
# Values that the API server accepts for fields whose type says too little.
KNOWN = {
    "restartPolicy": ["Always", "Never", "OnFailure"], "imagePullPolicy": ["Always", "Never"], "type": ["Unconfined", "Localhost"],
    "terminationMessagePolicy": ["File"], "protocol": ["UDP"], "scheme": ["HTTPS"], "procMount": ["Unmasked"],
    "mountPath": ["/usr/local", "/dev/infiniband", "/var/run/secrets/kubernetes.io/serviceaccount"],
    "devicePath": ["/dev/infiniband/uverbs0"], "mountPropagation": ["Bidirectional"], "add": [["SYS_PTRACE"]],
    "command": [["sh"]], "args": [["--help"], []], "fieldPath": ["metadata.name"], "path": ["/x"], "port": [1, "x"],
    "dnsPolicy": ["Default", "None"], "preemptionPolicy": ["Never"], "runAsUser": [0], "runAsGroup": [0],
    "supplementalGroups": [[0], [44]], "fsGroup": [0, 44], "fsGroupChangePolicy": ["Always"], "supplementalGroupsPolicy": ["Strict"],
    "localhostProfile": ["x"], "hostPath": [{"path": "/"}], "image": ["evil.example/x:1"], "name": ["LD_PRELOAD", "x"],
    "containerPort": [1], "hostPort": [4590], "resizePolicy": [[{"resourceName": "cpu", "restartPolicy": "NotRequired"}]],
    "terminationMessagePath": ["/dev/infiniband/x"], "stopSignal": ["SIGKILL"], "requests": [{"cpu": "1"}, {"hugepages-2Mi": "2Mi"}],
    "limits": [{"memory": "1Gi"}, {"rdma/x": "1"}], "host": ["192.0.2.1"], "seLinuxChangePolicy": ["MountOption"],
    "shareProcessNamespace": [True], "sysctls": [[{"name": "net.ipv4.tcp_syncookies", "value": "1"}]], "service": ["x"],
}


class Schema:
    def __init__(self, document):
        self.schemas = document["components"]["schemas"]

    def named(self, kind):
        return self.schemas[f"io.k8s.api.core.v1.{kind}"]

    def resolved(self, schema):
        while True:
            if "$ref" in schema:
                schema = self.schemas[schema["$ref"].rsplit("/", 1)[1]]
            elif len(schema.get("allOf", ())) == 1:
                schema = schema["allOf"][0]
            else:
                return schema

    def values(self, name, schema, depth=0):
        """Values of a field: for an object one for each field in it, with what that field requires."""
        if name in KNOWN:
            return copy.deepcopy(KNOWN[name])
        schema = self.resolved(schema)
        if depth > DEPTH_MAX or "oneOf" in schema:
            return ["1"]
        kind = schema.get("type")
        if kind == "array":
            return [[value] for value in self.values(name.removesuffix("s"), schema["items"], depth + 1)]
        if kind == "object" and "properties" not in schema:
            return [{"x": "y"}]
        if kind == "object":
            return self.objects(schema, depth)
        return {"string": ["x"], "integer": [1, 0], "boolean": [True, False], "number": [1]}.get(kind, ["1"])

    def objects(self, schema, depth):
        least = {key: self.values(key, schema["properties"][key], depth + 1)[0] for key in schema.get("required", ())}
        all_of_them = [least] if least else [{}]
        for key, inner in schema["properties"].items():
            if key not in LEFT_OUT:
                all_of_them += [{**least, key: value} for value in self.values(key, inner, depth + 1)]
        return all_of_them

    def fields(self, kind):
        """{field: values}"""
        return {key: self.values(key, schema) for key, schema in self.named(kind)["properties"].items() if key not in LEFT_OUT}
