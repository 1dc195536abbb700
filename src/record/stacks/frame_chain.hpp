// FrameChain: the number of a Python stack, from the chain of its frames, innermost first.
//
// Each frame holds the address of the one outside it, so a walk would wait for the cache once for
// each frame. Most frames of a stack are those of the stack before: where the next frame is the one
// that it was then, the processor is given that address to go on with while it still waits for the
// one that it compares it with, and reads many frames at a time. Nothing is taken from the stack
// before but addresses, each read only when the frame inside it holds the same.
#pragma once

#include "record/stacks/frame_layout.hpp"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace vram::record {

template <typename Value>
[[nodiscard]] Value read_at(const void* base, int16_t offset) {
  Value value;
  std::memcpy(&value, static_cast<const char*>(base) + offset, sizeof value);
  return value;
}

class FrameChain {
 public:
  // Of deeper stacks, only the number is computed.
  static constexpr size_t kMaxFrames = 255;

  // The frames stand still. Depends on the code and the instruction of each frame and on their
  // order, and not on the stack before.
  [[nodiscard]] uint64_t number(const FrameLayout& of, const void* innermost) {
    Sum sum;
    const void* frame = innermost;
    New inner;
    size_t met = 0;
    for (; frame != nullptr; frame = read_at<const void*>(frame, of.previous)) {
      if (met = find(frame); met != 0) break;
      inner.add(frame);
      sum.add(of, frame);
    }
    size_t at = met;
    while (at != 0) {
      sum.add(of, frame);
      frame = read_at<const void*>(frame, of.previous);
      const void* const expected = frames_[--at];
      // The same address, but the compiler does not know.
      const void* next = expected;
      asm("" : "+r"(next));
      if (frame != expected) break;
      frame = next;
    }
    if (frame == nullptr && at == 0 && met + inner.count <= kMaxFrames && inner.has_room()) {
      keep(met, inner);
    } else {
      for (; frame != nullptr; frame = read_at<const void*>(frame, of.previous)) sum.add(of, frame);
      keep_all(of, innermost);
    }
    return sum.number();
  }

 private:
  // Sums of products of 64-bit numbers, as the hash NH: no product waits for another one.
  struct Sum {
    __extension__ typedef unsigned __int128 Wide;
    static constexpr uint64_t kKey = 0x9e3779b97f4a7c15u;
    static constexpr uint64_t kOtherKey = 0xbf58476d1ce4e5b9u;
    Wide sum = kKey;
    uint64_t key = kKey;  // of a frame's place

    void add(const FrameLayout& of, const void* frame) {
      const uint64_t code = read_at<uint64_t>(frame, of.code) + key;
      const uint64_t instruction = read_at<uint64_t>(frame, of.instruction) + (key ^ kOtherKey);
      sum += static_cast<Wide>(code) * instruction;
      key += kKey;
    }
    [[nodiscard]] uint64_t number() const {
      const auto high = static_cast<uint64_t>(sum >> 64);
      const uint64_t mixed = (static_cast<uint64_t>(sum) ^ std::rotl(high, 32)) * kOtherKey;
      return mixed ^ mixed >> 32;
    }
  };

  // Frames that are none of the stack before, innermost first.
  struct New {
    std::array<const void*, 32> frames;  // NOLINT(*-member-init): written before it is read
    size_t count = 0;

    New() {}  // NOLINT(modernize-use-equals-default): which would initialize the frames
    void add(const void* frame) {
      if (count < frames.size()) frames[count] = frame;
      ++count;
    }
    [[nodiscard]] bool has_room() const { return count <= frames.size(); }
  };

  static size_t slot_of(const void* frame) {
    return reinterpret_cast<uint64_t>(frame) * Sum::kKey >> 56;
  }
  // 0: it is none of the stack before.
  [[nodiscard]] size_t find(const void* frame) const {
    const size_t at = places_[slot_of(frame)];
    return at <= count_ && frames_[at] == frame ? at : 0;
  }
  void put(size_t at, const void* frame) {
    frames_[at] = frame;
    places_[slot_of(frame)] = static_cast<uint8_t>(at);
  }
  // The outermost `met` ones stay.
  void keep(size_t met, const New& inner) {
    for (size_t i = 0; i < inner.count; ++i) put(met + inner.count - i, inner.frames[i]);
    count_ = met + inner.count;
  }
  [[gnu::cold]] void keep_all(const FrameLayout& of, const void* innermost) {
    size_t count = 0;
    for (const void* frame = innermost; frame != nullptr && count <= kMaxFrames; ++count)
      frame = read_at<const void*>(frame, of.previous);
    count_ = 0;
    if (count > kMaxFrames) return;
    count_ = count;
    for (const void* frame = innermost; frame != nullptr; --count) {
      put(count, frame);
      frame = read_at<const void*>(frame, of.previous);
    }
  }

  size_t count_ = 0;
  std::array<const void*, kMaxFrames + 1> frames_{};  // outermost first, after nullptr
  // By the hash of a frame's address: where it may be in frames_.
  std::array<uint8_t, 256> places_{};
};

}  // namespace vram::record
