#include "record/threads.hpp"

#include "base/thread_end.hpp"
#include "record/stores.hpp"

#include <algorithm>
#include <functional>
#include <new>
#include <string>
#include <thread>
#include <utility>

namespace vram::record {

Rings::All& Rings::all() {
  static All& all = *new All;
  return all;
}

__attribute__((tls_model("initial-exec"))) constinit thread_local OfThread of_thread;

Rings::Own& Rings::own() {
  __attribute__((tls_model("initial-exec"))) constinit static thread_local Own mine;
  return mine;
}

void Rings::give_back(void* own) {
  of_thread.ring = nullptr;
  Entry* const entry = std::exchange(static_cast<Own*>(own)->entry, nullptr);
  if (entry != nullptr) entry->is_owned.store(false, std::memory_order_release);
}

Ring* Rings::take() {
  Own& mine = own();
  if (mine.hook.run != nullptr) return nullptr;  // it had one
  mine.hook = {.run = &give_back, .argument = &mine};
  if (!at_thread_end(mine.hook)) return nullptr;
  mine.entry = find_entry();
  if (mine.entry != nullptr) of_thread.ring = mine.entry->ring.get();
  return of_thread.ring;
}

Rings::Entry* Rings::find_entry() {
  const std::lock_guard guard(all().lock);
  for (const auto& entry : all().entries) {
    if (entry->is_owned.load(std::memory_order_acquire) || entry->ring->front() != nullptr)
      continue;
    entry->is_owned.store(true, std::memory_order_relaxed);
    return entry.get();
  }
  try {
    return all().entries.emplace_back(std::make_unique<Entry>()).get();
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void Rings::forget_other_threads() {
  for (const auto& entry : all().entries) {
    while (entry->ring->front() != nullptr) entry->ring->drop();  // the parent's to write
    if (entry.get() != own().entry) entry->is_owned.store(false, std::memory_order_relaxed);
  }
}

namespace {

struct Open {
  uint32_t depth = 0;
  bool is_leader = false;
  std::array<TextId, ScopeStack::kMaxNestedScopes> paths{};
  std::array<TextId, ScopeStack::kMaxNestedScopes> names{};
  // Scopes that this thread has opened lately: most are opened again, in the same place. A model
  // has hundreds of modules, each a scope, and a miss costs several times as much as a hit.
  struct Met {
    TextId parent = 0;
    const std::string* name = nullptr;
    ScopeStack::Opened opened;
  };
  std::array<Met, 4096> met{};

  Open() = default;
  Open(const Open&) = delete;
  Open& operator=(const Open&) = delete;
  ~Open();
};

__attribute__((tls_model("initial-exec"))) constinit thread_local ThreadOwned<Open> open_scopes;
std::atomic<bool> has_leader{false};

void dismiss_leader() {
  for_records.leaders_path.store(0, std::memory_order_relaxed);
  has_leader.store(false, std::memory_order_release);
}

Open::~Open() {
  of_thread.has_scope = false;
  if (is_leader) dismiss_leader();
}

// The thread's records and, of a leader, those of its followers have this path from now on.
void set_path(const Open& own) {
  const uint32_t depth = std::min(own.depth, ScopeStack::kMaxNestedScopes);
  const TextId path = depth > 0 ? own.paths[depth - 1] : 0;
  of_thread.path = path;
  of_thread.has_scope = depth > 0;
  if (own.is_leader) for_records.leaders_path.store(path, std::memory_order_relaxed);
}

ScopeStack::Opened opened_in(TextId parent, std::string_view name, Open& own) {
  const size_t hash = std::hash<std::string_view>{}(name) + parent * size_t{0x9e3779b9};
  Open::Met& met = own.met[hash % own.met.size()];
  if (met.name != nullptr && met.parent == parent && *met.name == name) return met.opened;
  TextStore& texts = stores().texts;
  std::string path = texts.text(parent);
  if (!path.empty()) path += '/';
  const ScopeStack::Opened opened{.path = texts.intern(path.append(name)),
                                  .name = texts.intern(name)};
  // Number 0 is of a text that had no room, and may have some later.
  if (opened.path != 0 && opened.name != 0) met = {parent, texts.stable(opened.name), opened};
  return opened;
}

}  // namespace

ScopeStack::Opened ScopeStack::open(std::string_view name) {
  Open* const own = open_scopes.get();
  if (own == nullptr) return {};
  if (!has_leader.load(std::memory_order_relaxed)) own->is_leader = !has_leader.exchange(true);
  Opened opened = opened_in(current(), name, *own);
  if (own->depth < kMaxNestedScopes) {
    own->paths[own->depth] = opened.path;
    own->names[own->depth] = opened.name;
  } else {
    opened = {};
  }
  ++own->depth;
  set_path(*own);
  return opened;
}

TextId ScopeStack::close() {
  Open* const own = open_scopes.peek();
  if (own == nullptr || own->depth == 0) return 0;
  --own->depth;
  const TextId name = own->depth < kMaxNestedScopes ? own->names[own->depth] : 0;
  set_path(*own);
  return name;
}

void ScopeStack::forget_other_threads() {
  const Open* const own = open_scopes.peek();
  if (own == nullptr || !own->is_leader) dismiss_leader();
}

namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::chrono::microseconds kRingPollInterval{50};
// A disk that takes longer for what the flusher has in hand is a slow one.
constexpr std::chrono::milliseconds kMaxDiskTime{100};
// A flusher that works says so more often.
constexpr std::chrono::milliseconds kMaxSilence{50};
constexpr int64_t kShareOfTime = 100;

}  // namespace

Record* Traffic::wait_for_place(Ring& ring) {
  uint64_t seen = progress();
  auto got_on = SteadyClock::now();
  while (timeout_ns_.load(std::memory_order_relaxed) > 0) {
    if (Record* place = ring.claim(); place != nullptr) return place;
    flush_soon();
    const auto begin = SteadyClock::now();
    std::this_thread::sleep_for(kRingPollInterval);
    const auto now = SteadyClock::now();
    if (const uint64_t before = std::exchange(seen, progress()); before != seen) {
      got_on = now;
    } else if (is_on_disk_.load(std::memory_order_relaxed) || now - got_on > kMaxSilence) {
      const std::chrono::nanoseconds waited = now - begin;
      timeout_ns_.fetch_sub(waited.count(), std::memory_order_relaxed);
    }
  }
  return ring.claim();
}

void Traffic::note_cycle(std::chrono::nanoseconds duration) {
  const std::chrono::nanoseconds on_disk(disk_time_ns_.exchange(0, std::memory_order_relaxed));
  const int64_t left = timeout_ns_.load(std::memory_order_relaxed);
  if (on_disk > kMaxDiskTime || left >= kMaxWait.count()) return;
  const int64_t more = std::min(duration.count() / kShareOfTime, kMaxWait.count() - left);
  timeout_ns_.fetch_add(more, std::memory_order_relaxed);
}

Traffic& traffic() {
  static Traffic& one = *new Traffic;  // never destroyed: threads may record while the process ends
  return one;
}

}  // namespace vram::record
