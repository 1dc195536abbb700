#include "replay/capacity.hpp"

#include "base/bytes.hpp"

#include <algorithm>

namespace vram::replay {
namespace {

constexpr uint64_t kStepBytes = 2 * kMiB;

class Search {
 public:
  Search(const Program& program, const Peer& peer, const AllocatorSpec& spec,
         const ReplayOptions& options)
      : program_(program), peer_(peer), spec_(spec), options_(options) {
    options_.curve_slices = 0;
    options_.capacity_is_fraction = false;
  }

  std::optional<MinCapacity> find() {
    options_.capacity_bytes.reset();
    const ReplayResult free_run = run(program_, peer_, spec_, options_);
    if (!free_run.completed) return std::nullopt;
    uint64_t fails = free_run.peak_allocated_bytes / kStepBytes;  // less cannot hold what lives
    fails = fails > 0 ? fails - 1 : 0;
    uint64_t completes = std::max(free_run.peak_reserved_bytes / kStepBytes, fails + 1);
    if (!raise(completes)) return std::nullopt;
    bisect(fails, completes);
    look_below(fails, completes);
    const std::optional<uint64_t> retries = retries_at(completes);
    return MinCapacity{completes * kStepBytes, retries.value_or(0)};
  }

 private:
  // Retries with that many steps of capacity; none where it ends in an OOM.
  std::optional<uint64_t> retries_at(uint64_t steps) {
    options_.capacity_bytes = steps * kStepBytes;
    const ReplayResult result = run(program_, peer_, spec_, options_);
    if (!result.completed) return std::nullopt;
    return result.retries;
  }
  bool completes_at(uint64_t steps) { return retries_at(steps).has_value(); }

  // An unlimited run's peak may not suffice as a limit, where more than what is taken is compared
  // with it.
  bool raise(uint64_t& steps) {
    for (int i = 0; i < 8; ++i) {
      if (completes_at(steps)) return true;
      steps += steps / 16 + 10;
    }
    return false;
  }
  void bisect(uint64_t fails, uint64_t& completes) {
    while (completes - fails > 1) {
      const uint64_t middle = fails + (completes - fails) / 2;
      (completes_at(middle) ? completes : fails) = middle;
    }
  }
  // Ever farther below: where two neighbours complete, the search goes on from there.
  void look_below(uint64_t fails, uint64_t& completes) {
    for (uint64_t down = 2; completes > fails + down; down *= 2) {
      const uint64_t probe = completes - down;
      if (!completes_at(probe) || !completes_at(probe + 1)) continue;
      completes = probe;
      down = 1;
    }
  }

  const Program& program_;
  const Peer& peer_;
  const AllocatorSpec& spec_;
  ReplayOptions options_;
};

}  // namespace

std::optional<MinCapacity> find_min_capacity(const Program& program, const Peer& peer,
                                             const AllocatorSpec& spec,
                                             const ReplayOptions& options) {
  return Search(program, peer, spec, options).find();
}

}  // namespace vram::replay
