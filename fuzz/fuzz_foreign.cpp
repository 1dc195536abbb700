// Bytes as recordings of other programs, packed or not: as what they look like, and as each form.
// Whatever they are: no crash, no hang; and what was read is consistent.
#include "base/result.hpp"
#include "check_trace.hpp"
#include "trace/import/bytes/source.hpp"
#include "trace/import/foreign/foreign.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace vram::trace {
namespace {

constexpr uint64_t kMaxUnpacked = uint64_t{32} << 20;

void try_bytes(std::span<const std::byte> bytes, ForeignForm form) {
  Result<std::unique_ptr<ByteSource>> source = decompressed(memory_source(bytes));
  if (!source) return;
  const Result<Trace> trace =
      import_foreign(**source, form, {.max_decompressed_bytes = kMaxUnpacked, .progress = nullptr});
  if (trace)
    check_trace(*trace);
  else
    VRAM_CHECK(!trace.error().message.empty());
}

}  // namespace
}  // namespace vram::trace

// NOLINTNEXTLINE(readability-identifier-naming): the name that libFuzzer calls
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using vram::trace::ForeignForm;
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  static_cast<void>(vram::trace::foreign_form(bytes));
  for (const auto form :
       {ForeignForm::kProfilerTrace, ForeignForm::kRmmLog, ForeignForm::kHeapProfile,
        ForeignForm::kXSpace, ForeignForm::kMemoryProfile})
    vram::trace::try_bytes(bytes, form);
  return 0;
}
