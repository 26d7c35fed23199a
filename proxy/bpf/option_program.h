// The eBPF program that writes and reads the SMC-R option on SYN and SYN/ACK, attached to a cgroup.
// What a proxy without privileges does with such a program is in tcp_option.h.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "base/result.h"
#include "bpf/refusal.h"

namespace fairlead::bpf {

// Attached as long as the object lives; the kernel detaches it when the process dies, however it
// dies. Any number of them can be attached to one cgroup, by this process and by others. Every
// member is thread-safe; attach() sets libbpf's process-wide log function.
class OptionProgram {
 public:
  // For a proxy with CAP_BPF and CAP_NET_ADMIN. Acts upon the sockets given to request() and no
  // others. `cgroup` is a cgroup v2 directory that holds the process; empty means its own.
  // Sockets belong to the cgroup that their process was in when it opened them.
  // Errors, told apart by `what`: no cgroup2 hierarchy (kNotFound), capabilities missing
  // (kPermission), no eBPF or too old a kernel (kUnsupported; 5.10 is enough), the cgroup excludes
  // further programs (kPermission). refusal() has libbpf's own words.
  static Result<OptionProgram> attach(const std::string& cgroup = {});

  // For whoever prepares the cgroup of a proxy without privileges. Acts upon every TCP socket that
  // `uid` opens in the cgroup or below from now on, without request(). `uid` is as the initial user
  // namespace sees it. The same errors.
  static Result<OptionProgram> attach_for_uid(const std::string& cgroup, uid_t uid);

  // Makes the program act upon this TCP socket before connect(2), and announce frames too if they
  // are wanted.
  Result<void> request_for_connection(int socket_fd, bool frames) const;
  // Makes the program act upon this TCP socket: a connecting one before connect(2), a listening one
  // before listen(2). It is not asked again for accepted sockets. A listener wants save_syn() too:
  // without it a retransmitted SYN/ACK goes out without the option.
  Result<void> request(int socket_fd) const;

  OptionProgram(OptionProgram&&) noexcept;
  OptionProgram& operator=(OptionProgram&&) noexcept;
  ~OptionProgram();

 private:
  struct Attached;
  explicit OptionProgram(std::unique_ptr<Attached> attached);
  static Result<OptionProgram> load(const std::string& cgroup, const uid_t* uid);

  std::unique_ptr<Attached> attached_;
};

// The same as attach_for_uid(), but attached until detach_lasting() or until the cgroup goes: for
// programs that do not stay, such as a CNI plugin. Once is enough; a second call finds the first.
Result<void> attach_lasting(const std::string& cgroup, uid_t uid);

// Whether both programs of attach_lasting() are still there. Errors: those of opening and asking.
Result<bool> is_attached(const std::string& cgroup);

// Sockets that are already connecting or listening keep the option. A cgroup that is gone, or has
// no such program, is no error.
Result<void> detach_lasting(const std::string& cgroup);

}  // namespace fairlead::bpf
