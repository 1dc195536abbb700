// The facts of a process in its recording, and the name of its file among other ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vram::record {

// Fact: information in a recording besides its events: about the process or the machine, or an
// allocator setting.
struct Fact {
  enum class Kind : uint8_t { kAbout, kSetting };
  Kind kind = Kind::kAbout;
  std::string key;
  std::string value;
};

struct Rank {
  unsigned number = 0;
  unsigned count = 1;
};

// This process's number among those that work together, by the variables of torchrun, Open MPI,
// MPICH and Slurm; none: it works alone.
[[nodiscard]] std::optional<Rank> rank_of_process();
// run.vtrace is run.rank3.vtrace for rank 3 of several.
[[nodiscard]] std::string path_of_rank(const std::string& path);
// run.vtrace is run.<word>.vtrace.
[[nodiscard]] std::string path_with(const std::string& path, const std::string& word);
// Process, machine and rank. A pid alone is used again, also in another container: with the pid
// namespace and the start, in ticks since this boot of the machine, it is not.
[[nodiscard]] std::vector<Fact> facts_of_process();
// Those of them that hold for every process of this machine.
[[nodiscard]] std::vector<Fact> facts_of_machine();
// In the child of a fork: those of them that its parent had are the child's from now on.
void renew_facts(std::vector<Fact>& facts);

}  // namespace vram::record
