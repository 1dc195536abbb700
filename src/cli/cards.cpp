#include "cli/cards.hpp"

#include "base/bytes.hpp"
#include "cli/options.hpp"

#include <algorithm>
#include <array>
#include <cctype>

namespace vram::cli {
namespace {

constexpr std::string_view kMeasured = "measured";
constexpr std::string_view kStated = "stated by users";
constexpr std::string_view kAssumed = "assumed";

// Where nothing is known of a card's context.
constexpr uint64_t kDefaultContextMib = 512;

struct KnownCard {
  std::string_view name;
  double program_gib;
  uint64_t context_mib;
  std::string_view source;
};

// Measured: driver 580.159, CUDA 13.0, PyTorch 2.11, after kernels of cuBLAS and cuDNN had run (527
// MiB before). Stated: totals, and what the process held beside PyTorch's memory, from the text of
// PyTorch's own out-of-memory errors in public bug reports of 2023 to 2026; of several, the
// smallest total. On cards with ECC that users can switch off, it was on, except on the RTX 40 and
// 50 series.
constexpr std::array kCards{
    KnownCard{"H200", 139.8, 765, kMeasured},
    KnownCard{"H100 80GB", 79.11, kDefaultContextMib, kStated},
    KnownCard{"A100 80GB", 79.25, 523, kStated},
    KnownCard{"A100 40GB", 39.50, 500, kStated},
    KnownCard{"A30", 23.53, kDefaultContextMib, kStated},
    KnownCard{"A10", 21.99, 224, kStated},
    KnownCard{"L40", 44.40, 500, kStated},
    KnownCard{"L40S", 44.42, 420, kStated},
    KnownCard{"L4", 22.03, 236, kStated},
    KnownCard{"T4", 14.56, 133, kStated},
    KnownCard{"RTX 6000 Ada", 44.43, 430, kStated},
    KnownCard{"RTX A4000", 15.61, 210, kStated},
    KnownCard{"RTX 5090", 31.36, 610, kStated},
    KnownCard{"RTX 4090", 23.52, 450, kStated},
    KnownCard{"RTX 3090", 23.54, 260, kStated},
    KnownCard{"RTX 2080 Ti", 10.74, 200, kStated},
};

// Of the memory that a card is sold with, programs get this share at least on the cards above whose
// ECC takes nothing from it.
constexpr double kProgramShare = 0.98;

// "NVIDIA GeForce RTX-4090" -> "rtx4090".
std::string plain(std::string_view text) {
  std::string name;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  for (const std::string_view word : {"nvidia", "geforce", "tesla"}) {
    if (const size_t at = name.find(word); at != std::string::npos) name.erase(at, word.size());
  }
  return name;
}

std::string known_names() {
  std::string names;
  for (const KnownCard& card : kCards)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", card.name);
  return names;
}

uint64_t bytes_of(double gib) { return static_cast<uint64_t>(gib * static_cast<double>(kGiB)); }

}  // namespace

Result<CardMemory> find_card(std::string_view text) {
  const auto card =
      std::ranges::find(kCards, plain(text), [](const auto& each) { return plain(each.name); });
  if (card != kCards.end()) {
    return CardMemory{.name = std::string(card->name),
                      .program_bytes = bytes_of(card->program_gib),
                      .context_bytes = card->context_mib * kMiB,
                      .source = card->source};
  }
  if (const auto sold = parse_size("--gpu", text)) {
    const double bytes = kProgramShare * static_cast<double>(*sold);
    return CardMemory{.name = format_bytes(*sold),
                      .program_bytes = static_cast<uint64_t>(bytes),
                      .context_bytes = kDefaultContextMib * kMiB,
                      .source = kAssumed};
  }
  return fail(Code::kNotFound,
              "--gpu: no card is called '{}'; known: {}; or write its memory, as in 24GiB", text,
              known_names());
}

}  // namespace vram::cli
