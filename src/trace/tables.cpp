#include "trace/tables.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace vram::trace {
namespace {

// Mixing step of splitmix64 (Steele, Lea and Flood 2014): well spread from low-entropy ids.
uint64_t mix(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9;
  x ^= x >> 27;
  x *= 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

uint64_t combine(uint64_t hash, uint64_t value) { return mix(hash ^ (value + 0x9e3779b97f4a7c15)); }

uint64_t hash_text(std::string_view text) {
  uint64_t hash = text.size();
  while (!text.empty()) {
    uint64_t word = 0;
    const size_t length = std::min<size_t>(text.size(), sizeof(word));
    std::memcpy(&word, text.data(), length);
    hash = combine(hash, word);
    text.remove_prefix(length);
  }
  return hash;
}

// Deep stacks are most of what importers intern: four ids a round, in two lanes that do not wait
// for each other.
uint64_t hash_ids(std::span<const uint32_t> ids) {
  constexpr uint64_t kFactor = 0x9e3779b97f4a7c15;
  uint64_t lanes[2] = {ids.size(), kFactor};
  while (!ids.empty()) {
    uint64_t words[2] = {};
    const size_t count = std::min<size_t>(ids.size(), 4);
    std::memcpy(words, ids.data(), count * sizeof(uint32_t));
    for (int i = 0; i < 2; ++i) lanes[i] = std::rotl(lanes[i] ^ words[i], 29) * kFactor;
    ids = ids.subspan(count);
  }
  return mix(lanes[0] ^ mix(lanes[1]));
}

}  // namespace

template <typename Equals>
uint32_t IdIndex::find_or_add(uint64_t hash, uint32_t next_id, Equals&& equals) {
  if (used_ * 10 >= slots_.size() * 7) grow();
  const auto key = static_cast<uint32_t>(hash);
  const size_t mask = slots_.size() - 1;
  for (size_t i = key & mask;; i = (i + 1) & mask) {
    Slot& slot = slots_[i];
    if (slot.id_plus_1 == 0) {
      slot = {key, next_id + 1};
      ++used_;
      return next_id;
    }
    if (slot.hash == key && equals(slot.id_plus_1 - 1)) return slot.id_plus_1 - 1;
  }
}

void IdIndex::grow() {
  std::vector<Slot> old(std::max<size_t>(64, slots_.size() * 2));
  old.swap(slots_);
  const size_t mask = slots_.size() - 1;
  for (const Slot& slot : old) {
    if (slot.id_plus_1 == 0) continue;
    size_t i = slot.hash & mask;
    while (slots_[i].id_plus_1 != 0) i = (i + 1) & mask;
    slots_[i] = slot;
  }
}

StringTable::StringTable() {
  offsets_.push_back(0);
  intern("");
}

StringId StringTable::intern(std::string_view text) {
  const auto next = static_cast<StringId>(size());
  const StringId id = index_.find_or_add(hash_text(text), next,
                                         [&](StringId known) { return (*this)[known] == text; });
  if (id == next) {
    bytes_.append(text.data(), text.size());
    offsets_.push_back(bytes_.size());
  }
  return id;
}

std::string_view StringTable::operator[](StringId id) const {
  return {bytes_.data() + offsets_[id], offsets_[id + 1] - offsets_[id]};
}

FrameTable::FrameTable() { intern({}); }

FrameId FrameTable::intern(const Frame& frame) {
  const auto next = static_cast<FrameId>(frames_.size());
  uint64_t hash = combine(frame.function, frame.file);
  hash = combine(combine(hash, frame.line), (uint64_t{frame.fx_node} << 32) | frame.fx_trace);
  const FrameId id =
      index_.find_or_add(hash, next, [&](FrameId known) { return frames_[known] == frame; });
  if (id == next) frames_.push_back(frame);
  return id;
}

StackTable::StackTable() {
  offsets_.push_back(0);
  intern({});
}

StackId StackTable::intern(std::span<const FrameId> frames) {
  const auto next = static_cast<StackId>(size());
  const StackId id = index_.find_or_add(hash_ids(frames), next, [&](StackId known) {
    return std::ranges::equal((*this)[known], frames);
  });
  if (id == next) {
    frames_.append(frames.data(), frames.size());
    offsets_.push_back(frames_.size());
  }
  return id;
}

std::span<const FrameId> StackTable::operator[](StackId id) const {
  return frames_.span().subspan(offsets_[id], offsets_[id + 1] - offsets_[id]);
}

ContextTable::ContextTable() { intern({}); }

ContextId ContextTable::intern(const Context& context) {
  const auto next = static_cast<ContextId>(contexts_.size());
  uint64_t hash = combine(context.compile_id, context.user_metadata);
  hash = combine(combine(hash, context.category), context.forward_stack);
  const ContextId id =
      index_.find_or_add(hash, next, [&](ContextId known) { return contexts_[known] == context; });
  if (id == next) contexts_.push_back(context);
  return id;
}

StreamId StreamTable::intern(uint64_t handle) {
  constexpr size_t kMax = 0xffff;
  if (const auto known = ids_.find(handle); known != ids_.end()) return known->second;
  if (handles_.size() == kMax) return static_cast<StreamId>(kMax - 1);
  const auto id = static_cast<StreamId>(handles_.size());
  handles_.push_back(handle);
  ids_.emplace(handle, id);
  return id;
}

PoolId PoolTable::intern(PoolName name) {
  if (const auto known = ids_.find(name); known != ids_.end()) return known->second;
  if (names_.size() == kUnknownPool) return kUnknownPool;
  const auto id = static_cast<PoolId>(names_.size());
  names_.push_back(name);
  ids_.emplace(name, id);
  return id;
}

PoolName PoolTable::operator[](PoolId id) const {
  return id < names_.size() ? names_[id] : PoolName{};
}

}  // namespace vram::trace
