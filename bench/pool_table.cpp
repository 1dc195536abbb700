// The table of docs/pool.md: a line for each recording, replayed on the pool.
//
//   cmake --preset release -DVRAM_BENCH=ON && ninja -C build/release pool_table &&
//   build/release/bench/pool_table RECORDING STEPS [RECORDING STEPS]…
//
// Recordings don't mark steps: the third of STEPS steps is taken to begin at 2/STEPS of the
// requests. Pass 0 if the steps are unknown.

#include "base/bytes.hpp"
#include "base/pod_vector.hpp"
#include "replay/capacity.hpp"
#include "replay/recorded_limit.hpp"
#include "replay/replay.hpp"
#include "trace/open.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace vram {
namespace {

using replay::Op;
using replay::OpKind;
using replay::Program;

// One recording as `vram replay` takes it; of parts of it, what the driver took.
class Recording {
 public:
  // Of the device with the largest peak.
  explicit Recording(const trace::Trace& trace) {
    for (const trace::DeviceTrace& device : trace.devices) {
      Program program = replay::make_program(trace, device);
      if (replay::peak_live_bytes(program) > replay::peak_live_bytes(program_)) {
        program_ = std::move(program);
      }
    }
    limit_ = replay::settle_recorded(program_, replay::recorded_spec(trace));
    ops_ = std::move(program_.ops);
    for (size_t i = 0; i < ops_.size(); ++i) {
      if (ops_[i].kind == OpKind::kAlloc) requests_.push_back(i);
    }
  }
  [[nodiscard]] replay::ReplayResult replay_all() {
    return replay_first(ops_.size(), {.search_min_capacity = true});
  }
  // Share of the time from that part of the requests on.
  [[nodiscard]] double driver_share_from(double part) {
    const size_t op = requests_[static_cast<size_t>(part * static_cast<double>(requests_.size()))];
    const int64_t driver_ns = driver_ns_of(ops_.size()) - driver_ns_of(op);
    return static_cast<double>(driver_ns) /
           static_cast<double>(program_.duration_ns - ops_[op].time_ns);
  }
  // The part of the requests after which the driver is not called any more.
  [[nodiscard]] double last_call() {
    const int64_t all_ns = driver_ns_of(ops_.size());
    const auto last = std::ranges::partition_point(
        requests_, [&](size_t op) { return driver_ns_of(op + 1) < all_ns; });
    return static_cast<double>(last - requests_.begin()) / static_cast<double>(requests_.size());
  }
  [[nodiscard]] int64_t duration_ns() const { return program_.duration_ns; }

 private:
  [[nodiscard]] replay::ReplayResult replay_first(size_t count, replay::ReplayOptions options) {
    program_.ops.truncate(0);
    program_.ops.append(ops_.data(), count);
    if (limit_) {
      options.capacity_bytes = limit_->bytes;
      options.capacity_is_fraction = limit_->is_fraction;
    }
    return replay::replay(program_, replay::parse_spec("vram").value(), options).value();
  }
  [[nodiscard]] int64_t driver_ns_of(size_t first_ops) {
    return replay_first(first_ops, {}).driver_time_ns;
  }

  Program program_;
  std::optional<replay::RecordedLimit> limit_;
  PodVector<Op> ops_;
  std::vector<size_t> requests_;  // among the ops
};

void print_line(const std::string& path, int steps) {
  const trace::Trace trace = trace::open_trace(path).value();
  Recording recording(trace);
  const replay::ReplayResult result = recording.replay_all();
  const auto peak = static_cast<double>(result.peak_requested_bytes);
  const std::string name = std::filesystem::path(path).filename().string();
  const std::string after =
      steps > 2 ? fmt::format("{:.2f}", 100 * recording.driver_share_from(2.0 / steps)) : "";
  fmt::print("| {} | {:.2f} | {:.2f} | {:.2f} | {} | {:.4f} | {:.0f} % of the requests |\n",
             name.substr(0, name.find(".pickle")), peak / static_cast<double>(kGiB),
             100 * result.utilization,
             100 * static_cast<double>(result.driver_time_ns) /
                 static_cast<double>(recording.duration_ns()),
             after, static_cast<double>(result.min_capacity_bytes.value_or(0)) / peak,
             100 * recording.last_call());
  (void)std::fflush(stdout);
}

}  // namespace
}  // namespace vram

int main(int argc, char** argv) {
  for (int i = 1; i + 1 < argc; i += 2) vram::print_line(argv[i], std::atoi(argv[i + 1]));
}
