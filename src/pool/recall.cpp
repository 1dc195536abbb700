#include "pool/recall.hpp"

namespace vram::pool {
namespace {

// Fibonacci hashing: Knuth, The Art of Computer Programming, volume 3, section 6.4.
constexpr uint64_t kMultiplier = 0x9e37'79b9'7f4a'7c15;

}  // namespace

// For the context that ends with the request at count_.
uint64_t& Recall::last_seen() {
  uint64_t hash = 0;
  for (uint64_t i = 0; i < kContext; ++i) {
    hash = (hash ^ history_[(count_ - i) % kHistory].key) * kMultiplier;
  }
  return last_seen_[hash >> 48 & (kHistory - 1)];
}

Recall::Answer Recall::expect(uint64_t size_bytes, StreamIndex stream) {
  const uint64_t key = size_bytes + stream;  // sizes are multiples of 512
  history_[count_ % kHistory].key = key;
  uint64_t& seen = last_seen();
  ++match_;
  ++run_;
  if (!is_match(match_, key)) {
    match_ = seen - 1;
    run_ = 0;
  }
  seen = count_ + 1;
  if (run_ < kSure || !is_match(match_, key)) return {};
  return history_[match_ % kHistory].answer;
}

}  // namespace vram::pool
