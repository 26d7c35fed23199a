"""Goal: for any standard input and environment the plugin answers with a result, or with an error that names
key, value and the allowed values. It never crashes, hangs, or changes a pod partially."""
import json
import random

from plugin import IN, SLOWNESS, PluginTest, main

# Key path in the configuration, a value, and words of the error besides the key.
BAD_CONFIGS = [
    ("logLevel", "loud", ["debug, info, warn or error"]),
    ("runDir", "run", ["absolute path"]), ("runDir", "/" + "x" * 100, ["80 characters"]),
    ("ports", [4540], ["{outbound, inbound}"]), ("ports", {"other": 1}, ["other", "outbound, inbound"]),
    ("ports", {"outbound": 0}, ["1 to 65535"]), ("ports", {"inbound": 70000}, ["70000", "1 to 65535"]),
    ("ports", {"inbound": 4540}, ["not that of ports.outbound"]),
    ("ports", {"inbound": "4543"}, ['"4543"', "1 to 65535"]),
    ("proxyUid", 0, ["1 to 4294967294"]), ("proxyUid", 1.5, ["1.5"]),
    ("rnicMode", "vf", ["auto, shared or none"]), ("failClosed", "yes", ["true or false"]),
    ("pnet", {}, ["{id, rnics, interfaces, namespaces}"]), ("pnet", [{"id": "NET-A", "rnics": ["a/1"]}], ["NET-A"]),
    ("pnet", [{"id": "NETA", "rnics": ["mlx5_0"]}], ["pnet[0].rnics", "mlx5_0"]),
    ("pnet", [{"id": "NETA", "rnics": ["mlx5_0/256"]}], ["pnet[0].rnics", "mlx5_0/256"]),
    ("pnet", [{"id": "NETA"}], ["pnet[0]"]),
    ("pnet", [{"id": "NETA", "rnics": ["a/1"], "namespaces": ["a_b"]}], ["pnet[0].namespaces[0]", "a_b", "a-z, 0-9 and '-'"]),
    ("pnet", [{"id": "NETA", "rnics": ["a/1"], "namespaces": "shop"}], ["pnet[0].namespaces", "shop", "names of namespaces"]),
    ("includeCIDRs", [], ["1 to 64"]), ("includeCIDRs", ["10.0.0.1/8"], ["includeCIDRs[0]", "10.0.0.1/8"]),
]
BAD_ANNOTATIONS = {
    "fairlead.io/skip-outbound-ports": ["", "0", "65536", "80,", "9-8", "http", "80;443", "1-2-3"],
    "fairlead.io/skip-inbound-ports": ["-1"], "fairlead.io/include-inbound-ports": ["*"],
    "fairlead.io/skip-subnets": ["10.0.0.0/33", "10.0.0.1/8", "fd00::/129", "x", ""],
    "fairlead.io/include-cidrs": ["all"], "fairlead.io/pnet-id": ["", "NET_A", "A" * 17]}


