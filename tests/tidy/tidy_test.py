"""Every check of tidy.py finds what it is for, and lets pass what is right."""
import unittest

import arrows
import assertions
import claims
import classes
import commands
import documents
import function_length
import language
import raisers
import source_tree
import style
import tidy

# (check, path, text that is right, text that is not, part of the finding)
CASES = [
    (assertions.check_assertions, "docs/assertions.md", "| file | condition |\n",
     "| `proxy/base/a.cc` | `a` | gone |\n", "no such assertion any more"),
    (arrows.check_arrows, "proxy/smc/group/link.cc", '#include "wire/llc.h"\n',
     '#include "rdma/device.h"\n', "smc may not include rdma/device.h"),
    (arrows.check_arrows, "proxy/base/log.cc", '#include "base/log.h"\n',
     '#include "event/stream.h"\n', "base may not include"),
    (arrows.check_arrows, "proxy/admin/server.cc", '#include "event/stream.h"\n',
     '#include "relay/worker/worker.h"\n', "admin may not include"),
    (arrows.check_arrows, "proxy/relay/worker/worker.cc", '#include "rdma/device.h"\n',
     '#include "rdma/shm/shm_device.h"\n', "and proxy/devices/ and proxy/app/ may include"),
    (arrows.check_arrows, "proxy/rdma/shm/shm_device.cc", '#include "rdma/shm/memory/shm_ring.h"\n',
     '#include "rdma/verbs/verbs_device.h"\n', "and proxy/devices/ and proxy/app/ may include"),
    (arrows.check_arrows, "injector/patch.cc", '#include "injector/patch.h"\n',
     '#include "relay/worker/worker.h"\n', "injector may not include relay/worker/worker.h"),
    (arrows.check_arrows, "proxy/ctl/app.cc", '#include "admin/metric_catalog.h"\n', '#include "relay/worker/worker.h"\n',
     "ctl may not include relay/worker/worker.h"),
    (arrows.check_arrows, "proxy/app/main.cc", '#include "parking/description.h"\n', '#include "ctl/app.h"\n',
     "app may not include ctl/app.h"),
    (arrows.check_arrows, "proxy/parking/parcel.cc", '#include "relay/worker/worker_thread.h"\n', '#include "admin/api.h"\n',
     "parking may not include admin/api.h"),
    (arrows.check_arrows, "proxy/relay/worker/worker.cc", '#include "worker.h"\n', '#include "parking/parcel.h"\n',
     "relay may not include parking/parcel.h"),
    (arrows.check_arrows, "cni/node/agent/agent.cc", '#include "parking/keeper_record.h"\n',
     '#include "parking/description.h"\n', "only files of proxy/parking/ and proxy/app/ may include"),
    (arrows.check_arrows, "proxy/ctl/app.cc", '#include "parking/keeper_session.h"\n',
     '#include "parking/description.h"\n', "only files of proxy/parking/ and proxy/app/ may include"),
    (arrows.check_arrows, "proxy/relay/worker/worker.cc", '#include <sys/socket.h>\n', '#include "newcomer/a.h"\n',
     "newcomer/a.h is of no layer"),
    (arrows.check_arrows, "proxy/relay/worker/worker.cc", '#include "base/log.h"\n', '#include "../ctl/app.h"\n',
     "../ctl/app.h is of no layer"),
    (arrows.check_homes, "proxy/rdma/verbs/verbs_device.cc", "#include <infiniband/verbs.h>\n",
     "#include <event2/event.h>\n", "belongs into proxy/event/"),
    (arrows.check_homes, "proxy/config/document.cc", "#include <yaml-cpp/parser.h>\n",
     "#include <nlohmann/json.hpp>\n", "belongs into proxy/json/"),
    (arrows.check_homes, "proxy/base/log.cc", "#include <spdlog/spdlog.h>\n",
     "#include <CLI/CLI.hpp>\n", "belongs into proxy/app/main.cc"),
    (arrows.check_homes, "proxy/relay/worker/worker.cc", "#include <sys/socket.h>\n#include <vector>\n",
     "#include <newcomer/a.h>\n", "<newcomer/a.h> has no home"),
    (arrows.check_homes, "proxy/relay/worker/worker.cc", "#include <tl/expected.hpp>\n", "#include <ctl/app.h>\n",
     "<ctl/app.h> has no home"),
    (arrows.check_pure_layers, "proxy/wire/cdc.cc", "#include <cstring>\n",
     "#include <sys/socket.h>\n", "no place in a pure layer"),
    (arrows.check_pure_layers, "proxy/smc/group/link.cc", "void f(TimePoint now);\n",
     "auto now = std::chrono::steady_clock::now();\n", "_clock::now"),
    (arrows.check_pure_layers, "proxy/smc/group/link.cc", "// a <mutex> in words\n", "#include <mutex>\n",
     "no place in a pure layer"),
    (arrows.check_pure_layers, "proxy/smc/group/link.cc", '#include "base/result.h"\n',
     '#include "base/log.h"\n', "no place in a pure layer"),
    (classes.check_classes, "proxy/base/a.h", "struct A {\n  A();\n" + "  int a;\n" * 21 + "};\n",
     "struct A {\n  int f() const { return 1; }\n" + "  int a;\n" * 21 + "};\n", "21 data members, 20"),
    (classes.check_classes, "proxy/base/a.h", "class A {\n  A();\n" + "  std::map<int, int> a_{1, 2};\n" * 20 + "};\n",
     "class A {\n" + "  int a_ = 0, b_;\n" * 11 + "};\n", "22 data members, 20 allowed"),
    (classes.check_classes, "proxy/base/a.h", "class A {\n" + "  void f();\n" * 30 + "};\n",
     "class A {\n" + "  void f();\n" * 31 + "};\n", "31 private functions, 30 allowed"),
    (classes.check_classes, "proxy/base/a.h", "struct A {\n" + "  int a;\n" * 30 + "};\n",
     "class A {\n" + "  std::function<void(int)> a_;\n" * 21 + "};\n", "21 data members, 20 allowed"),
    (language.check_phrases, "docs/a.md", "The proxy tries again.\n", "The proxy tries a" + "new.\n", "say it plainly"),
    (language.check_phrases, "proxy/base/a.h", "// A leaf.\n", "// It waits for\n  // e" + "ver.\n", "say it plainly"),
    (style.check_file_size, "proxy/base/ids.cc", "int a;\n" * 600, "int a;\n" * 601, "600 allowed"),
    (style.check_file_size, "tests/unit/base/ids_test.cc", "int a;\n" * 800, "int a;\n" * 801, "800 allowed"),
    (style.check_function_size, "proxy/base/ids.cc", "void f() {\n" + "a;\n" * 68 + "}\n",
     "void f() {\n" + "a;\n" * 69 + "}\n", "71 lines, 70 allowed: void f()"),
    (style.check_function_size, "tests/unit/a_test.cc", "TEST(A, B) {\n" + "a;\n" * 68 + "}\n",
     "TEST(A, B) {\n" + "a;\n" * 69 + "}\n", "TEST(A, B)"),
    (style.check_function_size, "scripts/a.py", "def f():\n" + "    a = 1\n" * 69,
     "def f():\n" + "    a = 1\n" * 70, "71 lines, 70 allowed: def f"),
    (style.check_markers, "README.md", "to do\n", "TO" + "DO: write\n", "leftover"),
    (style.check_markers, "proxy/base/ids.cc", "mkstemp(\"/tmp/a-XXXXXX\");\n", "// FIX" + "ME\n",
     "leftover"),
    (style.check_banned, "proxy/relay/worker/worker.cc", "std::unique_ptr<int> a;  // no shared_ptr\n",
     "std::shared_ptr<int> a;\n", "unique_ptr or value"),
    (style.check_banned, "proxy/relay/worker/worker.cc", 'log("do not throw it");\n', "throw 1;\n",
     "errors are values"),
    (style.check_banned, "tests/unit/a_test.cc", "clock.advance(1s);\n",
     "std::this_thread::sleep_for(1s);\n", "synchronises nothing"),
    (style.check_banned, "tests/unit/a_test.cc", "usleeper();\n", "::usleep(1);\n",
     "synchronises nothing"),
    (style.check_banned, "proxy/relay/worker/worker.cc", "struct ibv_context;\nclass Worker {\n",
     "class WorkerManager {\n", "say what it is"),
    (style.check_banned, "tests/unit/a_test.cc", '#include "base/ids.h"\n',
     "#define private public\n", "public interfaces"),
    (style.check_banned, "proxy/relay/worker/worker.cc", "snprintf(a, 1, b);\n", "strcpy(a, b);\n",
     "no bounds"),
    (style.check_banned, "proxy/relay/worker/worker.cc", "static_assert(a);\nSMC_ASSERT(a);\n",
     "assert(a);\n", "on in every build"),
    (style.check_banned, "tests/sim/main.cc", "#ifdef FAIRLEAD_ADDRESS_SANITIZER\n", "#ifdef __SANITIZE_ADDRESS__\n",
     "clang 14 lacks it"),
    (style.check_headers, "proxy/base/ids.h", "// Ids.\n#pragma once\n", "#pragma once\n",
     "opens with what it is for"),
    (style.check_headers, "proxy/base/ids.h", "// Ids.\n#ifndef A\n", "// Ids.\n", "not guarded"),
    (style.check_headers, "proxy/base/ids.h", "// Ids.\n#pragma once\nusing std::swap;\n",
     "// Ids.\n#pragma once\nusing namespace std;\n", "using namespace"),
    (style.check_text, "README.md", "a\n", "a \n", "end of the line"),
    (style.check_text, "README.md", "a\n", "a\r\n", "end of the line"),
    (style.check_text, "README.md", "a\n", "a", "no newline"),
    (style.check_text, "README.md", "ä\n", "\ufffd\n", "not UTF-8"),
    (style.check_text, "proxy/base/ids.cc", "  a;\n", "\ta;\n", "tab"),
]


