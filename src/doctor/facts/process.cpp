// The examined process: its environment and limits, where it runs, whether MPS serves it.
#include "base/text.hpp"
#include "doctor/collect.hpp"
#include "gpu/drm/files.hpp"
#include "watch/process_texts.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace vram::doctor {
namespace {

namespace text = gpu::drm;

constexpr size_t kMaxEnvironmentBytes = size_t{1} << 20;
constexpr size_t kMaxProcesses = 65'536;
constexpr std::string_view kFirstPidNamespace = "pid:[4026531836]";  // the kernel's own number

std::map<std::string, std::string> environment_in(std::string_view bytes) {
  std::map<std::string, std::string> environment;
  while (!bytes.empty()) {
    const std::string_view entry = bytes.substr(0, bytes.find('\0'));
    const auto equals = entry.find('=');
    if (equals != std::string_view::npos && equals > 0)
      environment.emplace(entry.substr(0, equals), entry.substr(equals + 1));
    bytes.remove_prefix(std::min(bytes.size(), entry.size() + 1));
  }
  return environment;
}

// "Max locked memory         65536                65536                bytes"
struct Limit {
  std::optional<uint64_t> soft;
  std::optional<uint64_t> hard;
};

std::string_view next_word(std::string_view& text) {
  text = trimmed(text);
  const std::string_view word = text.substr(0, text.find(' '));
  text.remove_prefix(word.size());
  return word;
}

Limit limit_in(std::string_view limits, std::string_view name) {
  Limit limit;
  text::for_each_line(limits, [&](std::string_view line) {
    if (!line.starts_with(name)) return;
    line.remove_prefix(name.size());
    limit.soft = text::as_number(next_word(line));  // "unlimited" is no number
    limit.hard = text::as_number(next_word(line));
  });
  return limit;
}

std::vector<PreloadedFile> preloaded_by(const Tree& tree, std::string_view value, bool is_ours) {
  std::vector<PreloadedFile> files;
  while (!value.empty()) {
    const std::string_view path = value.substr(0, value.find_first_of(": "));
    value.remove_prefix(std::min(value.size(), path.size() + 1));
    if (path.empty()) continue;
    // Without a slash the loader searches for it, who knows where; another process may have other
    // files under the same names.
    const bool can_check = is_ours && path.find('/') != std::string_view::npos;
    files.push_back({std::string(path), !can_check || tree.exists(std::string(path))});
  }
  return files;
}

std::string value_or(const ProcessFacts& process, const std::string& name,
                     const std::string& otherwise) {
  const auto found = process.environment.find(name);
  return found == process.environment.end() || found->second.empty() ? otherwise : found->second;
}

std::string runtime_of(const Tree& tree, const watch::Placement& placement,
                       const ProcessFacts& process) {
  if (placement.pod_uid || process.environment.contains("KUBERNETES_SERVICE_HOST"))
    return "kubernetes";
  if (tree.exists("/.dockerenv")) return "docker";
  if (tree.exists("/run/.containerenv")) return "podman";
  if (placement.container && !placement.container->runtime.empty())
    return placement.container->runtime;
  return value_or(process, "container", "");  // systemd-nspawn, podman, lxc say so
}

// The kernel's number for "no limit" in version 1 is the largest whole page.
std::optional<uint64_t> memory_limit_of(const Tree& tree, std::string_view cgroup) {
  constexpr uint64_t kNoLimit = uint64_t{1} << 60;
  std::optional<uint64_t> limit;
  const auto lower_to = [&](const std::string& path) {
    const auto bytes = tree.number(path);
    if (bytes && *bytes < kNoLimit) limit = std::min(limit.value_or(kNoLimit), *bytes);
  };
  text::for_each_line(cgroup, [&](std::string_view line) {
    const bool is_unified = line.starts_with("0::");
    const auto memory = line.find(":memory:");
    if (!is_unified && memory == std::string_view::npos) return;
    std::string group(is_unified ? line.substr(3) : line.substr(memory + 8));
    if (group.find("..") != std::string::npos) return;
    for (; !group.empty(); group.resize(group.rfind('/'))) {
      lower_to(is_unified ? "/sys/fs/cgroup" + group + "/memory.max"
                          : "/sys/fs/cgroup/memory" + group + "/memory.limit_in_bytes");
      if (group.find('/') == std::string::npos) break;
    }
  });
  lower_to("/sys/fs/cgroup/memory.max");
  lower_to("/sys/fs/cgroup/memory/memory.limit_in_bytes");
  return limit;
}

}  // namespace

ProcessFacts read_process(const Tree& tree, const std::string& who) {
  ProcessFacts facts;
  const std::string folder = "/proc/" + who;
  if (const auto environment = tree.read(folder + "/environ", kMaxEnvironmentBytes)) {
    facts.is_environment_known = true;
    facts.environment = environment_in(*environment);
  }
  const std::string status = tree.read(folder + "/status").value_or("");
  if (auto uids = text::value_of(status, "Uid", ':'))
    facts.uid = text::as_small_number(uids->substr(0, uids->find('\t')));
  const std::string limits = tree.read(folder + "/limits").value_or("");
  facts.limits.address_space_bytes = limit_in(limits, "Max address space").soft;
  facts.limits.locked_bytes = limit_in(limits, "Max locked memory").soft;
  const Limit files = limit_in(limits, "Max open files");
  facts.limits.open_files = files.soft;
  facts.limits.max_open_files = files.hard;
  facts.preloaded = preloaded_by(tree, value_or(facts, "LD_PRELOAD", ""), who == "self");
  return facts;
}

ContainerFacts read_container(const Tree& tree, const std::string& who,
                              const ProcessFacts& process) {
  ContainerFacts facts;
  const std::string cgroup = tree.read("/proc/" + who + "/cgroup").value_or("");
  facts.runtime = runtime_of(tree, watch::placement_of(cgroup), process);
  facts.is_inside = !facts.runtime.empty() || watch::placement_of(cgroup).container.has_value();
  const std::string space = tree.link("/proc/" + who + "/ns/pid");
  if (!space.empty()) facts.is_host_pid_namespace = space == kFirstPidNamespace;
  facts.memory_limit_bytes = memory_limit_of(tree, cgroup);
  return facts;
}

MpsFacts read_mps(const Tree& tree, const ProcessFacts& process) {
  MpsFacts facts;
  facts.pipe_folder = value_or(process, "CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps");
  facts.has_pipe = tree.exists(facts.pipe_folder + "/control");
  size_t looked_at = 0;
  for (const std::string& name : tree.names("/proc")) {
    if (!text::as_small_number(name) || ++looked_at > kMaxProcesses) continue;
    // Of its name the kernel keeps 15 letters: the daemon's and the server's are the same.
    if (tree.line("/proc/" + name + "/comm") == "nvidia-cuda-mps")
      facts.processes = facts.processes.value_or(0) + 1;
  }
  if (!facts.processes && looked_at > 0) facts.processes = 0;
  return facts;
}

}  // namespace vram::doctor
