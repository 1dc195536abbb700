#include "record/threads.hpp"

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

size_t Rings::count() {
  const std::lock_guard guard(all().lock);
  return all().entries.size();
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

thread_local Open open_scopes;
std::atomic<bool> has_leader{false};
std::atomic<TextId> leaders_path{0};

TextId path_of_this_thread() {
  const uint32_t depth = std::min(open_scopes.depth, ScopeStack::kMostOpen);
  if (depth > 0) return open_scopes.paths[depth - 1];
  return leaders_path.load(std::memory_order_relaxed);
}

void tell_followers() {
  if (!open_scopes.is_leader) return;
  const bool is_open = open_scopes.depth > 0;
  leaders_path.store(is_open ? path_of_this_thread() : 0, std::memory_order_relaxed);
}

}  // namespace

ScopeStack::Opened ScopeStack::open(std::string_view name) {
  if (!has_leader.load(std::memory_order_relaxed))
    open_scopes.is_leader = !has_leader.exchange(true);
  TextStore& texts = stores().texts;
  Opened opened{.name = texts.intern(name)};
  if (open_scopes.depth < kMostOpen) {
    std::string path = texts.text(path_of_this_thread());
    if (!path.empty()) path += '/';
    opened.path = texts.intern(path.append(name));
    open_scopes.paths[open_scopes.depth] = opened.path;
    open_scopes.names[open_scopes.depth] = opened.name;
  }
  ++open_scopes.depth;
  tell_followers();
  return opened;
}

TextId ScopeStack::close() {
  if (open_scopes.depth == 0) return 0;
  --open_scopes.depth;
  const TextId name = open_scopes.depth < kMostOpen ? open_scopes.names[open_scopes.depth] : 0;
  tell_followers();
  return name;
}

TextId ScopeStack::current() { return path_of_this_thread(); }

}  // namespace vram::record
