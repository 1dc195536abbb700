#include "base/rights.hpp"

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace vram {
namespace {

#if defined(__x86_64__)
constexpr uint32_t kThisMachine = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kThisMachine = AUDIT_ARCH_AARCH64;
#endif

// What no part of this program and no driver's library calls.
constexpr std::array kRefusedCalls = {SYS_ptrace,
                                      SYS_process_vm_readv,
                                      SYS_process_vm_writev,
                                      SYS_open_by_handle_at,
                                      SYS_kexec_load,
                                      SYS_init_module,
                                      SYS_finit_module,
                                      SYS_delete_module,
                                      SYS_mount,
                                      SYS_umount2,
                                      SYS_pivot_root,
                                      SYS_setns,
                                      SYS_unshare,
                                      SYS_bpf,
                                      SYS_perf_event_open,
                                      SYS_userfaultfd,
                                      SYS_keyctl,
                                      SYS_add_key,
                                      SYS_request_key,
                                      SYS_reboot,
                                      SYS_swapon,
                                      SYS_chroot,
                                      SYS_acct,
                                      SYS_kexec_file_load,
                                      SYS_io_uring_setup,
                                      SYS_pidfd_getfd};

}  // namespace

Result<> refuse_dangerous_calls() {
  if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1) return {};
  // The machine first: another one's calls have other numbers.
  constexpr uint32_t kX32 = 0x40000000;  // x86's other numbers, of the same machine
  std::array<sock_filter, kRefusedCalls.size() + 7> program{};
  size_t length = 0;
  const auto add = [&](sock_filter step) { program.at(length++) = step; };
  add(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)));
  add(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kThisMachine, 1, 0));
  add(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
  add(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)));
  add(BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, kX32, kRefusedCalls.size() + 1, 0));
  for (size_t i = 0; i < kRefusedCalls.size(); ++i)
    add(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(kRefusedCalls.at(i)),
                 static_cast<uint8_t>(kRefusedCalls.size() - i), 0));
  add(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  add(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
  const sock_fprog filter{.len = static_cast<unsigned short>(length), .filter = program.data()};
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter) != 0)
    return fail(Code::kUnsupported, "calls can't be refused: {}", std::strerror(errno));
  return {};
}

Result<> drop_capabilities() {
  // Kernels before 4.3 have no ambient ones.
  (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> none{};
  if (syscall(SYS_capset, &header, none.data()) != 0)
    return fail(Code::kIo, "capabilities can't be given up: {}", std::strerror(errno));
  return {};
}

}  // namespace vram
