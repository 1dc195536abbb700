// NVIDIA's error reports in the kernel's log, since the machine started or as far as the log goes
// back: "NVRM: Xid (PCI:0000:19:00): 79, pid=1234, name=python, GPU has fallen off the bus."
#include "doctor/facts/readers.hpp"
#include "gpu/drm/text.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

namespace vram::doctor {
namespace {

constexpr std::string_view kLead = "NVRM: Xid (PCI:";
constexpr size_t kMaxLogBytes = size_t{16} << 20;
constexpr size_t kMaxKinds = 1000;
constexpr size_t kMaxTextLength = 200;

void count(std::vector<LoggedXid>& xids, std::string_view line) {
  const auto at = line.find(kLead);
  if (at == std::string_view::npos) return;
  line.remove_prefix(at + kLead.size());
  const auto end = line.find("): ");
  if (end > 16) return;  // "not found" is more, too
  const std::string_view pci_id = line.substr(0, end);
  line.remove_prefix(end + 3);
  const auto number = gpu::drm::as_small_number(line.substr(0, line.find(',')));
  if (!number) return;
  const auto known = std::ranges::find_if(
      xids, [&](const LoggedXid& xid) { return xid.xid == *number && xid.pci_id == pci_id; });
  const std::string text(line.substr(0, kMaxTextLength));
  if (known != xids.end()) {
    ++known->count;
    known->last = text;
  } else if (xids.size() < kMaxKinds) {
    xids.push_back({std::string(pci_id), *number, 1, text});
  }
}

}  // namespace

std::vector<LoggedXid> xids_in(std::string_view log) {
  std::vector<LoggedXid> xids;
  gpu::drm::for_each_line(log, [&](std::string_view line) {
    // "6,1234,5678,-;NVRM: …"; a program's own lines have another facility, 8 and above.
    const auto level = gpu::drm::as_small_number(line.substr(0, line.find(',')));
    if (level && *level < 8) count(xids, line);
  });
  return xids;
}

std::optional<std::vector<LoggedXid>> read_xids(const Tree& tree) {
  const int log = open(tree.at("/dev/kmsg").c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (log < 0) return std::nullopt;
  std::string all;
  std::array<char, 8192> record{};  // the longest that the kernel gives
  while (all.size() < kMaxLogBytes) {
    const ssize_t got = read(log, record.data(), record.size());
    if (got > 0)
      all.append(record.data(), static_cast<size_t>(got));
    else if (got == 0 || (errno != EINTR && errno != EPIPE))
      break;  // EPIPE: some were overwritten
  }
  close(log);
  return xids_in(all);
}

}  // namespace vram::doctor
