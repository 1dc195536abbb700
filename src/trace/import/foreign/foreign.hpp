// Recordings of memory by other programs than PyTorch's recorder and vram: traces of
// torch.profiler, logs of RMM, pprof profiles as JAX writes them, and memory profiles of XProf.
// What each lacks stays absent, and a note says what was assumed. One thread; hostile bytes give
// errors, and memory is limited.
#pragma once

#include "base/result.hpp"
#include "trace/import/bytes/source.hpp"
#include "trace/open.hpp"
#include "trace/trace.hpp"

#include <cstddef>
#include <optional>
#include <span>

namespace vram::trace {

enum class ForeignForm { kProfilerTrace, kRmmLog, kHeapProfile, kXSpace, kMemoryProfile };

// By the first bytes (16 are enough); none: it is none of these.
[[nodiscard]] std::optional<ForeignForm> foreign_form(std::span<const std::byte> first_bytes);

// `source` gives the unpacked bytes. Sets everything in Origin but path and file_bytes. Errors:
// kBadInput with what was expected and where, kTooLarge.
[[nodiscard]] Result<Trace> import_foreign(ByteSource& source, ForeignForm form,
                                           const OpenOptions& options = {});

// The forms, for import_foreign().

// The "[memory]" events of a trace that torch.profiler exported as JSON (profile_memory=True). The
// stack of an event has the operators, and with with_stack=True the Python functions, that were
// running on its thread; annotations become annotations. Memory is proportional to the events.
[[nodiscard]] Result<Trace> import_profiler_trace(ByteSource& source, const OpenOptions& options);

// A CSV log of rmm::mr::logging_resource_adaptor. It has times of day without a date, and no
// device.
[[nodiscard]] Result<Trace> import_rmm_log(ByteSource& source, const OpenOptions& options);

// profile.proto with a sample type in bytes: what was alive at one moment, as blocks with stacks;
// there are no events. jax.profiler.save_device_memory_profile() writes it.
[[nodiscard]] Result<Trace> import_heap_profile(ByteSource& source, const OpenOptions& options);

// An .xplane.pb file of XProf (the profiler of TensorFlow and JAX): its "MemoryAllocation" and
// "MemoryDeallocation" events. An allocation's stack has the operator that it is for, and what the
// memory is; steps become annotations.
[[nodiscard]] Result<Trace> import_xspace(ByteSource& source, const OpenOptions& options);

// The JSON of XProf's tool memory_profile: what each allocator held at its peak, as blocks with
// operators; there are no events.
[[nodiscard]] Result<Trace> import_memory_profile(ByteSource& source, const OpenOptions& options);

}  // namespace vram::trace
