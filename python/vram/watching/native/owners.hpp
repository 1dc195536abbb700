// Owners: which module made an autograd node, by the node's sequence number.
//
// PyTorch numbers the nodes of each thread in the order in which the thread makes them. A module's
// call therefore owns a range of numbers, less the ranges of the modules that it calls:
//
//     sequence   17        20        26      31
//     owner      layers.0  .0.mlp    layers.0  loss
//
// The thread that computes a forward pass writes its table, without locks; threads that compute the
// backward pass read it. A table keeps the last kBoundaries changes of owner; a node from before
// them has no owner. Tables are never freed: that of an ended thread goes to a later thread.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace vram_watch {

// A watched module, by its name. Lives as long as the process.
struct Module {
  std::string name;
  std::atomic<int> watches{0};  // 0: its nodes have no owner any more
};
using Owner = const Module*;

class Owners {
 public:
  static constexpr size_t kBoundaries = size_t{1} << 15;
  static constexpr size_t kNear = 4;  // boundaries below the last one found, before a search

  // The thread that this table belongs to: nodes from `sequence` on are the owner's. nullptr: they
  // have none.
  void note(uint64_t sequence, Owner owner) {
    const size_t count = count_.load(std::memory_order_relaxed);
    if (count != 0) {
      Boundary& last = at(count - 1);
      if (last.owner.load(std::memory_order_relaxed) == owner) return;
      if (last.sequence.load(std::memory_order_relaxed) == sequence) {
        last.owner.store(owner, std::memory_order_relaxed);
        return;
      }
    }
    at(count).sequence.store(sequence, std::memory_order_relaxed);
    at(count).owner.store(owner, std::memory_order_relaxed);
    count_.store(count + 1, std::memory_order_release);
  }

  // Any thread. `hint` is where the last node was found: backward visits them in descending order.
  Owner find(uint64_t sequence, size_t& hint) const {
    const size_t count = count_.load(std::memory_order_acquire);
    const size_t first = count > kBoundaries ? count - kBoundaries : 0;
    if (count == 0 || sequence < sequence_of(first)) return nullptr;
    size_t place = hint;
    for (size_t below = 0; below < kNear && !is_at(place, sequence, count, first); ++below) --place;
    if (!is_at(place, sequence, count, first)) place = search(sequence, first, count);
    const Owner owner = at(place).owner.load(std::memory_order_relaxed);
    hint = place;
    // The place may have been taken by a newer boundary meanwhile.
    std::atomic_thread_fence(std::memory_order_acquire);
    return count_.load(std::memory_order_relaxed) - place < kBoundaries ? owner : nullptr;
  }

  void clear() { count_.store(0, std::memory_order_release); }

 private:
  struct Boundary {
    std::atomic<uint64_t> sequence{0};
    std::atomic<Owner> owner{nullptr};
  };
  Boundary& at(size_t place) { return boundaries_[place % kBoundaries]; }
  const Boundary& at(size_t place) const { return boundaries_[place % kBoundaries]; }
  uint64_t sequence_of(size_t place) const {
    return at(place).sequence.load(std::memory_order_relaxed);
  }
  bool is_at(size_t place, uint64_t sequence, size_t count, size_t first) const {
    return place >= first && place < count && sequence_of(place) <= sequence &&
           (place + 1 == count || sequence < sequence_of(place + 1));
  }
  // The last boundary that is not above it.
  size_t search(uint64_t sequence, size_t first, size_t count) const {
    while (count - first > 1) {
      const size_t middle = first + (count - first) / 2;
      (sequence_of(middle) <= sequence ? first : count) = middle;
    }
    return first;
  }

  std::atomic<size_t> count_{0};
  std::array<Boundary, kBoundaries> boundaries_;
};

// The tables of all threads, by PyTorch's number of the thread.
class OwnersOfThreads {
 public:
  static constexpr size_t kThreads = 256;

  // A table for the calling thread; nullptr: too many threads have one.
  static Owners* take(uint64_t thread) {
    for (Entry& entry : entries()) {
      uint64_t unused = 0;
      if (!entry.thread.compare_exchange_strong(unused, thread)) continue;
      if (entry.owners.load() == nullptr) entry.owners.store(new Owners);
      entry.owners.load()->clear();
      return entry.owners.load();
    }
    return nullptr;
  }
  static void give_back(uint64_t thread) {
    for (Entry& entry : entries())
      if (entry.thread.load() == thread) entry.thread.store(0);
  }
  struct Entry {
    std::atomic<uint64_t> thread{0};  // 0: unused
    std::atomic<Owners*> owners{nullptr};
    bool is_of(uint64_t whose) const { return thread.load(std::memory_order_acquire) == whose; }
  };
  // nullptr: the thread has none, or has ended. It is the thread's as long as is_of() is true.
  static const Entry* of(uint64_t thread) {
    for (Entry& entry : entries())
      if (entry.is_of(thread)) return &entry;
    return nullptr;
  }

 private:
  static std::array<Entry, kThreads>& entries() {
    static auto* const kAll = new std::array<Entry, kThreads>;
    return *kAll;
  }
};

}  // namespace vram_watch
