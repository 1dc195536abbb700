#include "pool/oom.hpp"

#include "base/bytes.hpp"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <utility>

namespace vram::pool {
namespace {

class Text {
 public:
  explicit Text(std::span<char> room) : room_(room) {
    if (!room_.empty()) room_[0] = '\0';
  }

  __attribute__((format(printf, 2, 3))) void add(const char* format, ...) {
    const size_t at = std::min(length_, room_.size());
    va_list arguments;
    va_start(arguments, format);
    const int added = std::vsnprintf(room_.data() + at, room_.size() - at, format, arguments);
    va_end(arguments);
    if (added > 0) length_ += static_cast<size_t>(added);
  }
  [[nodiscard]] size_t length() const { return length_; }

 private:
  std::span<char> room_;
  size_t length_ = 0;
};

// "1.50 GiB", in a buffer of its own.
class Bytes {
 public:
  explicit Bytes(uint64_t bytes) {
    const auto value = static_cast<double>(bytes);
    if (bytes >= kGiB) {
      (void)std::snprintf(text_, sizeof text_, "%.2f GiB", value / static_cast<double>(kGiB));
    } else if (bytes >= kMiB) {
      (void)std::snprintf(text_, sizeof text_, "%.2f MiB", value / static_cast<double>(kMiB));
    } else {
      (void)std::snprintf(text_, sizeof text_, "%llu B", static_cast<unsigned long long>(bytes));
    }
  }
  [[nodiscard]] const char* text() const { return text_; }

 private:
  char text_[32];
};

uint64_t less(uint64_t bytes, uint64_t other) { return bytes - std::min(bytes, other); }

// What of a request nothing free could cover, in this pool or on the device.
struct Need {
  uint64_t missing_bytes = 0;
  uint64_t others_bytes = 0;       // on the device, not the pool's
  uint64_t room_bytes = 0;         // that the pool may still take
  uint64_t under_limit_bytes = 0;  // kept from it by its limit alone
};

Need need_of(const OomFacts& facts) {
  Need need;
  const uint64_t taken = less(facts.device_total_bytes, facts.device_free_bytes);
  need.others_bytes = less(taken, facts.reserved_bytes);
  const uint64_t allowed = less(facts.limit_bytes, facts.reserved_bytes);
  need.room_bytes = std::min(facts.device_free_bytes, allowed);
  need.under_limit_bytes = less(facts.device_free_bytes, allowed);
  const bool is_joined = facts.backing == Backing::kVirtual;
  const uint64_t usable = is_joined ? facts.free_bytes + need.room_bytes
                                    : std::max(facts.largest_free_bytes, need.room_bytes);
  need.missing_bytes = less(facts.requested_bytes, usable);
  return need;
}

void add_holders(Text& text, const Holders& holders) {
  const char* before = "The live blocks that hold most: ";
  for (const Holder& holder : holders) {
    if (holder.count == 0) break;
    text.add("%s%llu x %s", before, static_cast<unsigned long long>(holder.count),
             Bytes(holder.size_bytes).text());
    before = ", ";
  }
  if (holders.front().count > 0) text.add(".\n");
}

void add_state(Text& text, const OomFacts& facts, const OomScene& scene, const Need& need) {
  text.add("The device has %s: the pool has reserved %s, others hold %s, %s are free.\n",
           Bytes(facts.device_total_bytes).text(), Bytes(facts.reserved_bytes).text(),
           Bytes(need.others_bytes).text(), Bytes(facts.device_free_bytes).text());
  text.add("Of the pool's memory %s are in live blocks, %s are freed but in use by other streams, ",
           Bytes(scene.allocated_bytes).text(), Bytes(facts.held_bytes).text());
  text.add("%s are free, the largest piece %s.\n", Bytes(facts.free_bytes).text(),
           Bytes(facts.largest_free_bytes).text());
  add_holders(text, facts.holders);
  if (*scene.recording != '\0') {
    text.add("Whose they are: vram report %s --at oom\n", scene.recording);
  }
  if (need.missing_bytes == 0) {
    text.add("The pieces that are free can't be seen as one range: %s.\n",
             facts.backing == Backing::kVirtual ? "they are in the middle of their handles"
                                                : "this device can't map memory again");
  }
}

void add_help(Text& text, const OomFacts& facts, const OomScene& scene, const Need& need) {
  const uint64_t missing = std::max(need.missing_bytes, uint64_t{1});
  text.add("What would help:\n");
  if (need.under_limit_bytes > 0) {
    text.add("  - a higher limit: it is %s, and the device has %s more\n",
             Bytes(facts.limit_bytes).text(), Bytes(need.under_limit_bytes).text());
  }
  if (need.missing_bytes > 0) {
    const uint64_t in_use = scene.allocated_bytes + facts.requested_bytes;
    const auto percent = static_cast<double>(missing) * 100 / static_cast<double>(in_use);
    text.add(
        "  - %s less in this program (%.1f %% of what it would use): a smaller batch, "
        "checkpointing, lower precision\n",
        Bytes(missing).text(), percent);
  }
  if (need.others_bytes >= missing && need.others_bytes > kGiB) {
    text.add("  - %s that others hold on this device: end them or move (nvidia-smi names them)\n",
             Bytes(need.others_bytes).text());
  }
  if (facts.held_bytes >= missing) {
    text.add("  - waiting for other streams before the request: they use %s that are freed\n",
             Bytes(facts.held_bytes).text());
  }
}

}  // namespace

size_t write_oom_text(const OomFacts& facts, const OomScene& scene, std::span<char> room) {
  const Need need = need_of(facts);
  Text text(room);
  text.add("GPU %u is out of memory: %s were asked for", scene.device,
           Bytes(facts.requested_bytes).text());
  if (need.missing_bytes > 0) text.add(", %s are missing", Bytes(need.missing_bytes).text());
  text.add(".\n");
  add_state(text, facts, scene, need);
  add_help(text, facts, scene, need);
  return text.length();
}

// A size that finds no place takes as much weight from all others as from itself.
void HolderSearch::weigh(uint64_t size_bytes) {
  Candidate* least = candidates_.data();
  for (Candidate& candidate : candidates_) {
    if (candidate.size_bytes == size_bytes) {
      candidate.weight += size_bytes;
      return;
    }
    if (candidate.weight < least->weight) least = &candidate;
  }
  const uint64_t taken = std::min(least->weight, size_bytes);
  for (Candidate& candidate : candidates_) candidate.weight -= taken;
  if (taken < size_bytes) *least = {.size_bytes = size_bytes, .weight = size_bytes - taken};
}

void HolderSearch::count(uint64_t size_bytes) {
  for (Candidate& candidate : candidates_) {
    if (candidate.size_bytes == size_bytes) ++candidate.count;
  }
}

Holders HolderSearch::most() {
  const auto rank = [](const Candidate& candidate) {
    return std::pair{candidate.size_bytes * candidate.count, candidate.size_bytes};
  };
  std::ranges::sort(candidates_, std::ranges::greater{}, rank);
  Holders holders;
  std::ranges::transform(
      candidates_.begin(), candidates_.begin() + holders.size(), holders.begin(),
      [](const Candidate& candidate) { return Holder{candidate.size_bytes, candidate.count}; });
  return holders;
}

}  // namespace vram::pool
