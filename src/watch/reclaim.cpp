#include "watch/reclaim.hpp"

#include "record/board_reader.hpp"
#include "record/page_requester.hpp"
#include "watch/boards.hpp"
#include "watch/sources.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <set>
#include <sys/stat.h>
#include <thread>
#include <tuple>
#include <unistd.h>
#include <utility>

namespace vram::watch {
namespace {

using Bytes = std::optional<uint64_t>;

// What a process posts may be anything: a sum that can't be is unknown. So is one of nothing.
Bytes sum_of(const std::vector<Bytes>& figures) {
  Bytes sum;
  for (const Bytes& figure : figures) {
    uint64_t next = 0;
    if (!figure || __builtin_add_overflow(sum.value_or(0), *figure, &next)) return std::nullopt;
    sum = next;
  }
  return sum;
}

Bytes driver_held(const Process& process) {
  std::vector<Bytes> used;
  for (const Use& use : process.uses) used.push_back(use.process.used_bytes);
  return sum_of(used);
}

Bytes posted_held(const std::vector<PostedDevice>& posted) {
  std::vector<Bytes> reserved;
  for (const PostedDevice& device : posted) reserved.push_back(device.figures.reserved_bytes);
  return sum_of(reserved);
}

// Whether the process computes: of itself, else as the device does. Unknown: no source says.
std::optional<bool> computes(const Process& process, const Snapshot& snapshot) {
  bool is_known = !process.uses.empty();
  for (const Use& use : process.uses) {
    const auto own = use.process.busy_percent;
    const auto all = snapshot.devices.at(use.device).sample.busy_percent;
    if (own.value_or(0) > 0) return true;
    is_known &= own.has_value() || all == 0U;
  }
  return is_known ? std::optional(false) : std::nullopt;
}

std::vector<PostedDevice> posted_by(const Process& process, const record::BoardFigures& figures) {
  std::vector<PostedDevice> posted;
  for (size_t i = 0; i < figures.device_count; ++i) {
    const uint64_t number = figures.devices[i].device;
    PostedDevice device{number, std::nullopt, allocator_figures(figures.devices[i])};
    for (const Use& use : process.uses) {
      if (!use.allocator || use.allocator->number != number) continue;
      device.index = use.device;
      device.figures = *use.allocator;
    }
    posted.push_back(device);
  }
  return posted;
}

Bytes quiet_since(uint64_t posted_ns) {
  const uint64_t now = monotonic_ns();
  return posted_ns == 0 || posted_ns > now ? std::nullopt : Bytes(now - posted_ns);
}

class Search {
 public:
  Search(const Snapshot& snapshot, ProcessTable& table) : snapshot_(snapshot), table_(table) {
    found_.time_ns = snapshot.time_ns;
    found_.host = snapshot.host;
    found_.notes = snapshot.notes;
  }

  void search_folder(const std::string& folder) {
    struct stat facts{};
    if (lstat(folder.c_str(), &facts) != 0 || !S_ISDIR(facts.st_mode)) return;
    for (const uint32_t pid : record::list_board(folder)) {
      const auto page = record::read_board(folder, pid);
      if (page && page->state == record::OwnerState::kDead) {
        found_.dead.push_back({pid, folder, page->command});
      } else if (page && page->state == record::OwnerState::kAlive) {
        add_poster(*page, facts.st_uid, folder);
      }
    }
  }

  Reclaimable finish() {
    for (const Process& process : snapshot_.processes) {
      if (!posters_.contains(process.facts->pid)) add(process, {});
    }
    std::ranges::stable_sort(found_.holders, std::greater{}, [](const Holder& holder) {
      return std::tuple(holder.cached_bytes().value_or(0), holder.held_bytes.value_or(0));
    });
    return std::move(found_);
  }

 private:
  void add_poster(const record::BoardReading& page, uid_t uid, const std::string& folder) {
    const KnownProcess& known = table_.lookup(page.owner.pid);
    const bool is_its_own =
        known.facts->uid == uid && known.facts->start_ticks == page.owner.start_ticks;
    if (!is_its_own || !posters_.insert(page.owner.pid).second) return;
    Process process = process_of(known.facts);
    Holder holder;
    holder.folder = folder;
    if (page.figures) {
      add_figures(process, *page.figures, known, snapshot_.devices);
      holder.posted = posted_by(process, *page.figures);
      holder.quiet_ns = quiet_since(page.figures->posted_ns);
    }
    add(process, std::move(holder));
  }

