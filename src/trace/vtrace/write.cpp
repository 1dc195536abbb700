// A whole Trace into a file: what `vram convert` does.
#include "base/file.hpp"
#include "trace/vtrace/reader.hpp"
#include "trace/vtrace/writer.hpp"

#include <string>

namespace vram::trace {
namespace {

class FileSink final : public VtraceSink {
 public:
  explicit FileSink(AtomicFile& file) : file_(file) {}
  [[nodiscard]] Result<> write(std::string_view bytes) override { return file_.write(bytes); }

 private:
  AtomicFile& file_;
};

Result<> write_device(const Trace& trace, const DeviceTrace& device, VtraceWriter& writer) {
  const auto index = writer.add_device(device.kind, device.ordinal);
  if (!index) return tl::unexpected(index.error());
  if (device.ring_overflowed) writer.set_ring_overflowed(*index);
  if (auto done = writer.append(*index, trace.events_of(device)); !done) return done;
  if (!device.has_end_state) return {};
  return writer.append_state(*index, device.segments, device.blocks.span());
}

}  // namespace

Result<> write_vtrace(const Trace& trace, VtraceSink& sink) {
  auto writer = VtraceWriter::open(sink, trace.tables,
                                   {.has_time = trace.has_time, .has_pools = trace.has_pools});
  if (!writer) return tl::unexpected(writer.error());
  writer->set_origin(trace.origin);
  for (const Setting& setting : trace.settings) writer->add_setting(setting);
  for (const Setting& about : trace.about) writer->add_about(about);
  for (const DeviceTrace& device : trace.devices)
    if (auto done = write_device(trace, device, *writer); !done) return done;
  if (auto done = writer->append_annotations(trace.annotations); !done) return done;
  return writer->finish();
}

Result<> write_vtrace(const Trace& trace, const std::string& path, Replace replace) {
  auto file = AtomicFile::create(path, replace);
  if (!file) return tl::unexpected(file.error());
  FileSink sink(*file);
  if (auto done = write_vtrace(trace, sink); !done) return done;
  return file->commit();
}

}  // namespace vram::trace
