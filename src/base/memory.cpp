#include "base/memory.hpp"

#include "base/bytes.hpp"
#include "base/file.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <unistd.h>

namespace vram {
namespace {

constexpr uint64_t kNoLimit = UINT64_MAX;
constexpr uint64_t kMaxInputBytes = uint64_t{64} << 10;

uint64_t four_fifths(uint64_t bytes) { return bytes / 5 * 4; }

// "max", and a file that is not there, are no limit.
uint64_t limit_in(const std::string& path) {
  const auto text = read_whole(path, kMaxInputBytes);
  if (!text) return kNoLimit;
  uint64_t bytes = kNoLimit;
  const auto read = std::from_chars(text->data(), text->data() + text->size(), bytes);
  return read.ec == std::errc() ? bytes : kNoLimit;
}

// Of the group and of all above it: each of them limits what is below. Within a container the upper
// ones may not be there.
uint64_t limit_of_groups(const std::string& mount, std::string group, const char* file) {
  uint64_t bytes = kNoLimit;
  for (;;) {
    if (group == "/") group.clear();
    bytes = std::min(bytes, limit_in(mount + group + "/" + file));
    if (group.empty()) return bytes;
    group.resize(group.rfind('/'));
  }
}

// A line is "0::/system.slice/x" of cgroups of version 2, "4:memory:/x" of version 1.
uint64_t limit_of_line(const std::string& root, std::string_view line) {
  const size_t first = line.find(':');
  const size_t second = first == line.npos ? first : line.find(':', first + 1);
  if (second == line.npos || second + 1 == line.size() || line[second + 1] != '/') return kNoLimit;
  const std::string_view controllers = line.substr(first + 1, second - first - 1);
  const std::string group(line.substr(second + 1));
  const std::string mount = root + "/sys/fs/cgroup";
  if (controllers.empty()) return limit_of_groups(mount, group, "memory.max");
  if (controllers != "memory") return kNoLimit;
  return limit_of_groups(mount + "/memory", group, "memory.limit_in_bytes");
}

uint64_t cgroup_limit_bytes(const std::string& root) {
  const auto text = read_whole(root + "/proc/self/cgroup", kMaxInputBytes);
  uint64_t bytes = kNoLimit;
  if (!text) return bytes;
  for (std::string_view rest = *text; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    bytes = std::min(bytes, limit_of_line(root, rest.substr(0, end)));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return bytes;
}

}  // namespace

uint64_t default_memory_limit_bytes(const std::string& root) {
  const auto pages = static_cast<uint64_t>(std::max<long>(0, sysconf(_SC_PHYS_PAGES)));
  const auto page_bytes = static_cast<uint64_t>(std::max<long>(0, sysconf(_SC_PAGESIZE)));
  const uint64_t of_the_machine = std::max(four_fifths(pages * page_bytes), 512 * kMiB);
  return std::min(of_the_machine, four_fifths(cgroup_limit_bytes(root)));
}

}  // namespace vram
