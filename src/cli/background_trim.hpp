// Asks processes to release memory, on a thread of its own: an answer takes as long as a step, and
// the keyboard must stay responsive.
#pragma once

#include "show/top/rows.hpp"
#include "watch/sampler.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace vram::cli {

class BackgroundTrim {
 public:
  BackgroundTrim();

  // False: the last time is not over yet.
  [[nodiscard]] bool start(std::shared_ptr<const watch::Sampled> seen,
                           std::vector<show::top::ProcessId> processes);
  // Becomes readable when there is an answer.
  [[nodiscard]] int wake_fd() const;
  // Returns the result in one line, once.
  [[nodiscard]] std::optional<std::string> take_answer();

 private:
  struct State;
  std::shared_ptr<State> state_;  // with the thread, which may outlive this
};

}  // namespace vram::cli
