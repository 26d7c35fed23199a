#include "bpf/device_permission.h"

#include <bpf/bpf.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/linux/handle.h"
#include "bpf/cgroup_programs.h"

namespace fairlead::bpf {
namespace {

constexpr const char* kProgramName = "fairlead_device";
// The programs of runtimes carry licences of their own, and call nothing that would ask for one.
constexpr const char* kLicence = "Proprietary";

bpf_insn instruction(std::uint8_t code, unsigned destination, unsigned source, std::int16_t offset,
                     std::int32_t value) {
  bpf_insn made{};
  made.code = code;
  made.dst_reg = destination & 0xfU;
  made.src_reg = source & 0xfU;
  made.off = offset;
  made.imm = value;
  return made;
}

bool same(const bpf_insn& a, const bpf_insn& b) { return std::memcmp(&a, &b, sizeof a) == 0; }

Result<std::vector<bpf_insn>> instructions_of(int program) {
  bpf_prog_info info{};
  __u32 length = sizeof info;
  if (bpf_obj_get_info_by_fd(program, &info, &length) != 0)
    return system_error("reading a device program", errno);
  const std::size_t count = info.xlated_prog_len / sizeof(bpf_insn);
  if (count == 0 || count > kDeviceInstructionsMax)
    return Error{Errc::kUnsupported, "size of the container's device program"};
  std::vector<bpf_insn> program_text(count);
  info = {};
  length = sizeof info;
  info.xlated_prog_insns = reinterpret_cast<std::uintptr_t>(program_text.data());
  info.xlated_prog_len = static_cast<__u32>(count * sizeof(bpf_insn));
  if (bpf_obj_get_info_by_fd(program, &info, &length) != 0)
    return system_error("reading a device program", errno);
  if (info.xlated_prog_insns == 0 || info.xlated_prog_len != count * sizeof(bpf_insn))
    return Error{Errc::kUnsupported, "the kernel does not show the container's device program"};
  return program_text;
}

Result<void> replace(int cgroup, int old_program, DeviceNumber device) {
  const std::vector<bpf_insn> before = SMC_TRY(instructions_of(old_program));
  std::vector<bpf_insn> program = device_prologue(device);
  if (begins_with(before, program)) return {};
  if (!can_be_copied(before))
    return Error{Errc::kUnsupported, "the container's device program is no simple list"};
  program.insert(program.end(), before.begin(), before.end());
  const FileDescriptor made(bpf_prog_load(BPF_PROG_TYPE_CGROUP_DEVICE, kProgramName, kLicence,
                                          program.data(), program.size(), nullptr));
  if (!made) return system_error("loading a device program", errno);
  LIBBPF_OPTS(bpf_prog_attach_opts, options);
  options.flags = BPF_F_ALLOW_MULTI | BPF_F_REPLACE;
  options.replace_prog_fd = old_program;
  if (bpf_prog_attach_opts(made.get(), cgroup, BPF_CGROUP_DEVICE, &options) == 0) return {};
  // Attached without BPF_F_ALLOW_MULTI, as systemd did before its version 238: there is one, and an
  // attachment of the same kind takes its place.
  if (errno == EINVAL || errno == EPERM)
    if (bpf_prog_attach(made.get(), cgroup, BPF_CGROUP_DEVICE, 0) == 0) return {};
  return attach_error(errno);
}

}  // namespace

std::vector<bpf_insn> device_prologue(DeviceNumber device) {
  // struct bpf_cgroup_dev_ctx: access_type (kind in the low half, what is done in the high), major,
  // minor. r2 to r5 are free: programs begin with r1 alone.
  constexpr std::int32_t kMaking = BPF_DEVCG_ACC_MKNOD << 16;
  const auto major = static_cast<std::int32_t>(device.major);
  const auto minor = static_cast<std::int32_t>(device.minor);
  return {
      instruction(BPF_LDX | BPF_MEM | BPF_W, 2, 1, 4, 0),      // r2 = major
      instruction(BPF_JMP | BPF_JNE | BPF_K, 2, 0, 8, major),  // another: to the old program
      instruction(BPF_LDX | BPF_MEM | BPF_W, 2, 1, 8, 0),      // r2 = minor
      instruction(BPF_JMP | BPF_JNE | BPF_K, 2, 0, 6, minor),
      instruction(BPF_LDX | BPF_MEM | BPF_W, 2, 1, 0, 0),  // r2 = access_type
      instruction(BPF_JMP | BPF_JSET | BPF_K, 2, 0, 4, kMaking),
      instruction(BPF_ALU64 | BPF_AND | BPF_K, 2, 0, 0, 0xffff),
      instruction(BPF_JMP | BPF_JNE | BPF_K, 2, 0, 2, BPF_DEVCG_DEV_CHAR),
      instruction(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 1),
      instruction(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
  };
}

bool begins_with(const std::vector<bpf_insn>& program, const std::vector<bpf_insn>& prologue) {
  return program.size() >= prologue.size() &&
         std::equal(prologue.begin(), prologue.end(), program.begin(), same);
}

bool can_be_copied(const std::vector<bpf_insn>& program) {
  return std::none_of(program.begin(), program.end(), [](const bpf_insn& one) {
    const unsigned kind = BPF_CLASS(one.code);
    const bool call = (kind == BPF_JMP || kind == BPF_JMP32) && BPF_OP(one.code) == BPF_CALL;
    // The first half of a 64-bit constant, which may stand for a map.
    const bool constant = kind == BPF_LD && one.src_reg != 0;
    // What the verifier adds for itself where registers are cleared by hand.
    const bool clearing = kind == BPF_ALU && BPF_OP(one.code) == BPF_MOV &&
                          BPF_SRC(one.code) == BPF_X && one.imm == 1;
    return call || constant || clearing;
  });
}

Result<void> permit_device(const std::string& cgroup, DeviceNumber device) {
  const FileDescriptor directory = SMC_TRY(open_cgroup(cgroup));
  std::array<__u32, kProgramsMax> ids{};
  __u32 flags = 0;
  __u32 count = ids.size();
  if (bpf_prog_query(directory.get(), BPF_CGROUP_DEVICE, 0, &flags, ids.data(), &count) != 0)
    return system_error("asking the cgroup for its device programs", errno);
  // Each of them has to permit the access.
  for (std::size_t i = 0; i < count && i < ids.size(); ++i) {
    const FileDescriptor program(bpf_prog_get_fd_by_id(ids[i]));
    if (!program) return system_error("opening a device program", errno);
    SMC_TRY(replace(directory.get(), program.get(), device));
  }
  return {};
}

}  // namespace fairlead::bpf
