// The values of a pickle as a text, as any program reads them.
#pragma once

#include "trace/import/pickle/machine.hpp"
#include "trace/testing/import_bytes.hpp"
#include "trace/testing/tree_sink.hpp"

#include <memory>
#include <string>
#include <string_view>

namespace vram::exports {

inline std::string decoded(std::string_view bytes) {
  const auto source = trace::memory_source(trace::bytes_of(bytes));
  trace::ByteWindow window(*source, {});
  const auto sink = std::make_unique<trace::pickle::TreeSink>();
  const auto outcome = trace::pickle::Machine(window, *sink).run();
  return outcome ? sink->print(outcome->root) : outcome.error().message;
}

}  // namespace vram::exports
