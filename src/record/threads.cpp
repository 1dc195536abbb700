#include "record/threads.hpp"

#include "base/thread_owned.hpp"
#include "record/stores.hpp"

#include <algorithm>
#include <string>

namespace vram::record {

Rings::All& Rings::all() {
  static All& all = *new All;
  return all;
}

Rings::Holder& Rings::holder() {
  thread_local Holder holder;
  return holder;
}

Rings::Holder::~Holder() {
  has_ended = true;
  if (entry != nullptr) entry->is_owned.store(false, std::memory_order_release);
  entry = nullptr;
}

Rings::Entry* Rings::take() {
  const std::lock_guard guard(all().lock);
  for (const auto& entry : all().entries) {
    if (entry->is_owned.load(std::memory_order_acquire) || entry->ring->front() != nullptr)
      continue;
    entry->is_owned.store(true, std::memory_order_relaxed);
    return entry.get();
  }
  return all().entries.emplace_back(std::make_unique<Entry>()).get();
}

Ring* Rings::own() {
  Holder& mine = holder();
  if (mine.entry == nullptr) {
    if (mine.has_ended) return nullptr;
    mine.entry = take();
  }
  return mine.entry->ring.get();
}

void Rings::forget_other_threads() {
  new (&all().lock) std::mutex;  // another thread may have held it at the fork
  for (const auto& entry : all().entries) {
    while (entry->ring->front() != nullptr) entry->ring->drop();  // the parent's to write
    if (entry.get() != holder().entry) entry->is_owned.store(false, std::memory_order_relaxed);
  }
}

namespace {

struct Open {
  std::array<TextId, ScopeStack::kMostOpen> paths{};
  std::array<TextId, ScopeStack::kMostOpen> names{};
  uint32_t depth = 0;
  bool is_leader = false;
};

thread_local ThreadOwned<Open> open_scopes;
std::atomic<bool> has_leader{false};
std::atomic<TextId> leaders_path{0};

TextId path_of_this_thread() {
  const Open* const own = open_scopes.peek();
  if (own == nullptr || own->depth == 0) return leaders_path.load(std::memory_order_relaxed);
  return own->paths[std::min(own->depth, ScopeStack::kMostOpen) - 1];
}

void tell_followers(const Open& own) {
  if (!own.is_leader) return;
  leaders_path.store(own.depth > 0 ? path_of_this_thread() : 0, std::memory_order_relaxed);
}

}  // namespace

ScopeStack::Opened ScopeStack::open(std::string_view name) {
  Open* const own = open_scopes.get();
  if (own == nullptr) return {};
  if (!has_leader.load(std::memory_order_relaxed)) own->is_leader = !has_leader.exchange(true);
  TextStore& texts = stores().texts;
  Opened opened{.name = texts.intern(name)};
  if (own->depth < kMostOpen) {
    std::string path = texts.text(path_of_this_thread());
    if (!path.empty()) path += '/';
    opened.path = texts.intern(path.append(name));
    own->paths[own->depth] = opened.path;
    own->names[own->depth] = opened.name;
  }
  ++own->depth;
  tell_followers(*own);
  return opened;
}

TextId ScopeStack::close() {
  Open* const own = open_scopes.peek();
  if (own == nullptr || own->depth == 0) return 0;
  --own->depth;
  const TextId name = own->depth < kMostOpen ? own->names[own->depth] : 0;
  tell_followers(*own);
  return name;
}

TextId ScopeStack::current() { return path_of_this_thread(); }

}  // namespace vram::record
