// Sink: receives the data that the pickle machine decodes, so that a file of gigabytes never
// becomes a tree of objects. A container is in a numbered slot while it is filled; when it is
// complete, the sink turns it into a value of its own (kind kRecord), which replaces it. Inner
// containers are complete before they are passed.
#pragma once

#include "base/result.hpp"
#include "trace/import/pickle/value.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace vram::trace::pickle {

// containers being filled at the same time: slots are below this
inline constexpr unsigned kMaxOpen = 128;

class Sink {
 public:
  Sink() = default;
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;
  virtual ~Sink() = default;

  // The number of a text, by which Value::payload names it from now on. `bytes` need not be UTF-8.
  virtual uint32_t text(std::string_view bytes) = 0;

  // The index of a number that does not fit a Value, by which its payload names it: an integer's or
  // a double's bits.
  virtual uint64_t number(uint64_t bits) = 0;

  virtual void begin_dict(unsigned slot) = 0;
  // key, value, key, value … : in one call or in many.
  virtual void set_items(unsigned slot, std::span<const Value> items) = 0;
  virtual Value end_dict(unsigned slot) = 0;

  virtual void begin_list(unsigned slot) = 0;
  virtual void append(unsigned slot, std::span<const Value> items) = 0;
  virtual Value end_list(unsigned slot) = 0;

  virtual Value tuple(std::span<const Value> items) = 0;

  // The input ended while this container was being filled, so it stays as it is: with `incomplete`
  // it certainly lacks something, else possibly. Returns whether to keep it; if not, end_dict is
  // not called for it.
  virtual bool truncate_dict(unsigned slot, bool incomplete) = 0;
  virtual void truncate_list(unsigned slot) = 0;

  [[nodiscard]] virtual uint64_t memory_bytes() const = 0;
  // Set once the data cannot be what the sink is for; the machine stops soon after.
  [[nodiscard]] virtual const std::optional<Error>& error() const = 0;
};

}  // namespace vram::trace::pickle
