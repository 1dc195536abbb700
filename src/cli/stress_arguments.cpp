#include "cli/stress_arguments.hpp"

#include "base/bytes.hpp"
#include "base/file.hpp"
#include "cli/options.hpp"
#include "gpu/sim/sim_gpu.hpp"
#include "show/stress_json.hpp"
#include "watch/sources.hpp"

#include <charconv>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

namespace vram::cli {
namespace {

constexpr int64_t kMinStressNs = 1'000'000'000;
constexpr int64_t kMaxStressNs = 24 * 3600 * int64_t{1'000'000'000};
constexpr uint64_t kSimulatedBytes = 2 * kGiB;
constexpr uint64_t kMinSimulatedBytes = 16 * kMiB;
constexpr uint64_t kMaxReportBytes = 16 * kMiB;
constexpr std::string_view kSim = "sim";

Result<double> parse_limit(std::string text) {
  if (text.ends_with('%')) text.pop_back();
  double percent = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, percent);
  if (error != std::errc() || stopped != end || !(percent >= 0 && percent <= 1000))
    return fail(Code::kBadInput, "--fail-above: expected a percentage such as 10%, found '{}'",
                text);
  return percent / 100;
}

Result<doctor::StressReport> read_report(const std::string& path) {
  const auto text = read_whole(path, kMaxReportBytes);
  if (!text) return fail(text.error().code, "--compare: {}", text.error().message);
  return show::read_stress_json(*text);
}

Result<> parse_gpu(const std::string& gpu, StressArguments& arguments) {
  if (gpu.empty() || gpu == "cuda") return {};
  if (!gpu.starts_with(kSim) || (gpu.size() > kSim.size() && gpu[kSim.size()] != ':'))
    return fail(Code::kBadInput, "--gpu: expected cuda, sim or sim:SIZE for a test, found '{}'",
                gpu);
  arguments.simulated_bytes = kSimulatedBytes;
  if (gpu.size() == kSim.size()) return {};
  const auto bytes = parse_bytes(gpu.substr(kSim.size() + 1));
  if (!bytes) return fail(Code::kBadInput, "--gpu: {}", bytes.error().message);
  if (*bytes < kMinSimulatedBytes || *bytes >= gpu::kUnlimited)
    return fail(Code::kBadInput, "--gpu: a simulated GPU has at least {}, found '{}'",
                format_bytes(kMinSimulatedBytes), gpu);
  arguments.simulated_bytes = *bytes;
  return {};
}

Result<> parse_numbers(const StressRequest& request, StressArguments& arguments) {
  const auto length = parse_duration_ns(request.length);
  if (!length) return fail(Code::kBadInput, "--stress: {}", length.error().message);
  if (*length < kMinStressNs || *length > kMaxStressNs)
    return fail(Code::kBadInput, "--stress: expected 1s to 24h, found '{}'", request.length);
  arguments.length_ns = *length;
  if (!request.device.empty()) {
    const auto device = parse_number("--device", request.device);
    if (!device) return tl::unexpected(device.error());
    if (*device > std::numeric_limits<uint32_t>::max())
      return fail(Code::kBadInput, "--device: invalid number {}", request.device);
    arguments.device = static_cast<uint32_t>(*device);
  }
  arguments.seed = watch::monotonic_ns() % 1'000'000;
  if (!request.seed.empty()) {
    const auto seed = parse_number("--seed", request.seed);
    if (!seed) return tl::unexpected(seed.error());
    arguments.seed = *seed;
  }
  if (request.leave.empty()) return {};
  const auto leave = parse_bytes(request.leave);
  if (!leave) return fail(Code::kBadInput, "--leave: {}", leave.error().message);
  arguments.leave_bytes = *leave;
  return {};
}

}  // namespace

Result<StressArguments> parse_stress_arguments(const StressRequest& request) {
  StressArguments arguments;
  if (auto parsed = parse_numbers(request, arguments); !parsed)
    return tl::unexpected(parsed.error());
  if (auto parsed = parse_gpu(request.gpu, arguments); !parsed)
    return tl::unexpected(parsed.error());
  const auto limit = parse_limit(request.fail_above);
  if (!limit) return tl::unexpected(limit.error());
  arguments.limit = *limit;
  if (request.compare.empty()) return arguments;
  auto before = read_report(request.compare);
  if (!before) return fail(before.error().code, "--compare: {}", before.error().message);
  arguments.before = *std::move(before);
  return arguments;
}

}  // namespace vram::cli
