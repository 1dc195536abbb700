#include "cli/record_attach.hpp"

#include "attach/attached_recording.hpp"
#include "base/bytes.hpp"
#include "base/language.hpp"
#include "base/result.hpp"
#include "cli/command.hpp"
#include "cli/signals.hpp"

#include <fmt/format.h>

#include <chrono>
#include <string>
#include <string_view>
#include <utility>

namespace vram::cli {
namespace {

std::string_view end_text(attach::AttachEnd end) {
  switch (end) {
    case attach::AttachEnd::kProcessEnded:
      return tr("the process has ended");
    case attach::AttachEnd::kProcessReplaced:
      return tr("the process has started another program (exec)");
    default:
      return tr("detached");
  }
}

// On standard output, unless the recording goes there.
Result<> say(const std::string& line, const Output& output, Console& console) {
  return output.path == "-" ? Result<>{} : console.print(line + "\n");
}

std::string summary_text(const attach::AttachSummary& summary, const Output& output) {
  return trf("{}: {} and {}, at most {} at a time; {}", output.path,
             counted(summary.mallocs, "allocation"), counted(summary.frees, "free"),
             format_bytes(summary.peak_bytes), end_text(summary.end));
}

attach::AttachOptions options_of(uint32_t pid, const watch::RecordOrder& order,
                                 const Output& output, const ServiceSignals& signals) {
  attach::AttachOptions options;
  options.pid = pid;
  options.path = output.path;
  options.existing =
      output.is_forced ? record::Existing::kReplaceAny : record::Existing::kReplaceOwn;
  if (order.duration_ns) options.duration = std::chrono::nanoseconds(*order.duration_ns);
  options.stop_descriptor = signals.descriptor();
  return options;
}

Result<int> failed(const Error& error, Console& console) {
  if (error.code != Code::kIo) return tl::unexpected(error);
  console.error(error.message);
  return kEnvironment;
}

}  // namespace

Result<int> record_by_attaching(uint32_t pid, const watch::RecordOrder& order, bool python_stacks,
                                const Output& output, Console& console) {
  if (order.steps) {
    return fail(Code::kBadInput,
                "vram attaches to process {}, and steps of a program without vram are unknown: "
                "use --seconds instead of --steps",
                pid);
  }
  const ServiceSignals signals;
  attach::AttachOptions options = options_of(pid, order, output, signals);
  options.python_stacks = python_stacks;
  auto recording = attach::AttachedRecording::create(options);
  if (!recording) return failed(recording.error(), console);
  VRAM_TRY(say(trf("attached to process {}; Ctrl-C ends the recording", pid), output, console));
  const auto recorded = (*recording)->run();
  if (!recorded) return failed(recorded.error(), console);
  const attach::AttachSummary& summary = *recorded;
  while (signals.take()) continue;  // otherwise they would end this program
  VRAM_TRY(say(summary_text(summary, output), output, console));
  if (summary.lost == 0) return 0;
  console.warning(trf("{} lost: the recording is incomplete, and its peak may be wrong",
                      counted(summary.lost, "event")));
  return 0;
}

}  // namespace vram::cli
