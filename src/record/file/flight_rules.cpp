#include "record/file/flight_rules.hpp"

#include "base/bytes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>

namespace vram::record {
namespace {

constexpr size_t kQuarter = FlightRules::kFloors / 4;
constexpr uint64_t kMinUnusedPart = 5;  // one in so many bytes

uint64_t doubled(uint64_t bytes) { return bytes > UINT64_MAX / 2 ? UINT64_MAX : bytes * 2; }

}  // namespace

void FlightRules::add(const Record& record, const LiveMemory& before) {
  switch (record.op) {
    case Op::kFree:
    case Op::kFreeCompleted:
      // Less is alive after it, which the next record sees.
      break;
    case Op::kAlloc:
      floor_ = std::min(floor_, before.block_bytes());
      break;
    case Op::kSegmentAlloc:
    case Op::kSegmentMap:
      judge_request(record.size_bytes, before);
      break;
    case Op::kStep:
      floor_ = std::min(floor_, before.block_bytes());
      if (steps_++ != 0) end_step();
      floor_ = before.block_bytes();
      break;
    default:
      break;
  }
}

void FlightRules::end_step() {
  if (options_.growth_bytes == FlightRulesOptions::kNever || steps_ <= kWarmUpSteps) return;
  merged_ = std::min(merged_, floor_);
  if (++merged_steps_ < stride_) return;
  merged_steps_ = 0;
  add_floor(std::exchange(merged_, UINT64_MAX));
}

void FlightRules::add_floor(uint64_t bytes) {
  floors_[count_++] = bytes;
  if (count_ < kFloors) return;
  if (has_grown()) {
    fired_ =
        Fired{DumpReason::kGrowth,
              fmt::format("the memory that stays alive grew from {} to {} in {} steps",
                          format_bytes(floors_.front()), format_bytes(bytes), kFloors * stride_)};
    options_.growth_bytes = doubled(options_.growth_bytes);
    count_ = 0;
    stride_ = 1;
    return;
  }
  for (size_t i = 0; i < kFloors / 2; ++i)
    floors_[i] = std::min(floors_[2 * i], floors_[2 * i + 1]);
  count_ = kFloors / 2;
  stride_ *= 2;
}

bool FlightRules::has_grown() const {
  const auto quarter = [&](size_t i) { return std::span(floors_).subspan(i * kQuarter, kQuarter); };
  for (size_t i = 1; i < 4; ++i)
    if (std::ranges::min(quarter(i)) <= std::ranges::max(quarter(i - 1))) return false;
  return std::ranges::min(quarter(3)) - std::ranges::max(quarter(0)) >= options_.growth_bytes;
}

void FlightRules::judge_request(uint64_t bytes, const LiveMemory& before) {
  if (steps_ != 0 && steps_ <= kWarmUpSteps) return;
  const uint64_t mapped = before.mapped_bytes();
  const uint64_t unused = mapped - std::min(mapped, before.block_bytes());
  if (unused < options_.unused_bytes || unused < bytes || unused < mapped / kMinUnusedPart) return;
  fired_ = Fired{DumpReason::kFragmentation,
                 fmt::format("the allocator took {} from the device while {} of its {} were unused",
                             format_bytes(bytes), format_bytes(unused), format_bytes(mapped))};
  options_.unused_bytes = doubled(options_.unused_bytes);
}

}  // namespace vram::record
