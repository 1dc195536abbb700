// assemble(): the pieces of a snapshot, put together to a Trace: events and segments to their
// devices, annotations to theirs, settings flattened, pools deduced where entries do not name them,
// and what is missing said in notes.
#pragma once

#include "base/result.hpp"
#include "trace/import/pickle/machine.hpp"
#include "trace/import/torch/collected.hpp"

namespace vram::trace::torch {

// Takes what is in `collected`. Errors: kBadInput when the pickle is sound but not a snapshot: says
// what was expected and what is there.
[[nodiscard]] Result<Trace> assemble(Collected& collected, const pickle::Outcome& outcome);

}  // namespace vram::trace::torch