  [[nodiscard]] Process process_of(const Shared<ProcessFacts>& facts) const {
    const auto& all = snapshot_.processes;
    const auto same = std::ranges::find_if(
        all, [&](const Process& process) { return process.facts->pid == facts->pid; });
    if (same != all.end()) return *same;
    Process process;
    process.facts = facts;
    return process;
  }

  void add(const Process& process, Holder holder) {
    holder.facts = *process.facts;
    holder.step = process.step;
    holder.held_bytes = process.uses.empty() ? posted_held(holder.posted) : driver_held(process);
    holder.is_idle = is_idle(process, snapshot_, holder.held_bytes, holder.quiet_ns);
    holder.is_gone = !process.facts->start_ticks && sees_all_processes();
    found_.holders.push_back(std::move(holder));
  }

  const Snapshot& snapshot_;
  ProcessTable& table_;
  Reclaimable found_;
  std::set<uint32_t> posters_;
};

// With their owners' numbers.
std::vector<std::pair<std::string, uid_t>> entries_of(const std::string& folder) {
  std::vector<std::pair<std::string, uid_t>> entries;
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    struct stat facts{};
    if (lstat(at->path().c_str(), &facts) == 0) entries.emplace_back(at->path(), facts.st_uid);
  }
  return entries;
}

// If it is a folder of that user.
void add_folder(const std::string& path, uid_t owner, std::vector<std::string>& folders) {
  struct stat facts{};
  const bool is_theirs =
      lstat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode) && facts.st_uid == owner;
  if (is_theirs) folders.push_back(path);
}

}  // namespace

Bytes Holder::cached_bytes(std::optional<uint32_t> index) const {
  std::vector<Bytes> cached;
  for (const PostedDevice& device : posted) {
    if (!index || device.index == index) cached.push_back(device.figures.cached_bytes);
  }
  return sum_of(cached);
}

bool sees_all_processes() {
  return record::this_process().pid_namespace == record::kFirstPidNamespace &&
         access("/proc/1/stat", R_OK) == 0;  // as root alone with hidepid
}

bool is_idle(const Process& process, const Snapshot& snapshot, Bytes held_bytes, Bytes quiet_ns,
             const IdleRule& rule) {
  if (held_bytes.value_or(0) < rule.held_bytes) return false;
  const auto computing = computes(process, snapshot);
  if (quiet_ns) return *quiet_ns >= rule.quiet_ns && computing != true;
  return computing == false;
}

std::vector<std::string> board_folders(const std::string& named) {
  if (!named.empty()) return {named};
  const uid_t own = geteuid();
  std::vector<std::string> folders = {record::board_folder_of(own)};
  add_folder(record::second_board_folder_of(own), own, folders);
  if (own != 0) return folders;
  for (const auto& [path, owner] : entries_of(record::kSharedMemoryFolder))
    if (path == record::board_folder_of(owner)) add_folder(path, owner, folders);
  for (const auto& [path, owner] : entries_of(record::kRuntimeFolders))
    add_folder(record::second_board_folder_of(owner), owner, folders);
  std::ranges::sort(folders);
  const auto twice = std::ranges::unique(folders);
  folders.erase(twice.begin(), twice.end());
  return folders;
}

Reclaimable find_reclaimable(const Snapshot& snapshot, const std::vector<std::string>& folders,
                             ProcessTable& table) {
  Search search(snapshot, table);
  for (const std::string& folder : folders) search.search_folder(folder);
  return search.finish();
}

