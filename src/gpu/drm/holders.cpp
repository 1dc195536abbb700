#include "gpu/drm/holders.hpp"

#include "base/process_stat.hpp"
#include "gpu/drm/files.hpp"

#include <algorithm>
#include <bit>

namespace vram::gpu::drm {
namespace {

// Ticks in which a process is young.
constexpr uint64_t kYoungTicks = 32;
// What a scan costs in addition to its links, in links.
constexpr uint64_t kScanCost = 2;

// "renderD128" of "/dev/dri/renderD128". Seen from another mount namespace the front may be another
// one, and a node that was taken away has a word behind it.
std::optional<std::string> node_of(std::string_view target) {
  constexpr std::string_view kFolder = "/dri/";
  const auto folder = target.rfind(kFolder);
  if (folder == std::string_view::npos) return std::nullopt;
  std::string_view node = target.substr(folder + kFolder.size());
  node = node.substr(0, node.find(' '));
  for (const std::string_view kind : {"card", "renderD"}) {
    if (node.starts_with(kind) && as_small_number(node.substr(kind.size())))
      return std::string(node);
  }
  return std::nullopt;
}

}  // namespace

void Holders::tick(Files& files, std::span<const uint32_t> users) {
  update_known(files);
  for (Known& known : known_) {
    const bool is_user = std::ranges::binary_search(users, known.pid);
    if (is_new(known) || (is_user && !holders_.contains(known.pid))) scan(files, known);
  }
  const uint64_t links_before = files.links_read();
  for (Known& known : known_) {
    if (files.links_read() - links_before >= kLinksATick) break;
    if (is_due(known) || has_another_size(known)) scan(files, known);
  }
  if (ticks_ > 0) sweep(files, links_before);
  ++ticks_;
}

// Forgets who is gone.
void Holders::update_known(Files& files) {
  std::vector<Known> now;
  auto before = known_.begin();
  for (const uint32_t pid : files.numbers_in(proc_)) {
    while (before != known_.end() && before->pid < pid) ++before;
    const bool is_old = before != known_.end() && before->pid == pid;
    now.push_back(is_old ? *before : Known{pid, ticks_, 0});
  }
  known_ = std::move(now);
  std::erase_if(holders_, [&](const auto& entry) { return !is_running(entry.first); });
}

bool Holders::is_running(uint32_t pid) const {
  return std::ranges::binary_search(known_, pid, {}, &Known::pid);
}

bool Holders::is_new(const Known& known) const { return known.first_tick == ticks_; }

// One, two, four, … ticks after it was new.
bool Holders::is_due(const Known& known) const {
  const uint64_t age = ticks_ - known.first_tick;
  return known.first_tick != 0 && age <= kYoungTicks && std::has_single_bit(age);
}

bool Holders::has_another_size(const Known& known) const {
  if (known.pid % kCountTicks != ticks_ % kCountTicks || is_new(known)) return false;
  return Files::size_of(folder_of(known.pid) + "/fd") != known.fd_size;
}

void Holders::sweep(Files& files, uint64_t links_before) {
  auto next = std::ranges::lower_bound(known_, next_pid_, {}, &Known::pid);
  uint64_t scans = 0;
  const auto cost = [&] { return files.links_read() - links_before + kScanCost * scans; };
  for (; scans < known_.size() && cost() < kLinksATick; ++scans, ++next) {
    if (next == known_.end()) next = known_.begin();
    scan(files, *next);
  }
  next_pid_ = next == known_.end() ? 0 : next->pid;
}

void Holders::scan(Files& files, Known& known) {
  const uint32_t pid = known.pid;
  known.fd_size = Files::size_of(folder_of(pid) + "/fd");
  std::vector<Descriptor> descriptors;
  for (const Link& link : files.links_in(folder_of(pid) + "/fd")) {
    if (auto node = node_of(link.target)) descriptors.push_back({link.name, *node, std::nullopt});
  }
  const auto stat =
      descriptors.empty() ? std::nullopt : parse_process_stat(files.read(folder_of(pid) + "/stat"));
  if (!stat) {
    holders_.erase(pid);
    return;
  }
  std::ranges::sort(descriptors, {}, &Descriptor::number);
  holders_.insert_or_assign(pid, Holder{pid, stat->start_ticks, std::move(descriptors)});
}

std::string Holders::folder_of(uint32_t pid) const { return proc_ + "/" + std::to_string(pid); }

}  // namespace vram::gpu::drm
