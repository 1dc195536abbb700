// Patterns: what is written into memory under test, and how what comes back is compared. Words are
// of 64 bits. Pure, but for the buffers given; any thread.
//
// All but the address pattern repeat with each chunk: the word at a place of a chunk is the same in
// every chunk, so that one chunk can be copied all over the device, and one buffer compares all.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace vram::stress {

enum class Pattern : uint8_t {
  kAddress,           // each word is its own address: finds address lines that stick or cross
  kRandom,            // by the seed
  kMovingInversions,  // a word all over, then its complement, word by word, up and down
  kZeros,
  kOnes,
  kTens,    // 1010…
  kFives,   // 0101…
  kWalking  // one bit in each word, in the next place of each next word
};
inline constexpr Pattern kPatterns[] = {
    Pattern::kAddress, Pattern::kRandom, Pattern::kMovingInversions,
    Pattern::kZeros,   Pattern::kOnes,   Pattern::kTens,
    Pattern::kFives,   Pattern::kWalking};

[[nodiscard]] std::string_view to_string(Pattern pattern);

// The half word that a pattern repeats everywhere; nothing where it doesn't.
[[nodiscard]] std::optional<uint32_t> word_of(Pattern pattern, uint64_t seed);

// The words of a chunk that begins at the address.
void write_pattern(Pattern pattern, uint64_t seed, uint64_t address, std::span<uint64_t> words);

// Calls bad(index, expected) for each word that is not as write_pattern would have it. `expected`
// is a chunk of it, or empty for the address pattern.
template <typename Bad>
void find_bad_words(std::span<const uint64_t> words, std::span<const uint64_t> expected,
                    uint64_t address, Bad bad);

// Whether the words are their own addresses, or as expected.
[[nodiscard]] bool are_good(std::span<const uint64_t> words, std::span<const uint64_t> expected,
                            uint64_t address);

template <typename Bad>
void find_bad_words(std::span<const uint64_t> words, std::span<const uint64_t> expected,
                    uint64_t address, Bad bad) {
  if (are_good(words, expected, address)) return;
  for (uint64_t i = 0; i < words.size(); ++i) {
    const uint64_t wanted = expected.empty() ? address + i * sizeof(uint64_t) : expected[i];
    if (words[i] != wanted) bad(i, wanted);
  }
}

}  // namespace vram::stress
