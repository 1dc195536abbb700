#include "watch/process_texts.hpp"

#include "base/file.hpp"
#include "base/text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <fcntl.h>
#include <span>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

namespace vram::watch {
namespace {

constexpr size_t kMaxNameLength = 253;

// Without the character that the end of the text may have cut in two.
void drop_partial_character(std::string& text) {
  const auto byte = [&] { return static_cast<unsigned char>(text.back()); };
  while (!text.empty() && (byte() & 0xC0U) == 0x80) text.pop_back();
  if (!text.empty() && byte() >= 0xC0) text.pop_back();
}

constexpr size_t kIdDigits = 64;
constexpr size_t kUidDigits = 32;  // a UUID without dashes, as pods from files have
constexpr size_t kUuidLength = 36;
constexpr size_t kJobDigits = 10;

// What stands before an id. The processes that look after a container ("crio-conmon-<id>") are not
// in it.
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kPrefixes = {{
    {"docker-", "docker"},
    {"cri-containerd-", "containerd"},
    {"nerdctl-", "containerd"},
    {"libpod-", "podman"},
    {"libpod-payload-", "podman"},
    {"crio-", "cri-o"},
}};

bool is_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_id(std::string_view text) {
  return text.size() == kIdDigits && std::ranges::all_of(text, is_hex);
}

std::string_view without_end(std::string_view text, std::string_view end) {
  return text.ends_with(end) ? text.substr(0, text.size() - end.size()) : text;
}

// Takes what stands before the separator, and the separator.
std::string_view take(std::string_view& text, char separator) {
  const size_t at = text.find(separator);
  const std::string_view front = text.substr(0, at);
  text = at == std::string_view::npos ? std::string_view() : text.substr(at + 1);
  return front;
}

std::optional<Container> container_in(std::string_view segment, std::string_view before) {
  if (is_id(segment)) {
    return Container{before == "docker" ? "docker" : "", std::string(segment)};
  }
  const std::string_view unit = without_end(segment, ".scope");
  if (unit.size() <= kIdDigits) return std::nullopt;
  const std::string_view id = unit.substr(unit.size() - kIdDigits);
  const std::string_view prefix = unit.substr(0, unit.size() - kIdDigits);
  if (!is_id(id)) return std::nullopt;
  if (prefix.ends_with(":cri-containerd:")) return Container{"containerd", std::string(id)};
  const auto known =
      std::ranges::find(kPrefixes, prefix, [](const auto& pair) { return pair.first; });
  if (known == kPrefixes.end()) return std::nullopt;
  return Container{std::string(known->second), std::string(id)};
}

std::optional<std::string> pod_in(std::string_view segment) {
  const std::string_view slice = without_end(take(segment, ':'), ".slice");
  const size_t at = slice.rfind("pod");
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view prefix = slice.substr(0, at);
  const bool is_of_kubernetes =
      prefix.empty() || (prefix.ends_with('-') && prefix.find("kubepods") != prefix.npos);
  std::string uid(slice.substr(at + 3));
  std::ranges::replace(uid, '_', '-');
  const bool is_long_enough = uid.size() == kUidDigits || uid.size() == kUuidLength;
  const bool is_uid = std::ranges::all_of(uid, [](char c) { return is_hex(c) || c == '-'; });
  if (!is_of_kubernetes || !is_long_enough || !is_uid) return std::nullopt;
  return uid;
}

std::optional<std::string> job_in(std::string_view segment) {
  constexpr std::string_view kJob = "job_";
  if (!segment.starts_with(kJob)) return std::nullopt;
  const std::string_view number = segment.substr(kJob.size());
  if (number.empty() || number.size() > kJobDigits || !std::ranges::all_of(number, is_digit)) {
    return std::nullopt;
  }
  return std::string(number);
}

struct Path {
  Placement placement;
  size_t depth = 0;  // of containers
};

Path placed(std::string_view path) {
  Path found;
  std::string_view before;
  bool is_below_slurm = false;
  path = without_end(path, " (deleted)");
  while (!path.empty()) {
    const std::string_view segment = take(path, '/');
    if (auto container = container_in(segment, before)) {
      found.placement.container = std::move(container);
      ++found.depth;
    }
    if (auto pod = pod_in(segment)) found.placement.pod_uid = std::move(pod);
    auto job = is_below_slurm ? job_in(segment) : std::nullopt;
    if (job) found.placement.slurm_job = std::move(job);
    is_below_slurm |= segment.find("slurm") != segment.npos;
    before = segment;
  }
  return found;
}

}  // namespace

std::string command_of(std::string_view cmdline, std::string_view name, bool is_cut) {
  std::string command(cmdline.substr(0, cmdline.find_last_not_of('\0') + 1));
  if (command.empty()) return "[" + printable(name) + "]";
  // A program given with -c has lines, which a list has no room for.
  std::ranges::replace_if(command, [](char c) { return c == '\0' || c == '\n' || c == '\t'; }, ' ');
  if (!is_cut) return printable(command);
  drop_partial_character(command);
  return printable(command) + "…";
}

std::string program_name(std::string_view command) {
  const bool is_thread = command.starts_with('[') && command.find(' ') == std::string_view::npos;
  if (is_thread) return std::string(command);  // of the kernel: "[kworker/0]"
  const std::string_view word = command.substr(0, command.find(' '));
  return std::string(word.substr(word.rfind('/') + 1));
}

std::optional<std::string> shown_command(std::optional<std::string> command, CommandLines shown) {
  if (!command || shown == CommandLines::kFull) return command;
  if (shown == CommandLines::kOff) return std::nullopt;
  return program_name(*command);
}

std::optional<uint32_t> effective_uid(std::string_view status) {
  constexpr std::string_view kLine = "\nUid:\t";
  const size_t at = status.find(kLine);
  if (at == std::string_view::npos) return std::nullopt;
  status.remove_prefix(at + kLine.size());
  // "real<tab>effective<tab>saved<tab>of files"
  const size_t begin = status.find('\t');
  const size_t end = begin == std::string_view::npos ? begin : status.find('\t', begin + 1);
  if (end == std::string_view::npos) return std::nullopt;
  uint32_t uid = 0;
  const char* const last = status.data() + end;
  const auto [stop, error] = std::from_chars(status.data() + begin + 1, last, uid);
  if (error != std::errc{} || stop != last) return std::nullopt;
  return uid;
}

std::optional<std::string_view> variable_in(std::string_view environment, std::string_view name) {
  while (true) {
    const size_t end = environment.find('\0');
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view variable = environment.substr(0, end);
    if (variable.starts_with(name) && variable.substr(name.size()).starts_with('=')) {
      return variable.substr(name.size() + 1);
    }
    environment.remove_prefix(end + 1);
  }
}

bool is_kubernetes_name(std::string_view text) {
  const auto is_allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
  };
  return !text.empty() && text.size() <= kMaxNameLength && std::ranges::all_of(text, is_allowed);
}

