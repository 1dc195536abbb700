#include "record/stores.hpp"

#include "trace/event.hpp"

#include <algorithm>

namespace vram::record {
namespace {

constexpr size_t kFirstSlots = 1024;
// A text's entries in the tables.
constexpr size_t kTextBytes = 96;
// Of a flight recorder. The tables of its two files hold the same once more each.
constexpr size_t kMaxTextBytes = size_t{2} << 20;
constexpr size_t kMaxFrames = size_t{1} << 19;
constexpr size_t kMaxStacks = size_t{1} << 15;

uint64_t hash_of(std::span<const FrameNumber> frames) {
  uint64_t hash = frames.size();
  for (const FrameNumber frame : frames) {
    hash = (hash ^ frame) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  }
  return hash;
}

}  // namespace

// What a recorder needs itself is there before any limit.
TextStore::TextStore() {
  (void)intern("");
  (void)intern(trace::kFoundBlock);
}

TextId TextStore::intern(std::string_view text) {
  const std::lock_guard guard(lock_);
  if (const auto found = ids_.find(text); found != ids_.end()) return found->second;
  if (bytes_ + text.size() + kTextBytes > max_bytes_) return 0;
  bytes_ += text.size() + kTextBytes;
  const auto id = static_cast<TextId>(texts_.size());
  ids_.emplace(texts_.emplace_back(text), id);
  return id;
}

std::string TextStore::text(TextId id) {
  const std::lock_guard guard(lock_);
  return texts_[id];
}

const std::string* TextStore::stable(TextId id) {
  const std::lock_guard guard(lock_);
  return &texts_[id];
}

StackStore::StackStore() : stacks_(1), hashes_(1), slots_(kFirstSlots) {}

bool StackStore::equals(StackId id, std::span<const FrameNumber> frames) const {
  const Place& place = stacks_[id];
  return place.count == frames.size() &&
         std::equal(frames.begin(), frames.end(),
                    frames_.begin() + static_cast<std::ptrdiff_t>(place.first));
}

StackId StackStore::intern(std::span<const FrameNumber> frames) {
  if (frames.empty()) return 0;
  const uint64_t hash = hash_of(frames);
  const std::lock_guard guard(lock_);
  size_t slot = hash % slots_.size();
  for (; slots_[slot] != 0; slot = (slot + 1) % slots_.size()) {
    const StackId id = slots_[slot];
    if (hashes_[id] == hash && equals(id, frames)) return id;
  }
  if (frames_.size() + frames.size() > max_frames_ || stacks_.size() >= max_stacks_) return 0;
  const auto id = static_cast<StackId>(stacks_.size());
  slots_[slot] = id;
  stacks_.push_back({frames_.size(), static_cast<uint32_t>(frames.size())});
  hashes_.push_back(hash);
  frames_.insert(frames_.end(), frames.begin(), frames.end());
  if (stacks_.size() * 2 > slots_.size()) grow();
  return id;
}

void StackStore::grow() {
  slots_.assign(slots_.size() * 2, 0);
  for (StackId id = 1; id < stacks_.size(); ++id) {
    size_t slot = hashes_[id] % slots_.size();
    while (slots_[slot] != 0) slot = (slot + 1) % slots_.size();
    slots_[slot] = id;
  }
}

std::vector<FrameNumber> StackStore::frames(StackId id) {
  const std::lock_guard guard(lock_);
  const Place& place = stacks_[id];
  const auto first = frames_.begin() + static_cast<std::ptrdiff_t>(place.first);
  return {first, first + place.count};
}

void Stores::set_limited(bool is_limited) {
  texts.set_max_bytes(is_limited ? kMaxTextBytes : SIZE_MAX);
  if (is_limited)
    stacks.set_limits(kMaxStacks, kMaxFrames);
  else
    stacks.set_limits(SIZE_MAX, SIZE_MAX);
}

Stores& stores() {
  static Stores& all = *new Stores;  // never destroyed: threads may record while the process ends
  return all;
}

}  // namespace vram::record
