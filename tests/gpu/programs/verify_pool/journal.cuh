// What the threads of verify_pool did last, in the order in which they did it: a wrong word is
// explained by what concerns its block and the streams that used it.
#pragma once

#include "kernels.cuh"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <vector>

class Journal {
 public:
  // Of a block where bytes > 0, else of streams: then `other` is the one that `stream` has to do
  // with, where there is one.
  struct Entry {
    Word time_ns = 0;  // of the wall clock, as the GPU's global timer
    const char* what = "";
    const void* stream = nullptr;
    const void* other = nullptr;
    Word address = 0;
    Word bytes = 0;
    Tag tag = 0;
    int thread = 0;
  };

  // Any thread, at any time; later entries replace the oldest. Its number.
  Word note(Entry entry) {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    entry.time_ns = static_cast<Word>(std::chrono::nanoseconds(now).count());
    const Word number = next_.fetch_add(1);
    entries_[number % kKept] = entry;
    return number;
  }

  // To stderr, after all threads have stopped: the last that was done with the blocks around the
  // address, marked *, and with their streams meanwhile.
  void explain(Word address) const {
    const Word end = next_, begin = end - std::min(end, kKept);
    const auto has = [address](const Entry& entry) {
      return entry.bytes > 0 && address - entry.address < entry.bytes;
    };
    std::vector<const void*> streams;
    Word first = end;
    for (Word i = end; i > begin && streams.size() < kBlockEntries; --i) {
      if (!has(at(i - 1))) continue;
      streams.push_back(at(i - 1).stream);
      first = i - 1;
    }
    const auto concerns = [&streams](const void* stream) {
      return std::find(streams.begin(), streams.end(), stream) != streams.end();
    };
    int lines = 0;
    for (Word i = first; i < end && lines < kLines; ++i) {
      const Entry& entry = at(i);
      const bool is_of_streams =
          entry.bytes == 0 && (concerns(entry.stream) || concerns(entry.other));
      if (!has(entry) && !is_of_streams) continue;
      std::fprintf(
          stderr,
          "%c %llu %llu ns, thread %d: %s, stream %p, other %p, %llu bytes at 0x%llx, tag %u\n",
          has(entry) ? '*' : ' ', i, entry.time_ns, entry.thread, entry.what, entry.stream,
          entry.other, entry.bytes, entry.address, entry.tag);
      ++lines;
    }
  }

 private:
  static constexpr Word kKept = Word{1} << 20;
  static constexpr size_t kBlockEntries = 40;
  static constexpr int kLines = 2000;
  [[nodiscard]] const Entry& at(Word number) const { return entries_[number % kKept]; }

  std::vector<Entry> entries_ = std::vector<Entry>(kKept);
  std::atomic<Word> next_{0};
};
