#include "record/file/translator.hpp"

#include <fmt/format.h>

#include <vector>

namespace vram::record {

trace::StringId Translator::text(TextId id) {
  const auto [found, is_new] = texts_.try_emplace(id, 0);
  if (is_new) found->second = tables_.strings.intern(stores().texts.text(id));
  return found->second;
}

trace::FrameId Translator::frame(FrameNumber number) {
  const auto [found, is_new] = frames_.try_emplace(number, 0);
  if (is_new) {
    const FrameText text = describe_(number);
    found->second = tables_.frames.intern({.function = tables_.strings.intern(text.function),
                                           .file = tables_.strings.intern(text.file),
                                           .line = text.line});
  }
  return found->second;
}

trace::StackId Translator::stack(StackId id) {
  if (id == 0) return 0;
  const auto [found, is_new] = stacks_.try_emplace(id, 0);
  if (is_new) {
    std::vector<trace::FrameId> frames;
    for (const FrameNumber number : stores().stacks.frames(id)) frames.push_back(frame(number));
    found->second = tables_.stacks.intern(frames);
  }
  return found->second;
}

trace::ContextId Translator::context(TextId scope, TextId category) {
  if (scope == 0 && category == 0) return 0;
  const uint64_t key = uint64_t{scope} << 32 | category;
  const auto [found, is_new] = contexts_.try_emplace(key, 0);
  if (is_new) {
    found->second =
        tables_.contexts.intern({.user_metadata = text(scope), .category = text(category)});
  }
  return found->second;
}

trace::Event Translator::event(const Record& record, trace::EventKind kind) {
  const bool is_name = record.op == Op::kName;
  const bool has_category = trace::is_segment_event(kind) || kind == trace::EventKind::kAlloc;
  return {.time_ns = record.time_ns,
          .address = record.address,
          .size_bytes = record.size_bytes,
          .stack = stack(record.stack),
          .context = is_name ? context(record.text, record.scope)
                             : context(record.scope, has_category ? record.text : 0),
          .stream = tables_.streams.intern(record.stream),
          .kind = kind};
}

trace::Event Translator::event_of_free(const Record& alloc, const Record& free,
                                       trace::EventKind kind) {
  Record whole = free;
  whole.size_bytes = alloc.size_bytes;
  whole.stream = alloc.stream;
  return event(whole, kind);
}

trace::Annotation Translator::annotation(const Record& record, bool is_begin) {
  return {.time_ns = record.time_ns,
          .name = text(record.text),
          .device = record.device,
          .is_begin = is_begin};
}

trace::Annotation Translator::step(const Record& record, uint64_t number, bool is_begin) {
  return {.time_ns = record.time_ns,
          .name = tables_.strings.intern(fmt::format("step {}", number)),
          .device = record.device,
          .is_begin = is_begin};
}

namespace {

uint32_t ordinal_of(const Record& record) {
  return record.device == kNoDevice ? trace::kNoDevice : record.device;
}

}  // namespace

trace::Figure Translator::figure(const Record& record) {
  return {.time_ns = record.time_ns,
          .value = record.address,
          .name = text(record.text),
          .device = ordinal_of(record)};
}

trace::Mark Translator::mark(const Record& record) {
  const auto duration = static_cast<int64_t>(record.address);
  return {.time_ns = record.time_ns - duration,
          .duration_ns = duration,
          .size_bytes = record.size_bytes,
          .name = text(record.text),
          .group = text(record.scope),
          .device = ordinal_of(record),
          .kind = static_cast<trace::MarkKind>(record.stream)};
}

}  // namespace vram::record
