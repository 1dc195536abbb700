// size: what becomes of each kind of record is in one place.
#include "record/file/recording.hpp"

#include "base/result.hpp"
#include "record/file/live_memory.hpp"
#include "record/process.hpp"
#include "record/threads.hpp"
#include "trace/lost_events.hpp"

#include <algorithm>
#include <utility>

namespace vram::record {
namespace {

using trace::EventKind;

constexpr size_t kMaxOpenScopes = 1024;

EventKind kind_of(Op op) {
  switch (op) {
    case Op::kSegmentAlloc:
      return EventKind::kSegmentAlloc;
    case Op::kSegmentFree:
      return EventKind::kSegmentFree;
    case Op::kSegmentMap:
    case Op::kSegmentFound:
      return EventKind::kSegmentMap;
    case Op::kSegmentUnmap:
      return EventKind::kSegmentUnmap;
    case Op::kOom:
      return EventKind::kOom;
    case Op::kSnapshot:
      return EventKind::kSnapshot;
    case Op::kName:
      return EventKind::kAnnotate;
    default:
      return EventKind::kOther;
  }
}

Record as_found(const Record& alloc) {
  static const TextId kMark = stores().texts.intern(trace::kFoundBlock);
  Record marked = alloc;
  marked.text = kMark;
  return marked;
}

}  // namespace

Result<std::unique_ptr<Recording>> Recording::create(const RecordingOptions& options) {
  auto recording = std::unique_ptr<Recording>(new Recording(options));
  auto sink =
      FileSink::create(options.path, options.existing,
                       options.limit_bytes != 0 ? Continuation::kFollowed : Continuation::kNone);
  VRAM_TRY(recording->open_part(std::move(sink)));
  return recording;
}

Result<> Recording::open_part(Result<std::unique_ptr<FileSink>> sink) {
  if (!sink) return tl::unexpected(sink.error());
  auto part = std::make_unique<Part>(std::move(*sink), options_.describe);
  auto writer =
      trace::VtraceWriter::open(*part->sink, part->translator.tables(), {.has_time = true});
  if (!writer) return tl::unexpected(writer.error());
  part->writer = std::move(*writer);
  part_ = std::move(part);
  for (const Fact& fact : options_.facts) write(fact);
  return part_->writer->flush();
}

// Every part says it.
void Recording::add(const Fact& fact) {
  options_.facts.push_back(fact);
  write(fact);
}

void Recording::write(const Fact& fact) {
  const trace::Setting text = {fact.key, fact.value};
  if (fact.kind == Fact::Kind::kAbout) return part_->writer->add_about(text);
  part_->writer->add_setting(text);
}

void Recording::note_lost(uint64_t records) {
  if (records == lost_) return;
  part_->writer->add_note({.text = trace::kLostToDisk, .count = records - lost_});
  lost_ = records;
}

Result<> Recording::put(uint16_t device, const trace::Event& event) {
  const auto [found, is_new] = part_->devices.try_emplace(device, trace::DeviceIndex{0});
  if (is_new) {
    VRAM_TRY_ASSIGN(const auto index, part_->writer->add_device(trace::DeviceKind::kGpu, device));
    found->second = index;
  }
  ++event_count_;
  traffic().note_progress();
  if (event.kind != EventKind::kAnnotate) held_.erase(device);
  return part_->writer->append(found->second, std::span(&event, 1));
}

Result<> Recording::put(const Record& record, EventKind kind) {
  return put(record.device, part_->translator.event(record, kind));
}

// A fast program fills the file between two flushes, too.
Result<> Recording::add(const Record& record) {
  if (auto done = put(placed(record)); !done || !is_full()) return done;
  return flush();
}

Record Recording::placed(const Record& record) {
  const bool is_mark = record.op >= Op::kScopeBegin;
  Record placed = record;
  placed.time_ns = std::max(record.time_ns, last_ns_ + (is_mark && is_last_an_event_ ? 1 : 0));
  last_ns_ = placed.time_ns;
  is_last_an_event_ = !is_mark;
  return placed;
}

Result<> Recording::put(const Record& record) {
  switch (record.op) {
    case Op::kAlloc:
      return add_block(record);
    case Op::kFound:
      return add_found(record);
    case Op::kFree:
    case Op::kFreeRequested:
    case Op::kFreeCompleted:
      return add_free(record);
    case Op::kPart:
      homes_[{record.device, record.stream}].push_back(record);
      return {};
    case Op::kUse:
      // Its own stream needs no waiting for.
      if (auto* block = live_.find(record);
          block != nullptr && block->alloc.stream != record.stream)
        block->is_used_elsewhere = true;
      return {};
    case Op::kScopeBegin:
    case Op::kScopeEnd:
    case Op::kStep:
      add_region(record);
      return {};
    case Op::kFigure:
      figures_[{record.device, record.text}] = record;
      part_->figures.push_back(part_->translator.figure(record));
      return {};
    case Op::kMark:
      part_->marks.push_back(part_->translator.mark(record));
      return {};
    case Op::kHeldSegment:
    case Op::kHeldBlock:
    case Op::kHeldPending:
    case Op::kHeldFree:
      held_[record.device].push_back(record);
      return {};
    case Op::kName:
      if (auto* block = live_.find(record)) block->name = record;
      [[fallthrough]];
    case Op::kOom:
    case Op::kSnapshot:
      return put(record, kind_of(record.op));
    default:
      return add_segment(record);
  }
}

Result<> Recording::add_block(const Record& record) {
  const auto written = homes_.extract({record.device, record.address});
  if (const auto* before = live_.find(record); before != nullptr) {
    // Freed unseen.
    VRAM_TRY(complete(LiveMemory::Block(*before), record));
  }
  std::vector<Record> homes = written.empty() ? std::vector<Record>() : std::move(written.mapped());
  VRAM_TRY(move_from(homes, record));
  live_.add(record, std::move(homes));
  return put(record, EventKind::kAlloc);
}

// What is found in the allocator may have been recorded already.
Result<> Recording::add_found(const Record& record) {
  if (live_.find(record) == nullptr) return add_block(as_found(record));
  homes_.erase({record.device, record.address});
  return {};
}

Result<> Recording::add_free(const Record& record) {
  auto* block = live_.find(record);
  if (block == nullptr) return {};  // from before the recording, and never found
  const bool waits =
      record.op == Op::kFreeRequested || (record.op == Op::kFree && block->is_used_elsewhere);
  if (!waits) return complete(LiveMemory::Block(*block), record);
  if (block->is_freed) return {};
  block->is_freed = true;
  return put(record.device,
             part_->translator.event_of_free(block->alloc, record, EventKind::kFreeRequested));
}

Result<> Recording::complete(const LiveMemory::Block& block, const Record& free) {
  live_.remove(block.alloc);
  const trace::Event event =
      part_->translator.event_of_free(block.alloc, free, EventKind::kFreeCompleted);
  VRAM_TRY(put(free.device, event));
  return move_back(block);
}

Result<> Recording::move_from(const std::vector<Record>& homes, const Record& block) {
  Record whole = block;
  whole.op = Op::kSegmentMap;
  whole.size_bytes = 0;
  whole.text = homes.empty() ? 0 : homes.front().text;
  for (Record home : homes) {
    home.op = Op::kSegmentUnmap;
    home.stream = 0;
    whole.size_bytes += home.size_bytes;
    VRAM_TRY(add_segment(home));
  }
  whole.stream = 0;
  return homes.empty() ? Result<>{} : add_segment(whole);
}

Result<> Recording::move_back(const LiveMemory::Block& block) {
  if (block.homes.empty()) return {};
  Record whole = block.alloc;
  whole.op = Op::kSegmentUnmap;
  whole.size_bytes = 0;
  whole.stream = 0;
  whole.text = block.homes.front().text;
  for (const Record& home : block.homes) whole.size_bytes += home.size_bytes;
  VRAM_TRY(add_segment(whole));
  for (Record home : block.homes) {
    home.op = Op::kSegmentMap;
    home.stream = 0;
    VRAM_TRY(add_segment(home));
  }
  return {};
}

void Recording::name_allocator(const Record& segment) {
  if (segment.text == 0 || part_->names_allocator) return;
  part_->names_allocator = true;
  part_->writer->add_setting(
      {std::string(trace::kAllocatorSetting), stores().texts.text(segment.text)});
}

// A segment that goes as a whole may be named by its address alone.
Result<> Recording::add_segment(const Record& written) {
  Record record = written;
  if (record.size_bytes == 0) record.size_bytes = live_.mapped_bytes(record);
  if (record.size_bytes == 0) return {};
  name_allocator(record);
  switch (record.op) {
    case Op::kSegmentFound:
      if (live_.segment_at(record) != nullptr) return {};
      [[fallthrough]];
    case Op::kSegmentAlloc:
    case Op::kSegmentMap:
      live_.map(record);
      break;
    default:
      live_.unmap(record);
  }
  return put(record, kind_of(record.op));
}

void Recording::add_region(const Record& record) {
  auto& annotations = part_->annotations;
  if (record.op != Op::kStep) {
    annotations.push_back(part_->translator.annotation(record, record.op == Op::kScopeBegin));
    note_open(record);
    return;
  }
  if (open_step_) annotations.push_back(part_->translator.step(record, *open_step_, false));
  open_step_ = record.address;
  annotations.push_back(part_->translator.step(record, *open_step_, true));
}

// An end closes the latest of its name, as readers have it. Ends may have been lost.
void Recording::note_open(const Record& scope) {
  if (scope.op == Op::kScopeBegin) {
    if (open_scopes_.size() == kMaxOpenScopes) open_scopes_.erase(open_scopes_.begin());
    open_scopes_.push_back(scope);
    return;
  }
  const auto begun = std::find_if(open_scopes_.rbegin(), open_scopes_.rend(),
                                  [&](const Record& open) { return open.text == scope.text; });
  if (begun != open_scopes_.rend()) open_scopes_.erase(std::next(begun).base());
}

// In a new part they begin with it.
void Recording::restate_open() {
  auto& annotations = part_->annotations;
  if (open_step_) {
    const Record step = placed({.op = Op::kStep});
    annotations.push_back(part_->translator.step(step, *open_step_, true));
  }
  for (Record scope : open_scopes_) {
    scope.time_ns = 0;
    annotations.push_back(part_->translator.annotation(placed(scope), true));
  }
  for (auto [key, figure] : figures_) {
    figure.time_ns = 0;
    part_->figures.push_back(part_->translator.figure(placed(figure)));
  }
}

Result<> Recording::write_existing_memory() {
  for (const Record& segment : live_.segments()) {
    const bool was_whole = segment.op == Op::kSegmentAlloc;
    name_allocator(segment);
    const EventKind kind = was_whole ? EventKind::kSegmentAlloc : EventKind::kSegmentMap;
    VRAM_TRY(put(segment, kind));
  }
  for (const LiveMemory::Block& block : live_.blocks()) {
    VRAM_TRY(put(as_found(block.alloc), EventKind::kAlloc));
    if (block.name) {
      VRAM_TRY(put(*block.name, EventKind::kAnnotate));
    }
    if (!block.is_freed) continue;
    VRAM_TRY(put(block.alloc, EventKind::kFreeRequested));
  }
  return {};
}

Result<> Recording::write_out() {
  VRAM_TRY(part_->writer->append_annotations(part_->annotations));
  part_->annotations.clear();
  VRAM_TRY(part_->writer->append_figures(part_->figures));
  part_->figures.clear();
  VRAM_TRY(part_->writer->append_marks(part_->marks));
  part_->marks.clear();
  return part_->writer->flush();
}

// Where what is there fills a file by itself, it is not restarted before it has doubled.
bool Recording::is_full() const {
  const uint64_t bytes = part_->sink->size_bytes();
  return options_.limit_bytes != 0 && bytes > options_.limit_bytes / 2 &&
         bytes > 2 * part_->first_bytes;
}

Result<> Recording::restart_file() {
  VRAM_TRY(part_->writer->finish());
  const uint64_t bytes = part_->sink->size_bytes();
  VRAM_TRY(open_part(FileSink::follow(*part_->sink)));
  closed_bytes_ += bytes;
  return write_beginning();
}

Result<> Recording::write_beginning() {
  auto held = std::exchange(held_, {});  // no event changes it here
  VRAM_TRY(write_existing_memory());
  held_ = std::move(held);
  restate_open();
  VRAM_TRY(write_out());
  part_->first_bytes = part_->sink->size_bytes();
  return {};
}

Result<std::unique_ptr<Recording>> Recording::create_after(const Recording& before,
                                                           const RecordingOptions& options) {
  VRAM_TRY_ASSIGN(auto recording, create(options));
  recording->live_ = before.live_;
  recording->homes_ = before.homes_;
  recording->held_ = before.held_;
  recording->open_step_ = before.open_step_;
  recording->open_scopes_ = before.open_scopes_;
  recording->figures_ = before.figures_;
  recording->last_ns_ = before.last_ns_;
  recording->is_last_an_event_ = before.is_last_an_event_;
  recording->lost_ = before.lost_;
  VRAM_TRY(recording->write_beginning());
  return recording;
}

Result<> Recording::copy_to(const std::string& path, Existing existing,
                            std::span<const trace::Setting> about) {
  VRAM_TRY(write_out());
  VRAM_TRY_ASSIGN(const auto copy, FileSink::create(path, existing, Continuation::kNone));
  auto done = part_->sink->copy_to(*copy);
  if (done) done = part_->writer->complete_copy(*copy, about);
  if (!done) copy->remove();
  return done;
}

Result<> Recording::flush() {
  VRAM_TRY(write_out());
  return is_full() ? restart_file() : Result<>{};
}

Result<> Recording::write_end_states() {
  if (part_->names_allocator) return {};  // they would lack the memory of vram's pool
  for (const auto& [device, records] : held_) {
    const auto index = part_->devices.find(device);
    if (index == part_->devices.end()) continue;
    EndState state;
    for (const Record& record : records) state.add(record, live_, part_->translator.stream(record));
    VRAM_TRY(part_->writer->append_state(index->second, state.segments(), state.blocks()));
  }
  return {};
}

Result<> Recording::finish() {
  VRAM_TRY(write_out());
  VRAM_TRY(write_end_states());
  return part_->writer->finish();
}

uint64_t Recording::written_bytes() const { return closed_bytes_ + part_->sink->size_bytes(); }

}  // namespace vram::record
