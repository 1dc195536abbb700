// Interned texts, frames, stacks, contexts, streams and pools of one trace. Interning gives the
// same id for equal content, and ids count up from 0, which is always the empty entry (stream 0 =
// handle 0, pool 0 = (0, 0)). Not thread-safe. Views and spans returned stay valid until the next
// intern on the same table.
#pragma once

#include "base/pod_vector.hpp"
#include "trace/event.hpp"

#include <compare>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace vram::trace {

// Open-addressing set of ids, keyed by a hash of content that lives elsewhere. Shared by the tables
// below.
class IdIndex {
 public:
  // Returns the id for which equals(id) is true among those with this hash, else stores and returns
  // next_id.
  template <typename Equals>
  uint32_t find_or_add(uint64_t hash, uint32_t next_id, Equals&& equals);

 private:
  struct Slot {
    uint32_t hash = 0;
    uint32_t id_plus_1 = 0;
  };
  void grow();
  std::vector<Slot> slots_;
  size_t used_ = 0;
};

class StringTable {
 public:
  StringTable();
  StringId intern(std::string_view text);
  [[nodiscard]] std::string_view operator[](StringId id) const;
  [[nodiscard]] size_t size() const { return offsets_.size() - 1; }

 private:
  PodVector<char> bytes_;
  PodVector<uint64_t> offsets_;  // size() + 1
  IdIndex index_;
};

class FrameTable {
 public:
  FrameTable();
  FrameId intern(const Frame& frame);
  [[nodiscard]] const Frame& operator[](FrameId id) const { return frames_[id]; }
  [[nodiscard]] size_t size() const { return frames_.size(); }

 private:
  PodVector<Frame> frames_;
  IdIndex index_;
};

// A stack is its frames, innermost first.
class StackTable {
 public:
  StackTable();
  StackId intern(std::span<const FrameId> frames);
  [[nodiscard]] std::span<const FrameId> operator[](StackId id) const;
  [[nodiscard]] size_t size() const { return offsets_.size() - 1; }

 private:
  PodVector<FrameId> frames_;
  PodVector<uint64_t> offsets_;
  IdIndex index_;
};

class ContextTable {
 public:
  ContextTable();
  ContextId intern(const Context& context);
  [[nodiscard]] const Context& operator[](ContextId id) const { return contexts_[id]; }
  [[nodiscard]] size_t size() const { return contexts_.size(); }

 private:
  PodVector<Context> contexts_;
  IdIndex index_;
};

// A pool as PyTorch names it: (0, 0) is the default one, others are CUDA-graph private pools or
// MemPools.
struct PoolName {
  uint64_t first = 0;
  uint64_t second = 0;
  friend auto operator<=>(const PoolName&, const PoolName&) = default;
};

class StreamTable {
 public:
  StreamTable() { intern(0); }
  // Handles after the first 65,535 share the last id.
  StreamId intern(uint64_t handle);
  [[nodiscard]] uint64_t operator[](StreamId id) const { return handles_[id]; }
  [[nodiscard]] size_t size() const { return handles_.size(); }

 private:
  std::vector<uint64_t> handles_;
  std::unordered_map<uint64_t, StreamId> ids_;
};

class PoolTable {
 public:
  PoolTable() { intern({}); }
  // Names past the 65,534th become kUnknownPool.
  PoolId intern(PoolName name);
  // For kUnknownPool: (0, 0); check for kUnknownPool first.
  [[nodiscard]] PoolName operator[](PoolId id) const;
  [[nodiscard]] size_t size() const { return names_.size(); }

 private:
  std::vector<PoolName> names_;
  std::map<PoolName, PoolId> ids_;
};

struct Tables {
  StringTable strings;
  FrameTable frames;
  StackTable stacks;
  ContextTable contexts;
  StreamTable streams;
  PoolTable pools;
};

}  // namespace vram::trace
