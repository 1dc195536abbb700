#include "trace/import/torch_snapshot.hpp"

#include "base/language.hpp"
#include "trace/import/bytes/source.hpp"
#include "trace/import/pickle/machine.hpp"
#include "trace/import/torch/assemble.hpp"
#include "trace/import/torch/sink.hpp"
#include "trace/vtrace/frames.hpp"

#include <utility>

namespace vram::trace {

Result<Trace> import_torch_snapshot(ByteSource& source, const OpenOptions& options,
                                    const SnapshotLimits& limits) {
  ByteWindow window(source, {options.max_decompressed_bytes, options.progress});
  torch::Collected collected;
  Result<pickle::Outcome> outcome;
  {
    // The sink's slots and the machine's memo are gone before the trace is put together.
    const auto sink = std::make_unique<torch::SnapshotSink>(collected);
    pickle::Limits machine_limits;
    machine_limits.max_memory_bytes = limits.max_memory_bytes;
    outcome = pickle::Machine(window, *sink, machine_limits).run();
  }
  if (!outcome) return tl::unexpected(outcome.error());
  Result<Trace> trace = torch::assemble(collected, *outcome);
  if (!trace) return trace;
  const std::string_view packing = source.compression();
  const std::string from = std::move(trace->origin.format);
  trace->origin.format =
      fmt::format("PyTorch snapshot (pickle protocol {}{}{}){}{}", outcome->protocol,
                  packing.empty() ? "" : ", ", packing, from.empty() ? "" : kFormatFrom, from);
  if (source.is_truncated()) {
    trace->origin.notes.push_back({trf("the {} data itself ends early", packing)});
  }
  return trace;
}

namespace {

bool begins(std::span<const std::byte> bytes, std::string_view magic) {
  return bytes.size() >= magic.size() &&
         std::string_view(reinterpret_cast<const char*>(bytes.data()), magic.size()) == magic;
}

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes.subspan(0, std::min<size_t>(bytes.size(), 8))) {
    text += fmt::format("{}{:02x}", text.empty() ? "" : " ", static_cast<unsigned>(byte));
  }
  return text;
}

bool is_old_pickle(std::span<const std::byte> bytes) {
  for (const std::string_view magic : {"(dp", "(lp", "}q", "]q", "(d.", "(l.", "cc", "}.", "]."}) {
    if (begins(bytes, magic)) return true;
  }
  return false;
}

bool is_json(std::span<const std::byte> bytes) {
  const auto first = std::ranges::find_if(bytes, [](std::byte byte) {
    return std::string_view(" \t\r\n").find(static_cast<char>(byte)) == std::string_view::npos;
  });
  return first != bytes.end() && (*first == std::byte{'{'} || *first == std::byte{'['});
}

}  // namespace

Result<> check_snapshot_magic(std::span<const std::byte> bytes) {
  const char* const expected =
      tr("expected a memory recording (a .vtrace file, or a PyTorch "
         "snapshot as torch.cuda.memory._dump_snapshot writes it)");
  if (bytes.empty()) return fail(Code::kBadInput, "{}, found an empty file", expected);
  if (bytes[0] == std::byte{0x80}) {
    if (bytes.size() < 2) return fail(Code::kBadInput, "{}, found a file of one byte", expected);
    const auto protocol = static_cast<unsigned>(bytes[1]);
    if (protocol >= 2 && protocol <= 5) return {};
    return fail(Code::kUnsupported,
                "byte 1 names pickle protocol {}; this reads 2 to 5: save the recording again with "
                "pickle.dump(data, file, protocol=4)",
                protocol);
  }
  if (is_old_pickle(bytes)) {
    return fail(Code::kUnsupported,
                "a pickle of protocol 0 or 1; this reads 2 to 5: save the recording again with "
                "pickle.dump(data, file, protocol=4)");
  }
  if (begins(bytes, "PK\x03\x04")) {
    return fail(Code::kUnsupported,
                "{}, found a zip archive, as torch.save writes models: record with "
                "torch.cuda.memory._record_memory_history() and "
                "torch.cuda.memory._dump_snapshot(path)",
                expected);
  }
  if (is_json(bytes)) {
    return fail(Code::kUnsupported,
                "{}, found what looks like JSON; torch.profiler's traces do not hold the "
                "allocator's history: use torch.cuda.memory._dump_snapshot(path)",
                expected);
  }
  if (begins(bytes, "SQLite format 3")) {
    return fail(Code::kUnsupported, "{}, found an SQLite database", expected);
  }
  return fail(Code::kBadInput, "{}, found the bytes {} at its start", expected, hex(bytes));
}

}  // namespace vram::trace
