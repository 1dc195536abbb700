// Writes a snapshot as CPython's pickler does (protocol 4: every container and text memoised,
// batches of 1,000), of made-up events of any number: with no stacks, shared ones, or a list of its
// own for every event. For benchmarks and tests.
#pragma once

#include <cstdint>
#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace vram::trace {

class SnapshotWriter {
 public:
  struct Options {
    uint64_t events = 1'000'000;
    unsigned frames = 0;  // of each stack
    uint64_t stacks = 0;  // that recur; 0: each event has one that no other has
    // each of those is one list, referred to; else written out every time
    bool share_lists = false;
    bool is_2_11 = true;  // with compile_context and user_metadata; else as 2.2
  };
  explicit SnapshotWriter(const std::string& path) : file_(path, std::ios::binary) {}

  // Bytes written.
  uint64_t write(const Options& options) {
    out_ = "\x80\x04}";
    memoize();
    out_ += '(';
    text("segments");
    out_ += ']';
    memoize();
    text("device_traces");
    out_ += ']';
    memoize();
    out_ += ']';
    memoize();
    make_frames();
    for (uint64_t i = 0; i < options.events; ++i) {
      if (i % 1000 == 0) out_ += i == 0 ? "(" : "e(";
      entry(i, options);
      if (out_.size() > (1U << 20)) flush();
    }
    out_ += "eau.";
    flush();
    return bytes_;
  }

 private:
  static constexpr unsigned kFrames = 2000;

  void entry(uint64_t i, const Options& options) {
    static constexpr const char* kActions[] = {"alloc", "free_requested", "free_completed"};
    out_ += '}';
    memoize();
    out_ += '(';
    text("action");
    text(kActions[i % 3]);
    text("addr");
    integer(140'000'000'000'000 + static_cast<int64_t>(random_() % (1 << 20)) * 512);
    text("size");
    integer(static_cast<int64_t>(random_() % 3 == 0 ? random_() % 256 : random_() % (1 << 26)));
    text("stream");
    integer(0);
    text("time_us");
    integer(1'795'246'131'127'223 + static_cast<int64_t>(i / 2));
    if (options.is_2_11) {
      text("compile_context");
      text("N/A");
      text("user_metadata");
      text("");
    }
    if (options.frames != 0) {
      text("frames");
      stack(options);
    }
    out_ += 'u';
  }

  void stack(const Options& options) {
    const uint64_t number = options.stacks == 0 ? 0 : random_() % options.stacks;
    stacks_.resize(options.stacks);
    if (options.share_lists && stacks_[number] != 0) return get(stacks_[number]);
    out_ += ']';
    const uint64_t memo = memoize();
    if (options.share_lists) stacks_[number] = memo;
    out_ += '(';
    std::minstd_rand recurring(static_cast<uint32_t>(number + 1));
    for (unsigned i = 0; i < options.frames; ++i) {
      frame((options.stacks == 0 ? random_() : recurring()) % kFrames);
    }
    out_ += 'e';
  }

  void make_frames() { frames_.assign(kFrames, 0); }
  void frame(uint64_t number) {
    if (frames_[number] != 0) return get(frames_[number]);
    out_ += '}';
    frames_[number] = memoize();
    out_ += '(';
    text("name");
    text("function_" + std::to_string(number % 311));
    text("filename");
    text("/usr/lib/python3/site-packages/package/module_" + std::to_string(number % 61) + ".py");
    text("line");
    integer(static_cast<int64_t>(1 + number % 907));
    out_ += 'u';
  }

  void text(const std::string& value) {
    if (const auto known = texts_.find(value); known != texts_.end()) return get(known->second);
    out_ += '\x8c';
    out_ += static_cast<char>(value.size());
    out_ += value;
    texts_[value] = memoize();
  }
  void integer(int64_t value) {
    if (value < 256) {
      raw('K', value, 1);
    } else if (value < 65536) {
      raw('M', value, 2);
    } else if (value < int64_t{1} << 31) {
      raw('J', value, 4);
    } else {
      int length = 5;
      while (value >> (8 * length - 1) != 0) ++length;
      out_ += '\x8a';
      raw(static_cast<char>(length), value, static_cast<size_t>(length));
    }
  }
  void get(uint64_t index) {
    raw(index < 256 ? 'h' : 'j', static_cast<int64_t>(index), index < 256 ? 1 : 4);
  }
  uint64_t memoize() {
    out_ += '\x94';
    return memo_++;
  }
  void raw(char opcode, int64_t value, size_t length) {
    char bytes[8];
    std::memcpy(bytes, &value, sizeof(bytes));
    out_ += opcode;
    out_.append(bytes, length);
  }
  void flush() {
    file_.write(out_.data(), static_cast<std::streamsize>(out_.size()));
    bytes_ += out_.size();
    out_.clear();
    file_.flush();
  }

  std::ofstream file_;
  std::string out_;
  uint64_t bytes_ = 0;
  uint64_t memo_ = 0;
  std::map<std::string, uint64_t> texts_;
  std::vector<uint64_t> frames_;  // memo numbers; the memo's first is the whole's
  std::vector<uint64_t> stacks_;
  std::mt19937_64 random_{1};
};

}  // namespace vram::trace
