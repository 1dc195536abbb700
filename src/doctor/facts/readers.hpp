// The parts of collect(): each reads one subject from the files of a tree. Use them from one thread
// at a time.
#pragma once

#include "doctor/facts.hpp"
#include "doctor/facts/tree.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace vram::doctor {

[[nodiscard]] std::vector<PciGpu> read_gpus(const Tree& tree);
[[nodiscard]] std::vector<DrmFacts> read_drm(const Tree& tree);
[[nodiscard]] NvidiaFacts read_nvidia(const Tree& tree, const std::string& kernel);
[[nodiscard]] PlatformFacts read_platform(const Tree& tree);
// `who` is the process's name below /proc: "self", or its number.
[[nodiscard]] ProcessFacts read_process(const Tree& tree, const std::string& who);
[[nodiscard]] ContainerFacts read_container(const Tree& tree, const std::string& who,
                                            const ProcessFacts& process);
[[nodiscard]] MpsFacts read_mps(const Tree& tree, const ProcessFacts& process);

// The Xids in the kernel's log, which may hold anything that a program could write there.
[[nodiscard]] std::vector<LoggedXid> xids_in(std::string_view log);
[[nodiscard]] std::optional<std::vector<LoggedXid>> read_xids(const Tree& tree);

}  // namespace vram::doctor