class Checks(unittest.TestCase):
    def test_each_finds_the_wrong_text_and_passes_the_right_one(self):
        for check, path, right, wrong, finding in CASES:
            with self.subTest(check=check.__name__, wrong=wrong[:60]):
                self.assertEqual(list(check({path: right})), [])
                found = list(check({path: wrong}))
                self.assertTrue(found)
                self.assertIn(finding, found[0][2])
                self.assertEqual(found[0][0], path)

    def test_every_source_belongs_to_a_layer(self):
        for path in ("proxy/newcomer/a.cc", "newcomer/a.h", "proxy/a.cc", "a.cc"):
            with self.subTest(path):
                self.assertIn("is no layer", list(arrows.check_arrows({path: ""}))[0][2])
        for path in ("tests/unit/a/a_test.cc", "cmake/check.cc", "proxy/newcomer/a.md"):
            with self.subTest(path):
                self.assertEqual(list(arrows.check_arrows({path: '#include "newcomer/a.h"\n'})), [])

    def test_documents_show_the_layers_that_there_are(self):
        rows = [f"    {layer}  what it is  {', '.join(names) or '–'}" for layer, names in arrows.ARROWS.items()]
        picture = [f"{layer}  ──► {' '.join(names)}  relay of words\n   smc" if names else f"{layer}    base values"
                   for layer, names in arrows.ARROWS.items()]
        contributing, architecture = "CONTRIBUTING.md", "docs/architecture.md"
        tree = {contributing: "# A\n\n## Layers\n\n" + "\n".join(rows) + "\n\nText.\n\n## Style\n\n    git it\n",
                architecture: "# A\n## Layers\n```\n" + "\n".join(picture) + "\n```\n\nText.\n\n## B\n```\nnone\n```\n",
                "tests/tidy/arrows.py": "", **{f"proxy/{layer}/a.cc": "" for layer in arrows.ARROWS}}
        self.assertEqual(list(arrows.check_layers(tree)), [])
        parking = 5 + list(arrows.ARROWS).index("parking")
        for path, old, new, finding in (
                (contributing, "    parking  what it is  relay, event, base\n", "",
                 (contributing, 1, "its table of layers has no row for parking")),
                (contributing, "    parking  what it is  relay, ", "    parking  what it is  ",
                 (contributing, parking, "parking may include relay, event, base, not event, base")),
                (contributing, "    parking", "    bus  what it is  base\n    parking",
                 (contributing, parking, "bus is no layer of ARROWS")),
                (architecture, "smc  ──► wire base", "smc  ──► wire base event",
                 (architecture, 7, "smc may include wire, base, not wire, base, event")),
                (architecture, "base    base values\n", "",
                 (architecture, 1, "its table of layers has no row for base"))):
            with self.subTest(finding):
                changed = {**tree, path: tree[path].replace(old, new)}
                self.assertEqual(list(arrows.check_layers(changed)), [finding])
        del tree["proxy/parking/a.cc"]
        self.assertEqual(list(arrows.check_layers(tree)), [("tests/tidy/arrows.py", 1, "there are no sources of parking")])

    def test_the_page_about_the_code_shows_the_rooms_that_there_are(self):
        page = "docs/architecture.md"
        rooms = "| `proxy/relay/group`, `pipes` | bytes, `here` |\n| `cni/node/broker` | memory |\n"
        tree = {page: f"# A\n\n| folder | what is there |\n|---|---|\n{rooms}\nText of `proxy/smc`.\n",
                **dict.fromkeys(("proxy/relay/a.cc", "proxy/relay/group/a.h", "proxy/relay/pipes/a.h", "proxy/smc/a.cc",
                                 "cni/a.cc", "cni/node/a.cc", "cni/node/broker/a.cc", "injector/a.cc",
                                 "tests/unit/cni/a.cc"), "")}
        self.assertEqual(list(arrows.check_rooms(tree)), [])
        for path in ("proxy/smc/newcomer/a.h", "cni/newcomer/a.cc", "injector/newcomer/a.cc", "cni/node/newcomer/a.cc"):
            with self.subTest(path):
                self.assertEqual(list(arrows.check_rooms({**tree, path: ""})),
                                 [(page, 1, f"its table of rooms has no {path.rpartition('/')[0]}")])
        without = {path: text for path, text in tree.items() if path != "proxy/relay/pipes/a.h"}
        self.assertEqual(list(arrows.check_rooms(without)), [(page, 5, "there are no sources in proxy/relay/pipes")])
        self.assertTrue(list(arrows.check_rooms({**tree, page: "# A\n"})))

    def test_every_check_is_tested(self):
        tested = {case[0] for case in CASES} | {arrows.check_layers, arrows.check_rooms, style.check_dead_files,
                                                  style.check_links, language.check_headings,
                                                  raisers.check_reasons, raisers.check_delete_reasons,
                                                  raisers.check_counters, raisers.check_metrics, raisers.check_facts,
                                                  documents.check_anchors, documents.check_coverage, documents.check_names,
                                                  documents.check_options, commands.check_commands, claims.check_claims}
        self.assertEqual(set(tidy.CHECKS), tested)

    def test_excuses_hold_only_at_home(self):
        text = "std::make_shared<int>();\n"
        self.assertEqual(list(style.check_banned({"proxy/base/log.cc": text})), [])
        self.assertTrue(list(style.check_banned({"proxy/base/ids.cc": text})))

    def test_dead_sources_headers_and_scripts(self):
        tree = {
            "CMakeLists.txt": "add_library(a used.cc tool.c)\nadd_test(NAME t COMMAND run.py)\n"
                              "add_test(NAME u COMMAND python3 -m unittest unit)\n",
            "proxy/a/used.cc": '#include "a/used.h"\n#include "beside.h"\n',
            "proxy/a/used.h": "", "proxy/a/beside.h": "", "proxy/a/tool.c": "",
            "tests/run.py": "import library\n", "tests/library.py": "",
            "tests/unit.py": "",
        }
        self.assertEqual(list(style.check_dead_files(tree)), [])
        for path in ("proxy/a/unused.cc", "proxy/a/used.h.cc", "proxy/a/unused.h", "tests/lost.py",
                     "scripts/lost.sh", "tests/brary.py"):
            with self.subTest(path=path):
                self.assertEqual([f[0] for f in style.check_dead_files({**tree, path: ""})], [path])

    def test_files_named_by_a_pattern_are_alive(self):
        tree = {"a/CMakeLists.txt": "foreach(t clc llc)\nadd_executable(x ${t}_fuzzer.cc)\n"
                                    "add_test(NAME ${t} COMMAND ${t}_test.py)\n",
                "a/clc_fuzzer.cc": "", "a/llc_test.py": ""}
        self.assertEqual(list(style.check_dead_files(tree)), [])
        for path in ("a/cdc_fuzzer.cc", "a/cdc_test.py", "b/clc_fuzzer.cc", "a/clc_other.cc"):
            with self.subTest(path=path):
                self.assertEqual([f[0] for f in style.check_dead_files({**tree, path: ""})], [path])

    def test_everything_documented_can_happen(self):
        peers = "".join(f"peers(R::{name}), " for name in raisers.PEERS_ONLY)
        injector = "injector/injector_metrics.cc"
        tree = {
            raisers.REASONS: "enum class FallbackReason {\n  kMemory,\n  kIsmVlan,\n};\n",
            raisers.REASON_TABLE: f"x = {{{peers}protocol(R::kMemory)}};\nint fallback_reason_count();\n",
            raisers.COUNTERS: "struct WorkerStats {\n  Counter a, b;\n  EnumArray<E, Counter, 4> c;\n};\n",
            "proxy/admin/metric_catalog.cc": "MetricInfo{M::kReady, x},\nis_complete(t, M::kReady);\n",
            "proxy/admin/metrics.cc": "out.set(Metric::kReady, a);\n",
            injector: "MetricInfo{M::kEvents, x},\nout.set(M::kEvents, a);\n",
            raisers.LLC: "enum class DeleteLinkReason : std::uint32_t {\n  kOk = 0,\n  kPathLost = 1,\n};\n",
            raisers.FACTS: "constexpr kFactOption;\n",
            raisers.ROWS: "struct LinkRow {\n  std::string gid, rnic;  // names\n};\n",
            raisers.HOST_FACTS: "struct HostFacts {\n  std::vector<int> ids{};\n};\n",
            "proxy/ctl/a.cc": "facts.ids = {};\n",
            "proxy/relay/a.cc": "f(R::kMemory); s.a.add(); s.b.add(); s.c[1].add(); f(kFactOption);\n"
                                "send(DeleteLinkReason::kPathLost); row.gid = a; row.rnic = b;\n"}
        checks = (raisers.check_reasons, raisers.check_delete_reasons, raisers.check_counters, raisers.check_metrics,
                  raisers.check_facts)
        self.assertEqual([finding for check in checks for finding in check(tree)], [])
        relay = "proxy/relay/a.cc"
        for path, old, new, expected in (
                (relay, "f(R::kMemory);", "", "kMemory: nothing gives"),
                (relay, "f(R::kMemory)", "fallback_info(FallbackReason::kMemory).hint", "kMemory: nothing gives"),
                (relay, "f(R::kMemory)", "if (a == FallbackReason::kMemory)", "kMemory: nothing gives"),
                (relay, "f(R::kMemory)", "FallbackReason a = FallbackReason::kMemory", "kMemory: nothing gives"),
                (relay, "R::kMemory", "R::kMemory, R::kIsmVlan", "kIsmVlan: a condition gives"),
                (raisers.REASON_TABLE, "protocol(", "peers(", "kMemory: a condition gives"),
                (raisers.REASONS, "kIsmVlan", "kNew", "kNew: nothing gives"),
                (raisers.REASON_TABLE, "peers(R::kNoSeid), ", "", "kNoSeid: PEERS_ONLY"),
                (relay, "s.b.add();", "", "b: nothing writes"),
                (relay, "s.b.add();", "f(s.b.get());", "b: nothing writes"),
                (relay, "s.c[1]", "s.d", "c: nothing writes"),
                (relay, "kFactOption", "0", "kFactOption: nothing states"),
                (relay, "send(DeleteLinkReason", "if (a == DeleteLinkReason", "kPathLost: nothing sends"),
                (relay, "row.rnic = b", "f(row.rnic)", "LinkRow::rnic: nothing fills"),
                ("proxy/ctl/a.cc", "facts.ids =", "facts.ids ==", "HostFacts::ids: nothing fills"),
                (injector, "set(M::kEvents", "set(M::kOther", "kEvents: nothing samples"),
                ("proxy/admin/metrics.cc", "kReady", "kOther", "kReady: nothing samples")):
            with self.subTest(expected):
                changed = {**tree, path: tree[path].replace(old, new)}
                found = [finding[2] for check in checks for finding in check(changed)]
                self.assertEqual(len(found), 1, found)
                self.assertIn(expected, found[0])
        new = {**tree, raisers.REASONS: tree[raisers.REASONS].replace("kIsmVlan", "kIsmVlan,\n  kNew"),
               raisers.REASON_TABLE: tree[raisers.REASON_TABLE].replace("protocol(", "peers(R::kNew), protocol(")}
        self.assertIn("kNew: why can its condition not", next(raisers.check_reasons(new))[2])

    def test_headings_that_comments_name(self):
        tree = {"docs/wire.md": "# A\n\n## Flows\n", "proxy/a.h": '// Read docs/wire.md, "Flows" and\n// "A"; RFC.\n'}
        self.assertEqual(list(language.check_headings(tree)), [])
        tree["proxy/a.h"] = '// Read docs/wire.md,\n// "Flows" and "Ebbs".\n'
        self.assertEqual([f[2] for f in language.check_headings(tree)], ['docs/wire.md has no heading "Ebbs"'])

    def test_headings_that_links_name(self):
        tree = {"README.md": "# A b\n[x](docs/a.md#the-clients-address-1) [y](#a-b)\n",
                "docs/a.md": "## The client's `address` 1\n```\n# no heading\n```\n[z](../README.md#a-b)\n"}
        self.assertEqual(list(documents.check_anchors(tree)), [])
        tree["docs/b.md"] = "one\n[w](a.md#no-heading)\n"
        self.assertEqual(list(documents.check_anchors(tree)), [("docs/b.md", 2, "docs/a.md has no heading #no-heading")])

    def test_names_that_documents_give(self):
        tree = {"docs/metrics.md": "| `fairlead_ready` | gauge |\n", "docs/annotations.md": "| `fairlead.io/inject` | injection |\n",
                "docs/values.md": "| `node.label` | |\n| `proxy.smc.gidType` | |\n", "proxy/config/keys.cc": 'key("smc.ueids");\n',
                "proxy/a.cc": 'event("ready");\n', "proxy/bpf/a.bpf.c": 'SEC("tc")\nint fairlead_syn(int a) {}\n',
                "Makefile": "arm64:\n", "tests/a_test.py": "def test_b():\n", "tests/c_test.cc": "TEST_F(Cdc,\n       Codes) {\n",
                "tests/golden/help_fairleadctl.txt": "  --admin TEXT\n"}
        right = ("fairlead_syn", "fairlead_ready", "fairlead_ready_count", "fairlead.io/inject", "fairlead.io/status", "`node.label`",
                 "`proxy.smc`", "`proxy.h`", "`smc.ueids`", "event=ready", "`make arm64`", "`a.test_b`", "`TEST(Cdc, Codes)`", "--gtest_filter='Cdc.*'",
                 "fairleadctl --admin @x", "fairleadctl why | head --bytes 1")
        wrong = {"fairlead_reday": "metric", "fairlead.io/injct": "annotation", "`node.lable`": "value of the chart",
                 "`smc.ueid`": "key", "event=raedy": "event", "`make arm`": "target", "`a.test_bb`": "test", "TEST(Cdc, Code)": "test", "--gtest_filter=Cdcs.*": "suite",
                 "fairleadctl --amdin @x": "option --amdin"}
        checks = (documents.check_names, documents.check_options)
        tree["docs/a.md"] = "\n".join(right) + "\n"
        self.assertEqual([finding for check in checks for finding in check(tree)], [])
        for text, what in wrong.items():
            with self.subTest(text):
                tree["docs/a.md"] = f"one\n{text}\n"
                ((path, line, message),) = [finding for check in checks for finding in check(tree)]
                self.assertEqual((path, line), ("docs/a.md", 2))
                self.assertIn(what, message)
        del tree["docs/a.md"]
        tree["CHANGELOG.md"] = "fairlead_gone\n"
        self.assertEqual([finding for check in checks for finding in check(tree)], [])

    def test_commands_are_run_or_marked(self):
        test = ("import documented\nSTEPS = documented.groups('docs/a.md', 'Other')\n"
                "class A:\n  def test_a(self):\n    self.b()\n  def b(self):\n    run(documented.commands('docs/a.md', 'Top', 'make'))\n"
                "  def test_c(self):\n    run(['make', 'it', X])\n    run('cd x && make that')\n  def test_d(self):\n    run(STEPS)\n"
                "  def test_e(self):\n    run('remake it')\n")
        no_test = 'no test runs this, and the page says neither "not tried" nor "tried by hand": '
        mark = "<!-- run by tests/a_test.py: {} -->\n"
        for before, block, findings in (
                ("Text.", "    make it\n    make all", [(5, no_test + "make it"), (6, no_test + "make all")]),
                ("Text.", "    $ make it\n    done\n\n    a$ make all", [(5, no_test + "make it"), (8, no_test + "make all")]),
                ("Text.", "```sh\nstrange it\n```", [(6, no_test + "strange it")]),
                ("Text.", "    A=b make it \\\n      twice", [(5, no_test + "A=b make it twice")]),
                ("Text.", "    wire   base\n    make   base", []),  # the first line decides
                ("Text.", "    make it     # not tried\n    make all  # tried by hand", []),
                ("<!-- not tried: -->", "    make it", [(5, no_test + "make it")]),
                ("It was not tried on hardware.", "    make it", [(5, no_test + "make it")]),
                ("Text. Not tried:", "    make it", []), ("Text (tried by hand):", "    make it", []),
                ("These commands were not tried:", "    make it", []),
                (mark.format("test_a"), "    make it", []), (mark.format("test_c"), "    make it", []),
                (mark.format("test_c"), "    make that", []),
                (mark.format("test_a"), "    git it", [(5, "tests/a_test.py: test_a runs none of these commands"), (5, no_test + "git it")]),
                (mark.format("test_a"), "    make it\n    git it", [(6, no_test + "git it")]),
                (mark.format("test_d"), "    make it", [(5, "tests/a_test.py: test_d runs none of these commands"), (5, no_test + "make it")]),
                (mark.format("test_e"), "    make it", [(5, "tests/a_test.py: test_e runs none of these commands"), (5, no_test + "make it")]),
                (mark.format("test_x"), "    make it", [(5, "tests/a_test.py has no test test_x"), (5, no_test + "make it")]),
                (mark.format("b"), "    make it", [(5, "tests/a_test.py has no test b"), (5, no_test + "make it")]),
                ("<!-- run by tests/x.py: test_a -->", "    make it", [(5, "there is no test tests/x.py"), (5, no_test + "make it")]),
                (mark.format("test_a"), "Text.", [(3, "a comment names a test, but does not stand in front of commands")])):
            with self.subTest(before=before, block=block):
                tree = {"docs/a.md": f"# Top\n\n{before.strip()}\n\n{block}\n", "tests/a_test.py": test}
                self.assertEqual(list(commands.check_commands(tree)), [("docs/a.md", *finding) for finding in findings])
                tree["docs/a.md"] = "The commands on this page were tried by hand.\n\n## Top\n\n    make it\n"
                self.assertEqual(list(commands.check_commands(tree)), [])

    def test_coverage_of_the_wire(self):
        head = "## Coverage\n\n| what | sent | tests |\n| --- | --- | --- |\n"
        tree = {"docs/wire.md": head + "| a | yes | `Cdc.Codes`, `a.test_b` |\n\n## Other\n| x |  |\n",
                "tests/a_test.py": "def test_b():\n", "tests/c_test.cc": "TEST_F(Cdc, Codes) {\n"}
        self.assertEqual(list(documents.check_coverage(tree)), [])
        for row, finding in (("| a |  | `Cdc.Codes` |", "a field of the coverage table is empty"),
                             ("| a | `Cdc.Codes` |", "a field of the coverage table is empty"),
                             ("| a | yes | none yet |", "a row of the coverage table names no test"),
                             ("| a | yes | `Cdc.Code` |", "there is no test Cdc.Code"),
                             ("| a | yes | `a.test_bb` |", "there is no test a.test_bb")):
            with self.subTest(row):
                tree["docs/wire.md"] = head + row + "\n"
                self.assertEqual(list(documents.check_coverage(tree)), [("docs/wire.md", 5, finding)])

    def test_what_a_document_says_is_tested(self):
        head = "| attacker | tested by |\n|---|---|\n"
        tree = {"tests/unit/a/CMakeLists.txt": "fairlead_test(a_test SOURCES b_test.cc)\nfairlead_test(other_test SOURCES c.cc)\n",
                "tests/unit/a/b_test.cc": "TEST_F(Suite, Case) {\n", "tests/unit/a/c.cc": "TEST(Far, Case) {\n",
                "tests/cni/CMakeLists.txt": "foreach(name pods)\n  add_test(NAME cni_${name} COMMAND x)\n",
                "tests/cni/pods_test.py": "", "tests/cni/plugin.py": "", "tests/lab/scenarios_ends.py": "@scenario\ndef killed(stage):\n",
                "tests/fuzz/clc_fuzzer.cc": "", "Makefile": "hostile:\n"}
        for cell in ("`pods_test.py`", "`a_test` (`Suite`), `other_test` (`Far`)", "`cni_pods` (`tests/cni/pods_test.py`)", "`b_test.cc`",
                     "`make hostile` and more", "`clc_fuzzer`", "`killed`", "`Suite`"):
            with self.subTest(cell):
                tree["docs/a.md"] = f"{head}| x | {cell} |\n\n| other |\n|---|\n| `nobody` |\n"
                self.assertEqual(list(claims.check_claims(tree)), [])
        for cell, finding in (("`gone_test.py`", "there is no test gone_test.py"), ("nothing", "the row names no test"),
                              ("", "the row names no test"), ("`a_test` (`Far`)", "a_test has no suite Far"),
                              ("`a_test` (`Gone`)", "there is no test Gone"), ("`plugin.py`", "there is no test plugin.py"),
                              ("`cni_gone`", "there is no test cni_gone"), ("`make gone`", "there is no test make gone"),
                              ("`tests/cni/gone_test.py`", "there is no test tests/cni/gone_test.py")):
            with self.subTest(cell):
                tree["docs/a.md"] = f"{head}| x | {cell} |\n"
                self.assertEqual(list(claims.check_claims(tree)), [("docs/a.md", 3, finding)])
        for words, findings in (("(`pods_test.py`, `a_test`, `Suite`)", []), ("`gone_test.py`", ["gone_test.py"]),
                                ("`a_test`, `Gone`", ["Gone"]), ("`other`, `Gone`", [])):
            with self.subTest(words):
                tree["docs/a.md"] = f"one\n{words}\n"
                self.assertEqual(list(claims.check_claims(tree)), [("docs/a.md", 2, f"there is no test {name}") for name in findings])

    def test_dead_links(self):
        tree = {"docs/a.md": "[b](b.md#part) [up](../README.md) [web](https://a.b/c) [dir](adr/)\n",
                "docs/b.md": "", "README.md": "[docs](docs) [a](#here)\n", "docs/adr/1.md": ""}
        self.assertEqual(list(style.check_links(tree)), [])
        tree["docs/b.md"] = "one\n[gone](gone.md)\n"
        self.assertEqual(list(style.check_links(tree)),
                         [("docs/b.md", 2, "the link gone.md leads nowhere")])


