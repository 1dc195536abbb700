#include "pool/recall.hpp"

namespace vram::pool {
namespace {

// Fibonacci hashing: Knuth, The Art of Computer Programming, volume 3, section 6.4.
constexpr uint64_t kMultiplier = 0x9e37'79b9'7f4a'7c15;

constexpr uint64_t power(uint64_t exponent) {
  return exponent == 0 ? 1 : kMultiplier * power(exponent - 1);
}

}  // namespace

// A rolling hash (Karp and Rabin, 1987): the sum of key i requests ago times kMultiplier^(i + 1).
void Recall::roll(uint64_t key) {
  const uint64_t gone = history_[(count_ - kContext) % kHistory].key;
  context_ = (context_ + key) * kMultiplier - gone * power(kContext + 1);
}

// Where this context came last, which is looked up for some contexts only: the same in every step.
void Recall::find_again() {
  run_ = 0;
  match_ = count_;
  if (is_marker()) match_ -= static_cast<uint32_t>(count_ + 1 - last_seen());
}

Recall::Answer Recall::expect(uint64_t size_bytes, StreamIndex stream) {
  const uint64_t key = size_bytes + stream;  // sizes are multiples of 512
  history_[count_ % kHistory].key = key;
  roll(key);
  ++match_;
  ++run_;
  if (!is_match(match_, key)) find_again();
  if (is_marker()) last_seen() = static_cast<uint32_t>(count_ + 1);
  if (run_ < kSure || !is_match(match_, key)) return {};
  return history_[match_ % kHistory].answer;
}

}  // namespace vram::pool
