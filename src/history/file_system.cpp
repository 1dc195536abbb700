#include "history/file_system.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <sys/vfs.h>
#include <system_error>
#include <utility>

namespace vram::history {

// By linux/magic.h, and the numbers that `stat -f` of the GNU coreutils knows. FUSE and 9P are not
// among them: containers have files of their own machine by these, too.
std::optional<std::string_view> network_file_system(uint32_t magic) {
  using Known = std::pair<uint32_t, std::string_view>;
  static constexpr std::array<Known, 14> kShared{{{0x6969, "NFS"},
                                                  {0x517b, "SMB"},
                                                  {0xff534d42, "SMB"},
                                                  {0xfe534d42, "SMB"},
                                                  {0x0bd00bd0, "Lustre"},
                                                  {0x47504653, "GPFS"},
                                                  {0x00c36400, "Ceph"},
                                                  {0x19830326, "BeeGFS"},
                                                  {0xaad7aaea, "PanFS"},
                                                  {0x5346414f, "AFS"},
                                                  {0x6b414653, "AFS"},
                                                  {0x73757245, "Coda"},
                                                  {0x01161970, "GFS2"},
                                                  {0x7461636f, "OCFS2"}}};
  const auto found = std::ranges::find(kShared, magic, &Known::first);
  return found == kShared.end() ? std::nullopt : std::optional(found->second);
}

Result<> check_is_local(const std::string& path) {
  struct statfs about{};
  std::error_code error;
  auto file = std::filesystem::absolute(path, error);
  if (!error) file = std::filesystem::weakly_canonical(file, error);        // what a link leads to
  if (error || statfs(file.parent_path().c_str(), &about) != 0) return {};  // opening says why
  const auto name = network_file_system(static_cast<uint32_t>(about.f_type));
  if (!name) return {};
  return fail(Code::kUnsupported,
              "the history {} would be on {}: expected a file system of this machine; name a file "
              "elsewhere with --history",
              path, *name);
}

}  // namespace vram::history
