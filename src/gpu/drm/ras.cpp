#include "gpu/drm/ras.hpp"

#include "gpu/drm/text.hpp"

namespace vram::gpu::drm {
namespace {

// "0x00000001 : 0x00001000 : R": its number, its size, what became of it; 0: it is none.
char page_state_of(std::string_view line) {
  const auto colon = line.rfind(':');
  if (!line.starts_with("0x") || colon == std::string_view::npos) return 0;
  const std::string_view page_state = trimmed(line.substr(colon + 1));
  return page_state == "R" || page_state == "P" || page_state == "F" ? page_state.front() : '\0';
}

}  // namespace

EccCounts read_ecc(Files& files, const Card& card) {
  EccCounts counts;
  for (const char* name : {"umc_err_count", "aca_umc"}) {  // the second: MI300 and newer
    const std::string_view errors = files.read(card.device + "/ras/" + name);
    if (errors.empty()) continue;
    counts.corrected = as_number(value_of(errors, "ce", ':').value_or(""));
    counts.uncorrected = as_number(value_of(errors, "ue", ':').value_or(""));
    break;
  }
  return counts;
}

std::optional<RetiredPages> read_bad_pages(Files& files, const Card& card) {
  const auto list = files.read_whole(card.device + "/ras/gpu_vram_bad_pages");
  if (!list) return std::nullopt;
  RetiredPages pages{std::nullopt, std::nullopt, 0, false, false};
  bool is_understood = true;
  for_each_line(*list, [&](std::string_view line) {
    const char page_state = page_state_of(line);
    is_understood &= page_state != 0;
    if (page_state == 'R') ++*pages.of_any_cause;
    if (page_state == 'P') pages.is_pending = true;
    if (page_state == 'F') pages.has_failed = true;
  });
  return is_understood ? std::optional(pages) : std::nullopt;
}

}  // namespace vram::gpu::drm
