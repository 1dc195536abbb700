#include "trace/vtrace/file.hpp"

#include "trace/vtrace/tables.hpp"

#include <utility>

namespace vram::trace {

VtraceFile::VtraceFile(std::unique_ptr<VtraceSource> source)
    : source_(std::move(source)), reader_(*source_) {}

Result<VtraceFile> VtraceFile::open(const std::string& path) {
  auto file = InputFile::open(path);
  if (!file) return tl::unexpected(file.error());
  auto opened = open(std::make_unique<FileSource>(std::move(*file)));
  if (!opened) return fail(opened.error().code, "{}: {}", path, opened.error().message);
  opened->about_.origin.path = path;
  return opened;
}

Result<VtraceFile> VtraceFile::open(std::unique_ptr<VtraceSource> source) {
  VtraceFile file(std::move(source));
  const auto header = file.reader_.file_header();
  if (!header) return tl::unexpected(header.error());
  file.about_.has_time = header->has_time;
  file.about_.has_pools = header->has_pools;
  file.about_.origin.file_bytes = file.source_->size_bytes();
  file.has_index_ = file.load_index();
  if (!file.has_index_)
    if (auto done = file.scan(); !done) return tl::unexpected(done.error());
  if (auto done = file.load_tables(); !done) return tl::unexpected(done.error());
  return file;
}

// False where there is none, or none that can be believed: then the headers say it.
bool VtraceFile::load_index() {
  const uint64_t size = source_->size_bytes();
  if (size < kFileHeaderBytes + kFrameHeaderBytes + kTrailerBytes) return false;
  const auto offset = reader_.trailer_at(size - kTrailerBytes);
  if (!offset || *offset < kFileHeaderBytes || *offset > size - kTrailerBytes - kFrameHeaderBytes)
    return false;
  const auto header = reader_.header_at(*offset);
  if (!header || header->type != FrameType::kIndex) return false;
  const auto content = reader_.content_of(*offset, *header);
  if (!content) return false;
  auto frames = decode_index(*content, *offset);
  if (!frames) return false;
  list_ = std::move(*frames);
  return true;
}

Result<> VtraceFile::scan() {
  list_.clear();
  for (uint64_t offset = kFileHeaderBytes;;) {
    const auto header = reader_.header_at(offset);
    if (!header && header.error().code == Code::kIo) return tl::unexpected(header.error());
    if (!header || header->type == FrameType::kIndex) return {};
    list_.push_back({.offset = offset, .header = *header});
    offset += kFrameHeaderBytes + header->payload_bytes;
  }
}

// A damaged frame ends what can be read: frames after it may refer to what it held.
Result<> VtraceFile::load_tables() {
  for (size_t i = 0; i < list_.size(); ++i) {
    const FrameType type = list_[i].header.type;
    if (type != FrameType::kMeta && type != FrameType::kTables) continue;
    const auto header = reader_.header_at(list_[i].offset);
    Result<> done = header ? Result<>() : tl::unexpected(header.error());
    if (done) {
      const auto content = reader_.content_of(list_[i].offset, *header);
      if (!content)
        done = tl::unexpected(content.error());
      else
        done = type == FrameType::kMeta ? decode_meta(*content, about_, devices_)
                                        : decode_tables(*content, about_.tables);
    }
    if (done) continue;
    if (done.error().code == Code::kIo) return done;
    about_.origin.truncated_at_byte = list_[i].offset;
    about_.origin.notes.push_back({done.error().message});
    list_.resize(i);
  }
  return {};
}

Result<> VtraceFile::read_events(const IndexedFrame& frame, PodVector<Event>& out) {
  const auto header = reader_.header_at(frame.offset);
  if (!header) return tl::unexpected(header.error());
  FrameHeader listed = frame.header;
  listed.content_bytes = header->content_bytes;
  if (*header != listed || header->type != FrameType::kEvents)
    return fail(Code::kBadInput, "expected the events of the index at byte {}, found another frame",
                frame.offset);
  const auto content = reader_.content_of(frame.offset, *header);
  if (!content) return tl::unexpected(content.error());
  return decoder_.decode(*header, *content, sizes_of(about_.tables), out);
}

Result<> VtraceFile::read_between(uint16_t device, int64_t from_ns, int64_t to_ns,
                                  const Visit& visit) {
  PodVector<Event> events;
  for (const IndexedFrame& frame : list_) {
    if (frame.header.type != FrameType::kEvents || frame.header.device != device) continue;
    if (!frame.overlaps(from_ns, to_ns)) continue;
    events.truncate(0);
    if (auto done = read_events(frame, events); !done) return done;
    visit(frame.header.first_event, events.span());
  }
  return {};
}

}  // namespace vram::trace
