#include "reports/trace_texts.hpp"

#include "base/bytes.hpp"
#include "trace/export/export.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

namespace vram::reports {
namespace {

// `text(id)` for all ids below `count`.
template <typename Text>
TextsOfIds texts_of(size_t count, Text&& text) {
  DictionaryBuilder builder;
  TextsOfIds result;
  result.index.reserve(count);
  for (size_t id = 0; id < count; ++id) result.index.push_back(builder.index(text(id)));
  result.texts = builder.finish();
  return result;
}

// With room for the line, the separators and two ellipses.
uint64_t max_frame_bytes(const trace::Tables& tables, trace::FrameId id) {
  const trace::Frame& frame = tables.frames[id];
  const auto bytes = [&](trace::StringId text) {
    return std::min(tables.strings[text].size(), trace::kMaxNameBytes);
  };
  return bytes(frame.file) + bytes(frame.function) + 24;
}

void append_plain(std::string& out, std::string_view text) { out += text; }

}  // namespace

Result<> check_stack_texts(const trace::Tables& tables, uint64_t max_bytes) {
  uint64_t bytes = 0;
  for (size_t frame = 0; frame < tables.frames.size(); ++frame)
    bytes += max_frame_bytes(tables, static_cast<trace::FrameId>(frame));
  for (size_t stack = 0; stack < tables.stacks.size(); ++stack) {
    for (const trace::FrameId frame : tables.stacks[static_cast<trace::StackId>(stack)])
      bytes += max_frame_bytes(tables, frame);
  }
  if (bytes <= max_bytes) return {};
  return fail(
      Code::kTooLarge,
      "the stacks of this recording need {} as texts, and the maximum is {}: use the tables "
      "without stacks (devices, holders, steps, findings, timeline)",
      format_bytes(bytes), format_bytes(max_bytes));
}

TextsOfIds texts_of_stacks(const trace::Tables& tables) {
  trace::FrameTexts frames(tables, append_plain);
  return texts_of(tables.stacks.size(), [&](size_t stack) {
    std::string text;
    for (const trace::FrameId frame : tables.stacks[static_cast<trace::StackId>(stack)]) {
      if (!text.empty()) text += ';';
      text += frames[frame];
    }
    return text;
  });
}

TextsOfIds texts_of_pools(const trace::Tables& tables) {
  return texts_of(tables.pools.size(), [&](size_t pool) {
    const trace::PoolName name = tables.pools[static_cast<trace::PoolId>(pool)];
    return fmt::format("{}:{}", name.first, name.second);
  });
}

TextsOfIds texts_of_contexts(const trace::Tables& tables, trace::StringId trace::Context::* text) {
  return texts_of(tables.contexts.size(), [&](size_t context) {
    return tables.strings[tables.contexts[static_cast<trace::ContextId>(context)].*text];
  });
}

TextsOfIds texts_of_kinds() {
  constexpr auto kCount = static_cast<size_t>(trace::EventKind::kOther) + 1;
  return texts_of(kCount,
                  [](size_t kind) { return to_string(static_cast<trace::EventKind>(kind)); });
}

TextsOfIds texts_of_device_kinds() {
  return texts_of(2, [](size_t kind) { return to_string(static_cast<trace::DeviceKind>(kind)); });
}

}  // namespace vram::reports
