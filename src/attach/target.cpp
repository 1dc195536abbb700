#include "attach/target.hpp"

#include "base/bytes.hpp"
#include "base/process_stat.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <set>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

namespace vram::attach {
namespace {

constexpr uint64_t kMaxMapsBytes = uint64_t{256} << 20;
constexpr uint64_t kMaxFileBytes = uint64_t{1} << 20;

// A line of /proc/<pid>/maps: "7f00-7f80 r-xp 00001000 fd:00 4711   /usr/lib/libc.so.6 (deleted)".
struct Mapping {
  std::string_view range;
  std::string_view file;  // device and inode
  std::string_view path;
};

std::string_view take_word(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  const std::string_view word = text.substr(0, text.find(' '));
  text.remove_prefix(word.size());
  return word;
}

Mapping parse_mapping(std::string_view line) {
  Mapping mapping;
  mapping.range = take_word(line);
  (void)take_word(line);  // rights
  (void)take_word(line);  // offset
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  const std::string_view whole = line;
  (void)take_word(line);  // device
  (void)take_word(line);  // inode
  mapping.file = whole.substr(0, whole.size() - line.size());
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  mapping.path = line;
  return mapping;
}

bool has_probe(const std::vector<Probe>& probes, std::string_view name) {
  return std::ranges::any_of(probes, [&](const Probe& probe) { return probe.name == name; });
}

std::string number_text(uint64_t number) { return number != 0 ? std::to_string(number) : ""; }

// A process whose main thread has ended shows itself as ended, and no memory, while others run.
uint64_t living_threads_besides_main(const std::string& folder, uint32_t pid) {
  uint64_t count = 0;
  std::error_code error;
  std::filesystem::directory_iterator thread(folder + "/task", error);
  for (; !error && thread != std::filesystem::directory_iterator(); thread.increment(error)) {
    if (thread->path().filename() == std::to_string(pid)) continue;
    const auto text = read_whole(thread->path() / "stat", kMaxFileBytes);
    const auto parsed = text ? parse_process_stat(*text) : std::nullopt;
    if (parsed && !parsed->has_ended) ++count;
  }
  return count;
}

std::string line_after(const std::string& text, std::string_view key) {
  const size_t at = text.find("\n" + std::string(key));
  if (at == std::string::npos) return "";
  const size_t begin = text.find_first_not_of(" \t", at + 1 + key.size());
  return begin == std::string::npos ? "" : text.substr(begin, text.find('\n', begin) - begin);
}

}  // namespace

Result<Target> Target::open(uint32_t pid) {
  Target target(pid);
  target.process_ = Descriptor(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  VRAM_TRY(target.check_is_process());
  VRAM_TRY_ASSIGN(target.first_, target.stat());
  return target;
}

Result<> Target::check_is_process() const {
  const auto status = read_whole(folder_ + "/status", kMaxFileBytes);
  if (!status) return fail(Code::kNotFound, "there is no process {}", pid_);
  const std::string process = line_after(*status, "Tgid:");
  if (process != std::to_string(pid_)) {
    return fail(Code::kBadInput, "{} is a thread of process {}: expected --pid {}", pid_, process,
                process);
  }
  if (!line_after(*status, "VmSize:").empty()) return {};
  if (const uint64_t threads = living_threads_besides_main(folder_, pid_); threads != 0) {
    return fail(
        Code::kUnsupported,
        "the main thread of process {} has ended, and the kernel shows no memory of {}: "
        "expected a process whose main thread runs; record this program from its start, with "
        "`vram run --record`",
        pid_, counted(threads, "other thread"));
  }
  return fail(Code::kBadInput, "process {} has no memory: it is ending, or a thread of the kernel",
              pid_);
}

Result<Target::Stat> Target::stat() const {
  constexpr int kStackField = 28;
  const auto text = read_whole(folder_ + "/stat", kMaxFileBytes);
  const auto parsed = text ? parse_process_stat(*text) : std::nullopt;
  if (!parsed || parsed->has_ended) return fail(Code::kNotFound, "process {} has ended", pid_);
  std::string_view rest = *text;
  rest.remove_prefix(rest.rfind(')') + 1);
  std::string_view word;
  for (int field = 3; field <= kStackField; ++field) word = take_word(rest);
  Stat stat{parsed->start_ticks, 0};
  (void)std::from_chars(word.data(), word.data() + word.size(), stat.stack_address);
  return stat;
}

TargetState Target::state() const {
  const auto now = stat();
  const bool has_main = now && (now->stack_address != 0 || first_.stack_address == 0);
  if (!has_main && living_threads_besides_main(folder_, pid_) != 0) return TargetState::kRuns;
  if (!now || now->start_ticks != first_.start_ticks) return TargetState::kEnded;
  return now->stack_address == first_.stack_address ? TargetState::kRuns : TargetState::kReplaced;
}

Result<std::vector<MappedFile>> Target::files() const {
  const auto maps = read_whole(folder_ + "/maps", kMaxMapsBytes);
  if (!maps) {
    return fail(Code::kIo,
                "cannot read {}/maps: {}; a process of another user requires root or "
                "CAP_SYS_PTRACE",
                folder_, maps.error().message);
  }
  std::vector<MappedFile> files;
  std::set<std::string_view> seen;
  std::string_view rest = *maps;
  while (!rest.empty()) {
    const Mapping mapping = parse_mapping(rest.substr(0, rest.find('\n')));
    rest.remove_prefix(std::min(rest.find('\n') + 1, rest.size()));
    if (!mapping.path.starts_with('/') || !seen.insert(mapping.file).second) continue;
    // The link names the mapped file itself, but only root may follow it.
    std::string path = folder_ + "/map_files/" + std::string(mapping.range);
    if (::access(path.c_str(), R_OK) != 0) path = folder_ + "/root" + std::string(mapping.path);
    struct stat status{};
    if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    uint64_t address = 0;
    (void)std::from_chars(mapping.range.data(), mapping.range.data() + mapping.range.size(),
                          address, 16);
    files.push_back({std::move(path), std::string(mapping.path), address});
  }
  return files;
}

Result<std::vector<ProbedLibrary>> Target::libraries(const std::string& provider) const {
  VRAM_TRY_ASSIGN(auto files, this->files());
  std::vector<ProbedLibrary> found;
  for (MappedFile& file : files) {
    auto probes = read_probes(file.path, provider);
    if (!probes) return tl::unexpected(probes.error());
    if (!has_probe(*probes, "malloc") || !has_probe(*probes, "free")) continue;
    found.push_back({std::move(file.path), std::move(file.name), std::move(*probes)});
  }
  if (found.empty()) {
    return fail(Code::kNotFound,
                "process {} has loaded no library with the probes {}:malloc and {}:free: expected "
                "PyTorch's libc10_cuda.so, from a build for CUDA, after `import torch`",
                pid_, provider, provider);
  }
  return found;
}

Result<Target::Namespace> Target::pid_namespace() const {
  struct ::stat status{};
  const std::string path = folder_ + "/ns/pid";
  if (::stat(path.c_str(), &status) != 0)
    return fail(Code::kIo, "cannot read {}: {}", path, std::strerror(errno));
  return Namespace{status.st_dev, status.st_ino};
}

std::vector<record::Fact> Target::facts() const {
  constexpr auto kAbout = record::Fact::Kind::kAbout;
  std::vector<record::Fact> facts = {
      {kAbout, "process.pid", std::to_string(pid_)},
      {kAbout, "process.start_ticks", number_text(first_.start_ticks)}};
  if (const auto pids = pid_namespace())
    facts.push_back({kAbout, "process.pid_namespace", number_text(pids->inode)});
  if (const auto command = read_whole(folder_ + "/cmdline", kMaxFileBytes))
    facts.push_back({kAbout, "process.command", command->c_str()});
  for (record::Fact& fact : record::facts_of_machine()) facts.push_back(std::move(fact));
  return facts;
}

}  // namespace vram::attach
