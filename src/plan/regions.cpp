#include "plan/regions.hpp"

#include <utility>

namespace vram::plan {
namespace {

// Reads "reverse [first, last]" and returns its regions.
class Reader {
 public:
  explicit Reader(std::span<const Operation> operations) : operations_(operations) {}

  std::optional<std::vector<Region>> read(uint32_t first, uint32_t last) {
    std::vector<Region> regions;
    for (uint32_t s = first; s <= last;) {
      if (take(OpKind::kForwardSave, s)) {
        regions.push_back({s, s, operations_[next_ - 1].option, {}});
        (void)take(OpKind::kOffload, s);
        ++s;
        continue;
      }
      if (!take(OpKind::kForwardKeepInput, s)) return std::nullopt;
      uint32_t end = s;
      while (end < last && take(OpKind::kForward, end + 1)) ++end;
      if (end == last) return std::nullopt;  // nothing kept for the backward that comes next
      regions.push_back({s, end, std::nullopt, {}});
      s = end + 1;
    }
    for (size_t i = regions.size(); i-- > 0;) {
      Region& region = regions[i];
      if (region.option) {
        (void)take(OpKind::kFetch, region.first);
        if (!take(OpKind::kBackward, region.first)) return std::nullopt;
        continue;
      }
      if (!take(OpKind::kDiscard, region.last)) return std::nullopt;
      auto parts = read(region.first, region.last);
      if (!parts) return std::nullopt;
      region.parts = std::move(*parts);
    }
    return regions;
  }
  bool is_at_end() const { return next_ == operations_.size(); }

 private:
  bool take(OpKind kind, uint32_t stage) {
    if (is_at_end() || operations_[next_].kind != kind || operations_[next_].stage != stage)
      return false;
    ++next_;
    return true;
  }

  std::span<const Operation> operations_;
  size_t next_ = 0;
};

}  // namespace

std::optional<std::vector<Region>> regions_of(std::span<const Operation> operations,
                                              uint32_t stage_count) {
  Reader reader(operations);
  auto regions = reader.read(0, stage_count - 1);
  return regions && reader.is_at_end() ? std::move(regions) : std::nullopt;
}

std::vector<uint32_t> forward_runs(std::span<const Operation> operations, uint32_t stage_count) {
  std::vector<uint32_t> runs(stage_count);
  for (const Operation& each : operations) {
    if (each.kind <= OpKind::kForwardSave) ++runs[each.stage];
  }
  return runs;
}

}  // namespace vram::plan