namespace {

using record::PageRequester;
using record::RequestState;

constexpr auto kPause = std::chrono::milliseconds(5);

std::optional<uint64_t> own_number(const Holder& holder, std::optional<uint32_t> device) {
  const auto posted = std::ranges::find_if(
      holder.posted, [&](const PostedDevice& each) { return each.index == device; });
  return !device || posted == holder.posted.end() ? std::nullopt : std::optional(posted->number);
}

bool is_worth_trying(const Holder& holder, const TrimChoice& choice) {
  if (!holder.can_be_asked()) return false;
  if (choice.device && !own_number(holder, choice.device)) return false;
  return holder.cached_bytes(choice.device) != 0U;
}

TrimOrder order_for(const Holder& holder, const TrimChoice& choice) {
  return {holder.facts.pid, holder.folder, own_number(holder, choice.device), choice.bytes};
}

Result<std::vector<TrimOrder>> named_orders(const Reclaimable& from, const TrimChoice& choice) {
  std::vector<TrimOrder> orders;
  for (const uint32_t pid : choice.pids) {
    const auto holder = std::ranges::find_if(from.holders, [&](const Holder& each) {
      return each.facts.pid == pid && each.can_be_asked();
    });
    if (holder == from.holders.end()) {
      return fail(Code::kNotFound,
                  "process {} has no status page, so it can't be asked: it must run as your "
                  "user and open a vram.Board(); 'vram free' lists who can be asked",
                  pid);
    }
    if (choice.device && !own_number(*holder, choice.device)) {
      return fail(Code::kNotFound,
                  "process {} does not say what it holds of GPU {}: leave --device out", pid,
                  *choice.device);
    }
    orders.push_back(order_for(*holder, choice));
  }
  return orders;
}

record::PageOrder target_of_order(const TrimOrder& order) {
  return {order.device.value_or(record::kBoardUnknown),
          order.bytes.value_or(record::kBoardUnknown)};
}

TrimAnswer answer_of(uint32_t pid, const PageRequester& requester) {
  switch (requester.state()) {
    case RequestState::kAnswered:
      return {pid, TrimOutcome::kAnswered, requester.bytes(), ""};
    case RequestState::kAsked:
      return {pid, TrimOutcome::kSilent, {}, ""};
    case RequestState::kQueued:
      return {pid, TrimOutcome::kTaken, {}, ""};
    case RequestState::kOwnerDied:
      return {pid, TrimOutcome::kEnded, {}, ""};
    case RequestState::kWithdrawn:
      return {pid, TrimOutcome::kLeft, {}, ""};
    case RequestState::kBroken:
      break;
  }
  return {pid, TrimOutcome::kRefused, {}, tr("its page can't be read any more")};
}

}  // namespace

Result<std::vector<TrimOrder>> choose(const Reclaimable& from, const TrimChoice& choice) {
  if (!choice.pids.empty()) return named_orders(from, choice);
  std::vector<const Holder*> holders;
  for (const Holder& holder : from.holders) {
    if (is_worth_trying(holder, choice)) holders.push_back(&holder);
  }
  const auto cached = [&](const Holder* holder) {
    return holder->cached_bytes(choice.device).value_or(0);
  };
  std::ranges::stable_sort(holders, std::greater{}, cached);
  std::vector<TrimOrder> orders;
  uint64_t left = choice.bytes.value_or(UINT64_MAX);
  for (const Holder* holder : holders) {
    if (left == 0) break;
    orders.push_back(order_for(*holder, choice));
    left -= choice.bytes ? std::min(left, cached(holder)) : 0;
  }
  return orders;
}

std::vector<TrimAnswer> request_trim(std::span<const TrimOrder> orders, uint64_t timeout_ns) {
  const uint64_t end = monotonic_ns() + timeout_ns;
  std::vector<Result<PageRequester>> requester;
  requester.reserve(orders.size());
  for (const TrimOrder& order : orders)
    requester.push_back(PageRequester::start(order.folder, order.pid, target_of_order(order)));
  const auto is_open = [](Result<PageRequester>& each) {
    if (each) each->poll();
    return each && !each->is_over();
  };
  while (std::ranges::count_if(requester, is_open) > 0 && monotonic_ns() < end)
    std::this_thread::sleep_for(kPause);
  std::vector<TrimAnswer> answers;
  for (size_t i = 0; i < requester.size(); ++i) {
    answers.push_back(
        requester[i]
            ? answer_of(orders[i].pid, *requester[i])
            : TrimAnswer{orders[i].pid, TrimOutcome::kRefused, {}, requester[i].error().message});
  }
  return answers;
}

uint64_t sum_of(std::span<const TrimAnswer> answers) {
  uint64_t sum = 0;
  for (const TrimAnswer& answer : answers) {
    if (__builtin_add_overflow(sum, answer.bytes.value_or(0), &sum)) return UINT64_MAX;
  }
  return sum;
}

size_t sweep(const std::vector<std::string>& folders) {
  size_t swept = 0;
  for (const std::string& folder : folders) {
    if (const auto pids = record::sweep_board(folder)) swept += pids->size();
  }
  return swept;
}

}  // namespace vram::watch
