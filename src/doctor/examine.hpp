// examine(): finds problems of a machine from its facts. A pure function; its checks are in
// checks/, one file for each subject.
#pragma once

#include "doctor/facts.hpp"
#include "doctor/finding.hpp"

namespace vram::doctor {

[[nodiscard]] Report examine(const MachineFacts& facts);

}  // namespace vram::doctor
