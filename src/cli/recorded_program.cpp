#include "cli/recorded_program.hpp"

#include "base/bytes.hpp"
#include "cli/options.hpp"

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
  return RecordedProgram{*found, replay::make_program(trace, **found)};
}

RecordedProgram largest_program(const trace::Trace& trace,
                                const std::vector<const DeviceTrace*>& gpus) {
  RecordedProgram largest;
  uint64_t most = 0;
  for (const DeviceTrace* gpu : gpus) {
    replay::Program program = replay::make_program(trace, *gpu);
    const uint64_t peak = peak_requested_bytes(program);
    if (largest.device != nullptr && peak <= most) continue;
    most = peak;
    largest = {gpu, std::move(program)};
  }
  return largest;
}

}  // namespace

Option replayed_device_option(std::string& target) {
  return {"--device", "N", "the GPU whose program is replayed (else the one with the largest peak)",
          &target};
}

Result<RecordedProgram> recorded_program(const trace::Trace& trace, const std::string& option) {
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
  return result;
}

Option capacity_option(std::string& target) {
  return {"--capacity", "SIZE",
          "memory of the simulated device: 16GiB, or unlimited (else the limit that the recorded "
          "program met, if it met one)",
          &target};
}

Result<Capacity> capacity_for(const replay::Program& program, const std::string& option) {
  if (option == "unlimited") return Capacity{};
  if (option.empty()) {
    const std::optional<uint64_t> limit = replay::recorded_limit(program);
    return limit ? Capacity{limit, show::CapacitySource::kRecorded} : Capacity{};
  }
  const auto bytes = parse_bytes(option);
  if (!bytes) return fail(Code::kBadInput, "--capacity: {}", bytes.error().message);
  if (*bytes == 0) return fail(Code::kBadInput, "--capacity: a device of 0 bytes serves nothing");
  return Capacity{*bytes, show::CapacitySource::kAsked};
}

uint64_t peak_requested_bytes(const replay::Program& program) {
  std::vector<uint64_t> sizes(program.block_count, 0);
  uint64_t live = 0;
  uint64_t peak = 0;
  for (const replay::Op& op : program.ops) {
    if (op.kind == replay::OpKind::kAlloc) {
      sizes[op.block] = op.size_bytes;
      live += op.size_bytes;
      peak = std::max(peak, live);
    } else if (op.kind == replay::OpKind::kFree || op.kind == replay::OpKind::kComplete) {
      live -= std::exchange(sizes[op.block], 0);
    }
  }
  return peak;
}

}  // namespace vram::cli
