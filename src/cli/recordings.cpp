#include "cli/recordings.hpp"

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "cli/output.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace vram::cli {
namespace {

namespace fs = std::filesystem;

bool is_recording(const fs::path& path) {
  constexpr std::array<std::string_view, 3> kPackings = {".gz", ".zst", ".xz"};
  const bool is_packed = std::ranges::find(kPackings, path.extension().string()) != kPackings.end();
  const std::string kind = (is_packed ? path.stem() : path).extension().string();
  const bool is_old_part = path.stem().extension() == ".old";
  return (kind == ".vtrace" && !is_old_part) || kind == ".pickle" || kind == ".pkl";
}

Result<std::vector<std::string>> recordings_in(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (is_recording(it->path()) && it->is_regular_file(error))
      paths.push_back(it->path().string());
  }
  if (error) return fail(Code::kBadInput, "{}: can't be read: {}", folder, error.message());
  if (paths.empty()) {
    return fail(Code::kBadInput, "{}: expected recordings (.vtrace, .pickle) in it, found none",
                folder);
  }
  std::ranges::sort(paths);
  return paths;
}

// "4711", or "rank0.4711".
bool names_a_process(std::string_view word) {
  constexpr std::string_view kRank = "rank";
  const auto skip_digits = [&word] {
    const size_t digits = std::min(word.find_first_not_of("0123456789"), word.size());
    word.remove_prefix(digits);
    return digits > 0;
  };
  if (word.starts_with(kRank)) {
    word.remove_prefix(kRank.size());
    if (!skip_digits() || !word.starts_with('.')) return false;
    word.remove_prefix(1);
  }
  return skip_digits() && word.empty();
}

}  // namespace

std::vector<std::string> left_by_processes(const std::string& path) {
  const std::string first = fs::path(path).stem().string() + ".";
  const std::string last = fs::path(path).extension().string();
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(fs::path(path).parent_path(), error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    const bool fits =
        name.size() > first.size() + last.size() && name.starts_with(first) && name.ends_with(last);
    if (fits && names_a_process(std::string_view(name).substr(
                    first.size(), name.size() - first.size() - last.size())))
      names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

std::optional<uint64_t> rank_in_name(const std::string& path) {
  constexpr std::string_view kRank = ".rank";
  const std::string name = fs::path(path).filename().string();
  const size_t at = name.rfind(kRank);
  if (at == std::string::npos) return std::nullopt;
  uint64_t rank = 0;
  const char* const end = name.data() + name.size();
  const auto read = std::from_chars(name.data() + at + kRank.size(), end, rank);
  const bool is_number = read.ec == std::errc() && (read.ptr == end || *read.ptr == '.');
  return is_number ? std::optional(rank) : std::nullopt;
}

Result<Recordings> find_recordings(const std::vector<std::string>& words) {
  Recordings found;
  for (const std::string& word : words) {
    std::error_code error;
    if (!fs::is_directory(word, error)) {
      found.paths.push_back(word);
      continue;
    }
    VRAM_TRY_ASSIGN(const auto inside, recordings_in(word));
    found.paths.insert(found.paths.end(), inside.begin(), inside.end());
    found.is_folder = true;
  }
  const auto has_rank = [](const std::string& path) { return rank_in_name(path).has_value(); };
  found.are_named_ranks = found.paths.size() > 1 && std::ranges::all_of(found.paths, has_rank);
  return found;
}

Option max_size_option(trace::OpenOptions& target) {
  return {"--max-size", "SIZE", "maximum size of a decompressed recording (1TiB)",
          value(target.max_decompressed_bytes, parse_bytes)};
}

Result<trace::Trace> open_with_progress(const std::string& path, trace::OpenOptions options,
                                        const Console& console) {
  Progress progress(console, path);
  options.progress = progress.callback();
  Result<trace::Trace> trace = trace::open_trace(path, options);
  if (!trace && trace.error().code == Code::kTooLarge) {
    trace.error().message += "; --max-size raises it";
  }
  return trace;
}

namespace {

using explain::DeviceReport;
using explain::Report;

std::optional<uint64_t> number_after(std::string_view prefix, std::string_view text) {
  if (!text.starts_with(prefix)) return std::nullopt;
  const std::string_view digits = text.substr(prefix.size());
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

Result<Report> at_step(const trace::Trace& trace, const Report& report, uint64_t index,
                       explain::ExplainOptions options) {
  const auto& steps = report.devices[report.main_device].steps.steps;
  if (steps.empty())
    return fail(Code::kNotFound, "--at step:{}: no steps were found in this recording", index);
  if (index >= steps.size()) {
    return fail(Code::kNotFound, "--at step:{}: the recording has steps 0 to {}", index,
                steps.size() - 1);
  }
  options.at_event = steps[index].peak_event;
  return explain::explain(trace, options);
}

// A moment after the end would silently be the end.
Result<Report> within_the_recording(Report report, uint64_t time_ns) {
  const int64_t duration_ns = report.devices[report.main_device].duration_ns;
  if (static_cast<int64_t>(time_ns) <= duration_ns) return report;
  return fail(Code::kNotFound, "--at {}: the recording ends at {}",
              format_duration_ns(static_cast<int64_t>(time_ns)), format_duration_ns(duration_ns));
}

}  // namespace

Result<MomentRequest> parse_moment(std::string_view option, std::string_view text) {
  if (text == "peak") return MomentRequest{MomentKind::kPeak};
  if (text == "oom") return MomentRequest{MomentKind::kOom};
  if (const auto index = number_after("oom:", text)) return MomentRequest{MomentKind::kOom, *index};
  if (const auto index = number_after("step:", text))
    return MomentRequest{MomentKind::kStep, *index};
  if (const auto event = number_after("event:", text))
    return MomentRequest{MomentKind::kEvent, *event};
  if (const auto time_ns = parse_duration_ns(text)) {
    return MomentRequest{MomentKind::kTime, static_cast<uint64_t>(*time_ns)};
  }
  return fail(Code::kBadInput,
              "{} takes a time (1.5s, 250ms), event:N, step:N, peak, oom or oom:N; found '{}'",
              option, text);
}

Result<Report> explain_at(const trace::Trace& trace, const MomentRequest& request,
                          explain::ExplainOptions options) {
  if (request.kind == MomentKind::kTime) {
    if (!trace.has_time) {
      return fail(
          Code::kNotFound,
          "--at: this recording has no clock; name the moment as event:N, step:N, peak or oom");
    }
    options.at_ns = static_cast<int64_t>(request.value);
  }
  if (request.kind == MomentKind::kEvent) options.at_event = request.value;
  if (request.kind == MomentKind::kOom) options.at_oom = request.value;
  Result<Report> report = explain::explain(trace, options);
  if (!report) return report;
  if (request.kind == MomentKind::kTime) {
    return within_the_recording(std::move(*report), request.value);
  }
  if (request.kind == MomentKind::kStep) return at_step(trace, *report, request.value, options);
  if (request.kind == MomentKind::kPeak) {
    DeviceReport& device = report->devices[report->main_device];
    device.at = device.at_peak;
  }
  return report;
}

}  // namespace vram::cli
