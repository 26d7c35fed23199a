// Goal: only the sidecar as the injection makes it gets a device. Method: descriptions as container
// runtimes send them for an injected sidecar, and the same with one changed value, a row for each.
#include <gtest/gtest.h>

#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "cni/node/nri/sidecar_program.h"

namespace fairlead::cni::node::nri {
namespace {

std::vector<std::string> words(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

const std::vector<std::string> kArgs = {"/usr/local/bin/fairlead-proxy", "--config",
                                        "/etc/fairlead/pod.yaml"};
const std::vector<std::string> kInjected = words(
    "FAIRLEAD_ADMIN_LISTEN=[::]:4590 FAIRLEAD_CONCURRENCY=0 FAIRLEAD_FALLBACK=allow "
    "FAIRLEAD_LOG_LEVEL=info FAIRLEAD_LOG_FORMAT=text FAIRLEAD_DRAIN_TIMEOUT=30s "
    "FAIRLEAD_MEMORY_LIMIT=268435456 SMC_PNET_ID=NETA");
// For the Service web with the ports http and metrics.
const std::vector<std::string> kServiceLinks = words(
    "KUBERNETES_SERVICE_HOST=10.96.0.1 KUBERNETES_SERVICE_PORT=443 "
    "KUBERNETES_SERVICE_PORT_HTTPS=443 KUBERNETES_PORT=tcp://10.96.0.1:443 "
    "KUBERNETES_PORT_443_TCP=tcp://10.96.0.1:443 KUBERNETES_PORT_443_TCP_PROTO=tcp "
    "KUBERNETES_PORT_443_TCP_PORT=443 KUBERNETES_PORT_443_TCP_ADDR=10.96.0.1 "
    "MY_WEB_SERVICE_HOST=10.96.7.7 MY_WEB_SERVICE_PORT=80 MY_WEB_SERVICE_PORT_HTTP=80 "
    "MY_WEB_SERVICE_PORT_METRICS_2=9100 MY_WEB_PORT=tcp://10.96.7.7:80 "
    "MY_WEB_PORT_80_TCP=tcp://10.96.7.7:80 MY_WEB_PORT_80_TCP_PROTO=tcp "
    "MY_WEB_PORT_80_TCP_PORT=80 MY_WEB_PORT_80_TCP_ADDR=10.96.7.7 "
    "DNS_PORT_53_UDP_ADDR=10.96.7.8 SIP_PORT_5060_SCTP=sctp://10.96.7.9:5060");

std::vector<std::string> all_of(std::vector<std::string> first,
                                const std::vector<std::string>& second,
                                const std::vector<std::string>& third) {
  first.insert(first.end(), second.begin(), second.end());
  first.insert(first.end(), third.begin(), third.end());
  return first;
}

// As containerd 2.3.7 passed them for such a pod, when it created the container and when the plugin
// connected again; the variables are those of the injection and of the kubelet.
ProgramFacts from_containerd() {
  ProgramFacts program;
  program.args = kArgs;
  program.env = all_of(
      {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOSTNAME=web-0"},
      kInjected, kServiceLinks);
  program.mounts = {
      {"/proc", "proc", {"nosuid", "noexec", "nodev"}},
      {"/dev", "tmpfs", {"nosuid", "strictatime", "mode=755", "size=65536k"}},
      {"/dev/pts",
       "devpts",
       {"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"}},
      {"/dev/mqueue", "mqueue", {"nosuid", "noexec", "nodev"}},
      {"/sys", "sysfs", {"nosuid", "noexec", "nodev", "ro"}},
      {"/sys/fs/cgroup", "cgroup", {"nosuid", "noexec", "nodev", "relatime", "ro"}},
      {"/etc/hosts", "bind", {"rbind", "rprivate", "rw"}},
      {"/dev/termination-log", "bind", {"rbind", "rprivate", "rw"}},
      {"/etc/hostname", "bind", {"rbind", "rprivate", "ro"}},
      {"/etc/resolv.conf", "bind", {"rbind", "rprivate", "ro"}},
      {"/dev/shm", "bind", {"rbind", "rprivate", "rw"}},
      {"/var/run/secrets/kubernetes.io/serviceaccount", "bind", {"rbind", "rprivate", "ro"}}};
  program.namespaces = {{"pid", ""},
                        {"ipc", "/proc/812/ns/ipc"},
                        {"uts", "/proc/812/ns/uts"},
                        {"mount", ""},
                        {"network", "/proc/812/ns/net"}};
  program.groups = {2201, 2201, 3000};
  return program;
}

// By the sources of CRI-O and the defaults of OpenShift.
ProgramFacts from_crio() {
  ProgramFacts program = from_containerd();
  program.env =
      all_of({"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "TERM=xterm",
              "HOSTNAME=web-0", "NSS_SDB_USE_CACHE=no", "container=oci", "HOME=/"},
             kInjected, kServiceLinks);
  program.mounts.push_back({"/run/.containerenv", "bind", {"rw", "bind"}});
  program.mounts.push_back({"/run/secrets", "bind", {"bind", "rprivate"}});
  program.namespaces = {{"pid", ""},
                        {"network", "/var/run/netns/6f3c2b1e-0000-4000-8000-000000000000"},
                        {"ipc", "/var/run/ipcns/6f3c2b1e-0000-4000-8000-000000000000"},
                        {"uts", "/var/run/utsns/6f3c2b1e-0000-4000-8000-000000000000"},
                        {"mount", ""},
                        {"cgroup", ""}};
  return program;
}

// "field value", or nothing.
std::string judged(const ProgramFacts& program, const std::vector<std::string>& names = {}) {
  const auto finding = judge_program(program, names);
  if (!finding) return "";
  return std::string(finding->shared_processes ? "shared " : "") + std::string(finding->field) +
         " " + finding->value;
}

// Of the injected sidecar with one change.
template <typename Change>
std::string judged_after(const Change& change) {
  ProgramFacts program = from_containerd();
  change(program);
  return judged(program);
}

TEST(SidecarProgram, IsTheSidecarAsRuntimesDescribeIt) {
  EXPECT_EQ(judged(from_containerd()), "");
  EXPECT_EQ(judged(from_crio()), "");
}

TEST(SidecarProgram, JudgesNoFieldThatTheRuntimeDoesNotPass) {
  EXPECT_EQ(judged({}), "");
  ProgramFacts program = from_containerd();
  program.args.clear();
  EXPECT_EQ(judged(program), "");
  program.namespaces.clear();
  program.groups.clear();
  EXPECT_EQ(judged(program), "");
}

TEST(SidecarProgram, HasTheArgumentsOfTheInjection) {
  const std::vector<std::vector<std::string>> rows = {
      {"/bin/sh"},
      {"/usr/local/bin/fairlead-proxy"},
      {"fairlead-proxy", "--config", "/etc/fairlead/pod.yaml"},
      {"/usr/local/bin/fairlead-proxy", "--config", "/tmp/pod.yaml"},
      {"/usr/local/bin/fairlead-proxy", "--config", "/etc/fairlead/pod.yaml", "--config"},
      {"", "--config", "/etc/fairlead/pod.yaml"}};
  for (const auto& args : rows)
    EXPECT_EQ(judged_after([&](ProgramFacts& program) { program.args = args; }).substr(0, 5),
              "args ")
        << args[0] << " " << args.size();
}

TEST(SidecarProgram, HasNoVariableFromElsewhere) {
  auto foreign = words(
      "LD_PRELOAD LD_LIBRARY_PATH LD_SERVICE_HOST LD_PORT_80_TCP GLIBC_TUNABLES GLIBC_PORT "
      "MALLOC_ARENA_MAX MALLOC_SERVICE_PORT IBV_FORK_SAFE IBV_CONFIG_SERVICE_HOST RDMAV_DRIVERS "
      "RDMAV_PORT MLX5_SHUT_UP_BF MLX_SERVICE_HOST MLX4_SERVICE_PORT OPENSSL_CONF TMPDIR "
      "fairlead_x path web_SERVICE_HOST _SERVICE_HOST SERVICE_HOST _PORT PORT WEB_PORT_80_ICMP "
      "WEB_PORT_TCP WEB_PORT_80 PORT_80_TCP _PORT_80_TCP WEB_PORT_80_TCP_HOST WEB_SERVICE_PORT_ "
      "_SERVICE_PORT_HTTP WEB_SERVICE_HOST_X SMC_PNET_ID_X");
  foreign.emplace_back();
  for (const std::string& variable : foreign)
    EXPECT_EQ(
        judged_after([&](ProgramFacts& program) { program.env.push_back(variable + "=secret"); }),
        "env " + variable);
  ProgramFacts program = from_containerd();
  program.env.push_back("LD_PRELOAD");
  EXPECT_EQ(judged(program), "env LD_PRELOAD");
  program.env.back() = std::string(1 << 20, 'A');
  EXPECT_EQ(judged(program).size(), (1 << 20) + sizeof "env");
  program.env.back() = std::string(1 << 20, '1') + "_SERVICE_HOST=x";
  EXPECT_EQ(judged(program), "");
}

TEST(SidecarProgram, HasVariablesThatTheOperatorAllows) {
  ProgramFacts program = from_containerd();
  program.env.push_back("company_Zone=a");
  EXPECT_EQ(judged(program), "env company_Zone");
  EXPECT_EQ(judged(program, {"COMPANY", "company_Zone"}), "");
  program.env.push_back("LD_PRELOAD=x");
  EXPECT_EQ(judged(program, {"company_Zone", "LD_PRELOAD"}), "env LD_PRELOAD");
  for (const char* name : {"company_Zone", "A", "_x9"}) EXPECT_TRUE(may_allow_variable(name));
  for (const char* name : {"", "9x", "a-b", "a=b", "a b", "LD_PRELOAD", "GLIBC_TUNABLES",
                           "MALLOC_CHECK_", "IBV_FORK_SAFE", "RDMAV_DRIVERS", "MLX5_DEBUG"})
    EXPECT_FALSE(may_allow_variable(name)) << name;
}

std::string judged_with(const ContainerMount& mount) {
  return judged_after([&](ProgramFacts& program) { program.mounts.push_back(mount); });
}

TEST(SidecarProgram, HasNoMountOverTheImage) {
  auto foreign = words(
      "/ /etc /etc/fairlead /etc/fairlead/pod.yaml /etc/ld.so.preload /etc/ld.so.cache "
      "/etc/libibverbs.d /usr /usr/lib /usr/local/bin /lib /lib64 /opt /var /var/runx /tmpx "
      "/process /devices /etc/hosts/x /tmp/../usr/lib /dev/./../etc tmp /dev/infiniband "
      "/dev//infiniband/ /dev/infiniband/uverbs0 /dev/./infiniband");
  foreign.emplace_back();
  for (const std::string& destination : foreign)
    EXPECT_EQ(judged_with({destination, "bind", {"rbind"}}), "mounts " + destination);
  for (const char* destination :
       {"/tmp", "/tmp/", "//tmp/x", "/run/secrets", "/var/run/x", "/dev/shm", "/dev/infinibandx",
        "/etc/localtime", "/proc/cpuinfo", "/sys"})
    EXPECT_EQ(judged_with({destination, "bind", {"rbind"}}), "") << destination;
}

TEST(SidecarProgram, HasItsOwnDevicesAndProcesses) {
  for (const char* destination : {"/dev", "/dev/", "/proc"})
    for (const ContainerMount& mount :
         {ContainerMount{destination, "bind", {}}, ContainerMount{destination, "", {"rbind"}},
          ContainerMount{destination, "none", {"ro", "bind"}}})
      EXPECT_EQ(judged_with(mount), "mounts " + std::string(destination));
}

TEST(SidecarProgram, SharesNoProcesses) {
  ProgramFacts program = from_containerd();
  // containerd passes this for hostPID, too.
  program.namespaces[0].path = "/proc/812/ns/pid";
  EXPECT_EQ(judged(program), "shared namespaces pid /proc/812/ns/pid");
  program.namespaces.erase(program.namespaces.begin());
  EXPECT_EQ(judged(program), "shared namespaces no pid");
}

TEST(SidecarProgram, IsNotInTheGroupOfRoot) {
  ProgramFacts program = from_containerd();
  program.groups = {2201, 1000, 3000};
  EXPECT_EQ(judged(program), "");
  program.groups = {2201, 0};
  EXPECT_EQ(judged(program), "user group 0");
}

}  // namespace
}  // namespace fairlead::cni::node::nri
