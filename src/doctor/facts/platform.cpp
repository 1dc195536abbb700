// What kind of machine this is, and its kernel's parameters.
#include "base/text.hpp"
#include "doctor/collect.hpp"
#include "gpu/drm/files.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

namespace vram::doctor {
namespace {

namespace text = gpu::drm;

// "Linux version 5.15.153.1-microsoft-standard-WSL2 (…"
std::string kernel_of(const Tree& tree) {
  std::string release = tree.line("/proc/sys/kernel/osrelease");
  if (!release.empty()) return release;
  const std::string version = tree.line("/proc/version");
  constexpr std::string_view kVersionLead = "Linux version ";
  if (!version.starts_with(kVersionLead)) return "";
  return version.substr(kVersionLead.size(),
                        version.find(' ', kVersionLead.size()) - kVersionLead.size());
}

// Processors with a GPU that shares their memory: Jetson, and GB10.
std::optional<std::string> board_of(const Tree& tree) {
  std::string model = tree.read("/proc/device-tree/model", 256).value_or("");
  model = model.substr(0, model.find('\0'));
  const bool is_tegra = tree.exists("/etc/nv_tegra_release");
  if (model.find("Jetson") != std::string::npos || is_tegra)
    return model.empty() ? "NVIDIA Jetson" : model;
  std::string product = tree.line("/sys/class/dmi/id/product_name");
  if (product.find("DGX_Spark") != std::string::npos ||
      product.find("DGX Spark") != std::string::npos)
    return product;
  return std::nullopt;
}

std::optional<bool> secure_boot_of(const Tree& tree) {
  const auto variable =
      tree.read("/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c", 16);
  if (!variable || variable->size() != 5) return std::nullopt;
  return variable->back() == 1;
}

std::optional<bool> has_display(const Tree& tree) {
  std::optional<bool> found;
  for (const std::string& name : tree.names("/sys/class/drm")) {
    const std::string status = tree.line("/sys/class/drm/" + name + "/status");
    if (!status.empty()) found = found.value_or(false) || status == "connected";
  }
  return found;
}

// "MemTotal:       65536000 kB"
std::optional<uint64_t> kib_in(std::string_view meminfo, std::string_view key) {
  const auto value = text::value_of(meminfo, key, ':');
  if (!value) return std::nullopt;
  const auto kib = text::as_bytes(value->substr(0, value->find(' ')));
  return kib ? std::optional(*kib << 10U) : std::nullopt;
}

// "proc /proc proc rw,hidepid=2 0 0"
bool hides_processes(const Tree& tree) {
  bool hides = false;
  text::for_each_line(tree.read("/proc/self/mounts").value_or(""), [&](std::string_view line) {
    const auto at = line.find(" /proc proc ");
    if (at == std::string_view::npos) return;
    const auto option = line.find("hidepid=", at);
    if (option == std::string_view::npos) return;
    const std::string_view value = line.substr(option + 8);
    hides = !value.starts_with('0') && !value.starts_with("off");
  });
  return hides;
}

std::optional<uint32_t> small_number(const Tree& tree, const std::string& path) {
  const auto number = tree.number(path);
  return number ? std::optional(static_cast<uint32_t>(std::min<uint64_t>(*number, UINT32_MAX)))
                : std::nullopt;
}

bool has_word(std::string_view text, std::string_view word) {
  return ascii_lower(text).find(word) != std::string::npos;
}

}  // namespace

PlatformFacts read_platform(const Tree& tree) {
  PlatformFacts facts;
  facts.kernel = kernel_of(tree);
  facts.is_wsl = has_word(facts.kernel, "microsoft");
  facts.has_dxg = tree.exists("/dev/dxg");
  facts.has_wsl_library = tree.exists("/usr/lib/wsl/lib/libcuda.so.1");
  facts.board = board_of(tree);
  facts.secure_boot = secure_boot_of(tree);
  facts.has_display = has_display(tree);
  facts.has_infiniband = !tree.names("/dev/infiniband").empty();
  facts.overcommit = small_number(tree, "/proc/sys/vm/overcommit_memory");
  const std::string memory = tree.read("/proc/meminfo").value_or("");
  facts.memory_bytes = kib_in(memory, "MemTotal");
  facts.swap_bytes = kib_in(memory, "SwapTotal");
  facts.ptrace_scope = small_number(tree, "/proc/sys/kernel/yama/ptrace_scope");
  facts.hides_processes = hides_processes(tree);
  facts.has_persistenced = tree.exists("/run/nvidia-persistenced/socket");
  return facts;
}

// NVIDIA's error reports in the kernel's log, since the machine started or as far as the log goes
// back: "NVRM: Xid (PCI:0000:19:00): 79, pid=1234, name=python, GPU has fallen off the bus."

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
