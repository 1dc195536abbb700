// examine(): what is wrong with a machine, judged from facts alone. A pure function; the checks it
// is made of are in checks/, one file a subject.
#pragma once

#include "doctor/facts.hpp"
#include "doctor/finding.hpp"

namespace vram::doctor {

[[nodiscard]] Report examine(const MachineFacts& facts);

}  // namespace vram::doctor