class Assertions(unittest.TestCase):
    SOURCE = "void f() {\n  SMC_ASSERT(a(1, 2) ||\n                 b,\n             c);\n}\n"
    ROW = "| `proxy/base/a.cc` | `a(1, 2) \\|\\| b` | Own values. |\n"

    def check(self, row, source=SOURCE):
        return list(assertions.check_assertions({"docs/assertions.md": row, "proxy/base/a.cc": source}))

    def test_each_assertion_has_a_row(self):
        self.assertEqual(self.check(self.ROW), [])
        (path, line, message), = self.check("")
        self.assertEqual((path, line), ("proxy/base/a.cc", 2))
        self.assertIn("a(1, 2) || b", message)

    def test_a_row_without_an_assertion_is_found(self):
        (path, line, _), = self.check(self.ROW, "void f() {}\n")
        self.assertEqual((path, line), ("docs/assertions.md", 1))


class FunctionLength(unittest.TestCase):
    def measure(self, text):
        return [(line, count) for line, count, _ in function_length.cxx_functions(text)]

    def test_scopes_are_not_functions_and_their_members_are(self):
        text = ("namespace a {\n"
                "class B : public C<int> {\n"
                " public:\n"
                "  explicit B(int b) : b_{b} {\n"
                "  }\n"
                "  int get() const noexcept { return b_; }\n"
                " private:\n"
                "  int b_{1};\n"
                "};\n"
                "enum class D { kOne };\n"
                'extern "C" {\n'
                "void f();\n"
                "}\n"
                "}\n")
        self.assertEqual(self.measure(text), [(4, 2), (6, 1)])

    def test_initializers_and_lambdas_belong_to_what_holds_them(self):
        self.assertEqual(self.measure("const int a[] = {1,\n2};\nstruct S s = {f(1)};\n"), [])
        self.assertEqual(self.measure("void f() {\n  g([] {\n    h();\n  });\n}\n"), [(1, 5)])

    def test_templates_with_classes_in_their_heading_are_functions(self):
        self.assertEqual(self.measure("template <class T>\nT f(T t) {\n  return t;\n}\n"), [(1, 4)])

    def test_braces_in_literals_comments_and_macros_do_not_count(self):
        text = ('#define M(x) { \\\n  x\n'
                'void f() {\n  a = "}";\n  b = \'}\';\n  // }\n  /* } */\n  c = R"({{)";\n'
                "  d = 1'000'000;\n}\nvoid g() {\n}\n")
        self.assertEqual(self.measure(text), [(3, 8), (11, 2)])


class CodeOnly(unittest.TestCase):
    def test_keeps_lines_and_columns(self):
        text = 'a /* x\ny */ "b//c" d; // e\n#include "f/g.h"  // h\n'
        code = source_tree.code_only(text)
        self.assertEqual([len(line) for line in code.split("\n")][:2],
                         [len(line) for line in text.split("\n")][:2])
        self.assertNotIn("x", code)
        self.assertNotIn("c", code.split("\n")[1])
        self.assertIn('#include "f/g.h"', code)
        self.assertNotIn("h  ", code.split("\n")[2].split('"')[2])


if __name__ == "__main__":
    unittest.main()