namespace {

// Of <linux/openat2.h>, by hand: it is newer than the headers that wheels are built with.
struct OpenHow {
  uint64_t flags = 0;
  uint64_t mode = 0;
  uint64_t resolve = 0;
};
constexpr long kOpenat2 = 437;  // on every architecture
constexpr uint64_t kResolveNoMagicLinks = 0x02;
constexpr uint64_t kResolveInRoot = 0x10;

bool is_plain_file(const Descriptor& file) {
  struct stat facts{};
  return file.is_open() && fstat(file.number(), &facts) == 0 && S_ISREG(facts.st_mode);
}

}  // namespace

std::optional<FileStart> read_start(const std::string& path, size_t max_bytes) {
  const auto file = InputFile::open(path);
  if (!file) return std::nullopt;
  FileStart start{std::string(max_bytes, '\0')};
  const auto size = file->read_at(0, std::as_writable_bytes(std::span(start.text)));
  if (!size) return std::nullopt;
  start.is_cut = *size == max_bytes;
  start.text.resize(*size);
  return start;
}

std::optional<FileStart> read_inside(const std::string& root_folder, const std::string& path,
                                     size_t max_bytes) {
  const Descriptor root(open(root_folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!root.is_open()) return std::nullopt;
  // First as a place only: opening a device or a pipe would already do something.
  OpenHow how{.flags = O_PATH | O_CLOEXEC, .resolve = kResolveInRoot | kResolveNoMagicLinks};
  const Descriptor place(
      static_cast<int>(syscall(kOpenat2, root.number(), path.c_str(), &how, sizeof how)));
  if (!is_plain_file(place)) return std::nullopt;
  return read_start(fmt::format("/proc/self/fd/{}", place.number()), max_bytes);
}

Placement placement_of(std::string_view cgroup_text) {
  Placement placement;
  size_t depth = 0;
  while (!cgroup_text.empty()) {
    // "<hierarchy>:<controllers>:<path>"; of version 1 one line for each hierarchy, not all of
    // which need go as deep.
    std::string_view path = take(cgroup_text, '\n');
    take(path, ':');
    take(path, ':');
    Path found = placed(path);
    if (found.depth > depth) {
      placement.container = std::move(found.placement.container);
      depth = found.depth;
    }
    if (!placement.pod_uid) placement.pod_uid = std::move(found.placement.pod_uid);
    if (!placement.slurm_job) placement.slurm_job = std::move(found.placement.slurm_job);
  }
  return placement;
}

}  // namespace vram::watch
