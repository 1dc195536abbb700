#include "watch/container.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace vram::watch {
namespace {

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
