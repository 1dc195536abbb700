#include "cli/recorded_program.hpp"

#include "base/bytes.hpp"
#include "cli/options.hpp"
#include "cli/progress.hpp"
#include "replay/live_peak.hpp"
#include "replay/recorded_limit.hpp"
#include "replay/replay.hpp"

#include <algorithm>
#include <vector>

namespace vram::cli {
namespace {

using trace::DeviceKind;
using trace::DeviceTrace;

std::vector<const DeviceTrace*> gpus_of(const trace::Trace& trace) {
  std::vector<const DeviceTrace*> gpus;
  for (const DeviceTrace& device : trace.devices) {
    if (device.kind == DeviceKind::kGpu) gpus.push_back(&device);
  }
  return gpus;
}

tl::unexpected<Error> no_such_gpu(const std::string& option,
                                  const std::vector<const DeviceTrace*>& gpus) {
  std::string there;
  for (const DeviceTrace* gpu : gpus)
    there += fmt::format("{}{}", there.empty() ? "" : ", ", gpu->ordinal);
  return fail(Code::kNotFound, "--device {}: the recording has GPU {}", option, there);
}

Result<RecordedProgram> named_program(const trace::Trace& trace,
                                      const std::vector<const DeviceTrace*>& gpus,
                                      const std::string& option) {
  const auto ordinal = parse_number("--device", option);
  if (!ordinal) return tl::unexpected(ordinal.error());
  const auto found =
      std::ranges::find_if(gpus, [&](const DeviceTrace* gpu) { return gpu->ordinal == *ordinal; });
  if (found == gpus.end()) return no_such_gpu(option, gpus);
  return RecordedProgram{*found, replay::make_program(trace, **found), {}};
}

RecordedProgram largest_program(const trace::Trace& trace,
                                const std::vector<const DeviceTrace*>& gpus) {
  RecordedProgram largest;
  uint64_t most = 0;
  for (const DeviceTrace* gpu : gpus) {
    replay::Program program = replay::make_program(trace, *gpu);
    const uint64_t peak = replay::peak_live_bytes(program);
    if (largest.device != nullptr && peak <= most) continue;
    most = peak;
    largest = {gpu, std::move(program), {}};
  }
  return largest;
}

}  // namespace

Option replayed_device_option(std::string& target) {
  return {"--device", "N", "the GPU whose program is replayed (else the one with the largest peak)",
          &target};
}

Result<RecordedProgram> recorded_program(const trace::Trace& trace, const std::string& option,
                                         const Console& console) {
  Progress progress(console, "preparing the replay");
  progress.announce(trace.events.size());
  const std::vector<const DeviceTrace*> gpus = gpus_of(trace);
  if (gpus.empty()) {
    return fail(Code::kBadInput, "{}: holds nothing of a GPU, so there is nothing to replay",
                trace.origin.path);
  }
  Result<RecordedProgram> result =
      option.empty() ? largest_program(trace, gpus) : named_program(trace, gpus, option);
  if (result && result->program.ops.empty()) {
    return fail(Code::kBadInput,
                "{}: holds no allocation of GPU {}, so there is nothing to replay; record with "
                "torch.cuda.memory._record_memory_history()",
                trace.origin.path, result->device->ordinal);
  }
  if (result) {
    result->limit_bytes = replay::settle_recorded(result->program, replay::recorded_spec(trace));
  }
  return result;
}

Option capacity_option(std::string& target) {
  return {"--capacity", "SIZE",
          "memory of the simulated device: 16GiB, or unlimited (else the limit that the recorded "
          "program met, if it met one)",
          &target};
}

Result<Capacity> capacity_for(const RecordedProgram& recorded, const std::string& option) {
  if (option == "unlimited") return Capacity{};
  if (option.empty()) {
    if (recorded.limit_bytes) {
      return Capacity{recorded.limit_bytes, show::CapacitySource::kRecorded};
    }
    Capacity unknown;
    unknown.recorded_limit_unknown =
        recorded.program.limit_bounds.smallest_refused_bytes.has_value();
    return unknown;
  }
  const auto bytes = parse_bytes(option);
  if (!bytes) return fail(Code::kBadInput, "--capacity: {}", bytes.error().message);
  if (*bytes == 0) return fail(Code::kBadInput, "--capacity: a device of 0 bytes serves nothing");
  return Capacity{*bytes, show::CapacitySource::kAsked};
}

Option lag_option(std::string& target) {
  return {
      "--lag", "TIME",
      "how long a stream's work may lag behind the host where the recording does not say (10ms)",
      &target};
}

Result<int64_t> lag_for(const std::string& option) {
  if (option.empty()) return replay::ReplayOptions{}.lag_ns;
  const auto lag_ns = parse_duration_ns(option);
  if (!lag_ns) return fail(Code::kBadInput, "--lag: {}", lag_ns.error().message);
  return *lag_ns;
}

void fill_subject(const trace::Trace& trace, const RecordedProgram& recorded,
                  const Capacity& capacity, show::ReplaySubject& subject) {
  subject.path = trace.origin.path;
  subject.format = trace.origin.format;
  subject.file_bytes = trace.origin.file_bytes;
  subject.truncated_at_byte = trace.origin.truncated_at_byte;
  subject.has_time = trace.has_time;
  subject.device = recorded.device->ordinal;
  subject.ring_overflowed = recorded.device->ring_overflowed;
  subject.events = recorded.device->event_count;
  subject.duration_ns = recorded.program.duration_ns;
  subject.recorded_calls = recorded.program.recorded_calls.size();
  subject.requests =
      static_cast<uint64_t>(std::ranges::count_if(recorded.program.ops, [](const replay::Op& op) {
        return op.kind == replay::OpKind::kAlloc || op.kind == replay::OpKind::kRefused;
      }));
  subject.capacity_bytes = capacity.bytes;
  subject.capacity_source = capacity.source;
  subject.recorded_limit_unknown = capacity.recorded_limit_unknown;
}

}  // namespace vram::cli
