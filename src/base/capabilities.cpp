#include "base/capabilities.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace vram {

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
