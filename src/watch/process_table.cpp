#include "watch/process_table.hpp"

#include "record/board_page.hpp"
#include "watch/process_texts.hpp"
#include "watch/sources.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <utility>

namespace vram::watch {
namespace {

constexpr size_t kStatBytes = 1024;
constexpr size_t kStatusBytes = 4096;
constexpr size_t kCommandBytes = 4096;
constexpr size_t kCgroupBytes = 16 * 1024;
constexpr size_t kEnvironmentBytes = 256 * 1024;
constexpr size_t kNameBytes = 256;
constexpr size_t kMaxFiles = 65536;  // of one process, looked through for a GPU
// How many ticks are between two reads of a stat, and no more time than this. A program that holds
// a device's memory loses it when it becomes another, so one that has settled hardly ever does.
struct CheckInterval {
  uint64_t ticks;
  uint64_t max_age_ns;
};
constexpr CheckInterval kFirstInterval = {8, 10'000'000'000};
constexpr CheckInterval kSettledInterval = {32, 40'000'000'000};
constexpr uint32_t kSettledAfter = 2;  // times the same
constexpr size_t kMaxJobLength = 10;
// Kubernetes puts it into each container that may talk to it.
constexpr const char* kSpaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

std::optional<std::string> owned(std::optional<std::string_view> text) {
  return text ? std::optional<std::string>(*text) : std::nullopt;
}

bool is_job_number(std::string_view text) {
  return !text.empty() && text.size() <= kMaxJobLength &&
         text.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

std::string ProcessTable::path(uint32_t pid, const char* file) const {
  return fmt::format("{}/{}/{}", root_, pid, file);
}

void ProcessTable::begin_tick() {
  ++tick_;
  tick_ns_ = monotonic_ns();
  const auto ended = lives_.take_ended();
  if (!ended) return;
  for (const uint32_t pid : *ended) entries_.at(pid).is_watched = false;
  for (auto& [pid, entry] : entries_) entry.lives = entry.is_watched;
}

// Spread by pid, so that each tick reads about as many.
bool ProcessTable::is_due(uint32_t pid, const Entry& entry) const {
  const CheckInterval& interval = entry.same < kSettledAfter ? kFirstInterval : kSettledInterval;
  return (tick_ + pid) % interval.ticks == 0 || tick_ns_ - entry.read_ns >= interval.max_age_ns;
}

const KnownProcess& ProcessTable::lookup(uint32_t pid) {
  Entry& entry = entries_[pid];
  entry.is_asked = true;
  const bool is_known = entry.lives && entry.process.facts->start_ticks;
  if (!is_known || is_due(pid, entry)) check(pid, entry);
  add_user(entry.process);
  return entry.process;
}

void ProcessTable::add_user(KnownProcess& process) {
  if (!process.facts->uid || process.facts->user) return;
  if (auto name = users_.name(*process.facts->uid)) process.facts.edit().user = std::move(name);
}

// Another machine's tree is as that machine's drivers count.
ProcessTable::Numbers ProcessTable::numbers_in(const std::string& root) {
  const uint64_t own = record::own_pid_namespace();
  const bool is_the_machines = own == record::kFirstPidNamespace || own == 0;
  return root != "/proc" || is_the_machines ? Numbers::kTheSame : Numbers::kPerhapsOthers;
}

const KnownProcess& ProcessTable::lookup_named(uint32_t pid) {
  const KnownProcess& known = lookup(pid);
  if (numbers_ == Numbers::kTheSame) return known;
  Entry& entry = entries_[pid];
  if (known.facts->start_ticks && !entry.has_gpu) entry.has_gpu = has_gpu_open(pid);
  if (entry.has_gpu) return known;
  if (entry.stranger.facts->pid != pid) entry.stranger.facts.edit().pid = pid;
  return entry.stranger;
}

// Nothing of another user's process can be seen here, so it counts as one without.
bool ProcessTable::has_gpu_open(uint32_t pid) const {
  std::error_code error;
  size_t files = 0;
  for (std::filesystem::directory_iterator at(path(pid, "fd"), error), end;
       !error && at != end && ++files < kMaxFiles; at.increment(error)) {
    std::error_code unread;
    const std::string to = std::filesystem::read_symlink(at->path(), unread);
    for (const std::string_view device : {"/dev/nvidia", "/dev/dri/", "/dev/kfd"})
      if (to.starts_with(device)) return true;
  }
  return false;
}

// Watched before its stat is read: should it end in between, and its pid be used again, what is
// watched has ended and the next tick finds out.
bool ProcessTable::may_be_there(uint32_t pid, Entry& entry) {
  if (entry.is_watched || entry.process.has_ended) return true;
  const LifeWatch::Added added = lives_.add(pid);
  entry.is_watched = added == LifeWatch::Added::kYes;
  return added != LifeWatch::Added::kNobody;
}

void ProcessTable::check(uint32_t pid, Entry& entry) {
  KnownProcess& process = entry.process;
  const auto text =
      may_be_there(pid, entry) ? read_start(path(pid, "stat"), kStatBytes) : std::nullopt;
  const auto stat = text ? parse_process_stat(text->text) : std::nullopt;
  entry.read_ns = tick_ns_;
  if (!stat) {
    process = KnownProcess();
    process.facts.edit().pid = pid;
    entry.has_gpu = false;
    entry.same = 0;
    return;
  }
  const bool is_same = process.facts->start_ticks == stat->start_ticks && entry.name == stat->name;
  entry.same = is_same ? entry.same + 1 : 0;
  // A shell that becomes its program keeps pid and start, and changes its name.
  if (!is_same) {
    entry.has_gpu = false;
    process = read(pid, *stat);
    entry.name = stat->name;
  }
  process.has_ended = stat->has_ended;
  if (process.facts->parent_pid != stat->parent_pid)  // the first process, once its own is dead
    process.facts.edit().parent_pid = stat->parent_pid;
}

KnownProcess ProcessTable::read(uint32_t pid, const ProcessStat& stat) const {
  KnownProcess process;
  ProcessFacts& facts = process.facts.edit();
  facts.pid = pid;
  facts.start_ticks = stat.start_ticks;
  if (const auto status = read_start(path(pid, "status"), kStatusBytes)) {
    facts.uid = effective_uid(status->text);
  }
  if (const auto cmdline = read_start(path(pid, "cmdline"), kCommandBytes)) {
    facts.command = shown_command(command_of(cmdline->text, stat.name, cmdline->is_cut), commands_);
  }
  if (const auto cgroup = read_start(path(pid, "cgroup"), kCgroupBytes)) {
    Placement placement = placement_of(cgroup->text);
    facts.container = std::move(placement.container);
    facts.slurm_job = std::move(placement.slurm_job);
    if (placement.pod_uid) facts.pod = Pod{*placement.pod_uid, {}, pod_space(pid)};
  }
  process.cuda = read_environment(facts);
  return process;
}

CudaEnvironment ProcessTable::read_environment(ProcessFacts& facts) const {
  const auto file = read_start(path(facts.pid, "environ"), kEnvironmentBytes);
  if (!file) return {};
  const std::string_view variables = file->text;
  const auto job = variable_in(variables, "SLURM_JOB_ID");
  if (!facts.slurm_job && job && is_job_number(*job)) facts.slurm_job = std::string(*job);
  const auto host = variable_in(variables, "HOSTNAME");
  // A pod that shares the machine's network has the machine's name.
  if (facts.pod && host && is_kubernetes_name(*host) && !is_host_name(*host)) {
    facts.pod->name = std::string(*host);
  }
  return {true, owned(variable_in(variables, "CUDA_VISIBLE_DEVICES")),
          owned(variable_in(variables, "CUDA_DEVICE_ORDER"))};
}

std::optional<std::string> ProcessTable::pod_space(uint32_t pid) const {
  const auto space = read_inside(path(pid, "root"), kSpaceFile, kNameBytes);
  if (!space || !is_kubernetes_name(space->text)) return std::nullopt;
  return space->text;
}

bool ProcessTable::is_host_name(std::string_view name) const {
  const auto file = read_start(root_ + "/sys/kernel/hostname", kNameBytes);
  return file && std::string_view(file->text).substr(0, file->text.find('\n')) == name;
}

void ProcessTable::forget_unused() {
  const size_t before = entries_.size();
  std::erase_if(entries_, [](const auto& entry) { return !entry.second.is_asked; });
  if (entries_.size() != before)
    lives_.keep_only([this](uint32_t pid) { return entries_.contains(pid); });
  for (auto& [pid, entry] : entries_) entry.is_asked = entry.lives = false;
}

}  // namespace vram::watch