class Input(PluginTest):
    def test_configuration_errors_name_key_value_and_what_is_allowed(self):
        pod = self.pod()
        before = pod.snapshot()
        for key, value, words in BAD_CONFIGS:
            self.bad(7, [key, "is not allowed; allowed: ", *words], "ADD", pod, IN, **{key: value})
            self.add(pod, {}, **({} if key == "runDir" else {key: value}))
        self.assertEqual(pod.snapshot(), before)

    def test_annotation_errors_name_key_value_and_what_is_allowed(self):
        pod = self.pod()
        before = pod.snapshot()
        for key, values in BAD_ANNOTATIONS.items():
            for value in values:
                self.bad(7, [f'{key}: "{value}" is not allowed; allowed: '], "ADD", pod,
                         {**IN, key: value})
        self.assertEqual(pod.snapshot(), before)

    def test_environment_errors_name_the_variable(self):
        pod = self.pod()
        for name, values in {"CNI_COMMAND": [None, "", "add", "UPDATE"],
                             "CNI_CONTAINERID": [None, "", "../x", "a/b", "a" * 129, ".", "-a"],
                             "CNI_IFNAME": [None, "", "..", "a/b", "a b", "x" * 16, "a:1"],
                             "CNI_NETNS": [None, ""]}.items():
            for value in values:
                self.bad(4, [name, "allowed: "], "ADD", pod, IN, env={name: value})

    def test_versions_that_are_not_ours(self):
        pod = self.pod()
        for version in ("", "0.2.0", "2.0.0", "1.1", "1.1.0 "):
            self.bad(1, ["cniVersion", f'"{version}"', "0.3.1, 0.4.0, 1.0.0, 1.1.0"], "ADD", pod, IN,
                     cniVersion=version)
        self.bad(1, ["has no CHECK", "0.4.0 and later"], "CHECK", pod, IN, cniVersion="0.3.1")
        self.bad(1, ["has no GC"], "GC", cniVersion="1.0.0")

    def test_no_previous_result(self):
        pod = self.pod()
        for verb in ("ADD", "CHECK"):
            self.bad(7, ["prevResult", "missing"], verb, pod, IN, prevResult=None)
            self.bad(7, ["prevResult", "an object"], verb, pod, IN, prevResult=[1])

    def test_previous_results_of_all_shapes(self):
        """Other plugins define these keys; the plugin echoes them, and reads addresses."""
        for result in ({}, {"ips": None}, {"ips": [None, {}, {"address": 5}, {"address": "x"}]},
                       {"ips": {}, "extra": [1, {"a": "\u00fc"}]}):
            answer = self.good("ADD", self.pod(), IN, prevResult=result)
            self.assertEqual(answer.json, {**result, "cniVersion": "1.1.0"})

    def test_not_json(self):
        pod = self.pod()
        for text in ("", "nonsense", "{", "[]", "7", '{"a":1}}', "\0", b"\xff\xfe{}", "[" * 100000,
                     '{"a":' * 40 + "1" + "}" * 40, "{" + " " * (1 << 20) + "}"):
            for verb in ("ADD", "CHECK", "GC", "STATUS"):
                answer = self.raw(self.environment(verb, pod), text)
                self.assertEqual((answer.code, answer.json["code"]), (1, 6), (verb, text[:40]))

    def test_runtime_config_of_other_shapes(self):
        pod = self.pod()
        key = "io.kubernetes.cri.pod-annotations"
        for value in (5, {key: []}, {key: {"a": 1}}, {"cgroupPath": 7}):
            self.bad(7, ["allowed: "], "ADD", pod, IN, runtimeConfig=value)
        for value in ({key: None}, None, {}):
            self.good("ADD", pod, IN, runtimeConfig=value)
        self.add(pod, runtimeConfig={key: IN, "cgroupPath": "/../../etc"})
        self.assertEqual([problem["code"] for problem in self.state(pod)["problems"]], [106])

    def test_damaged_configurations(self):
        """Seeded mutations of a valid configuration always get an answer in JSON."""
        pod = self.pod()
        text = json.dumps(self.config(pod, IN)).encode()
        chance = random.Random(254)
        for _ in range(int(100 / SLOWNESS)):
            damaged = bytearray(text)
            for _ in range(chance.randint(1, 4)):
                at = chance.randrange(len(damaged))
                damaged[at:at + chance.randint(0, 3)] = bytes(
                    chance.choice(b'{}[]",:0\\ \xff\x00a') for _ in range(chance.randint(0, 3)))
            answer = self.raw(self.environment("ADD", pod), bytes(damaged))
            self.assertTrue("code" in answer.json or answer.code == 0, bytes(damaged))
        # The mutation may have changed the path of the state, so a valid call follows for all pods.
        self.good("DEL", pod)


if __name__ == "__main__":
    main()
