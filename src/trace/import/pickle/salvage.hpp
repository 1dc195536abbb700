// Salvage: when the input ends early, folds what is on the machine's stack as its opcodes would
// have done, and leaves out what is incomplete. The root remains at the bottom, perhaps still open.
// Used once; one thread.
#pragma once

#include "trace/import/pickle/open_containers.hpp"
#include "trace/import/pickle/sink.hpp"
#include "trace/import/pickle/value.hpp"

#include <cstddef>

namespace vram::trace::pickle {

class Salvage {
 public:
  // All arguments must outlive this.
  Salvage(ValueStack& stack, Marks& marks, OpenContainers& open, Sink& sink)
      : stack_(stack), marks_(marks), open_(open), sink_(sink) {}
  void run();

 private:
  void fold_pending(size_t first, bool owner_is_dict);
  bool fold_one(size_t first, bool owner_is_dict);
  void fold_owner();
  void end_truncated(size_t position, bool incomplete);

  ValueStack& stack_;
  Marks& marks_;
  OpenContainers& open_;
  Sink& sink_;
};

}  // namespace vram::trace::pickle
