#include "stress/patterns.hpp"

#include "base/language.hpp"

#include <array>
#include <cstring>

namespace vram::stress {
namespace {

constexpr uint64_t kPatternBits = 64;

// SplitMix64's step: neighbours of one seed have nothing in common.
uint64_t mixed(uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

}  // namespace

std::string_view to_string(Pattern pattern) {
  static constexpr std::array<std::string_view, std::size(kPatterns)> kNames = {
      tr_later("own address"),
      tr_later("random"),
      tr_later("moving inversions"),
      "0x00",
      "0xFF",
      "0xAA",
      "0x55",
      tr_later("walking ones")};
  return kNames[static_cast<size_t>(pattern)];
}

std::optional<uint32_t> word_of(Pattern pattern, uint64_t seed) {
  switch (pattern) {
    case Pattern::kZeros:
      return 0;
    case Pattern::kOnes:
      return 0xffff'ffff;
    case Pattern::kTens:
      return 0xaaaa'aaaa;
    case Pattern::kFives:
      return 0x5555'5555;
    case Pattern::kMovingInversions:
      return static_cast<uint32_t>(mixed(seed));
    default:
      return std::nullopt;
  }
}

void write_pattern(Pattern pattern, uint64_t seed, uint64_t address, std::span<uint64_t> words) {
  const std::optional<uint32_t> half = word_of(pattern, seed);
  const uint64_t word = half ? uint64_t{*half} << 32 | *half : 0;
  for (uint64_t i = 0; i < words.size(); ++i) {
    switch (pattern) {
      case Pattern::kAddress:
        words[i] = address + i * sizeof(uint64_t);
        break;
      case Pattern::kRandom:
        words[i] = mixed(seed * kPatternBits + i);
        break;
      case Pattern::kWalking:
        words[i] = uint64_t{1} << (i + seed) % kPatternBits;
        break;
      default:
        words[i] = word;
    }
  }
}

bool are_good(std::span<const uint64_t> words, std::span<const uint64_t> expected,
              uint64_t address) {
  if (!expected.empty()) return std::memcmp(words.data(), expected.data(), words.size_bytes()) == 0;
  uint64_t differing = 0;
  for (uint64_t i = 0; i < words.size(); ++i)
    differing |= words[i] ^ (address + i * sizeof(uint64_t));
  return differing == 0;
}

}  // namespace vram::stress
