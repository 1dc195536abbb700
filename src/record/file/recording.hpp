// Recording: writes records to a .vtrace file. With a limit, a new file is started each time half
// of the limit is reached, and the previous one is kept as NAME.old.vtrace: the recording always
// covers between half of the limit and all of it. Each file is complete by itself: it starts with
// the memory mapped and allocated at that moment. Use it from one thread at a time.
#pragma once

#include "record/file/file_sink.hpp"
#include "record/file/live_memory.hpp"
#include "record/file/output.hpp"
#include "record/file/translator.hpp"
#include "record/process.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace vram::record {

struct RecordingOptions {
  std::string path;
  Existing existing = Existing::kReplaceOwn;
  uint64_t limit_bytes = 0;  // 0: none
  Translator::Describe describe = nullptr;
  std::vector<Fact> facts = {};
};

class Recording final : public RecordOutput {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Recording>> create(const RecordingOptions& options);

  // Begins with the memory, step and scopes that the other one has now.
  [[nodiscard]] static Result<std::unique_ptr<Recording>> create_after(
      const Recording& before, const RecordingOptions& options);

  [[nodiscard]] Result<> add(const Record& record) override;
  void add(const Fact& fact) override;
  void add(const trace::Note& note) { part_->writer->add_note(note); }
  void note_lost(uint64_t records) override;
  [[nodiscard]] Result<> flush() override;
  [[nodiscard]] Result<> finish() override;
  [[nodiscard]] uint64_t written_bytes() const override;
  [[nodiscard]] uint64_t event_count() const override { return event_count_; }

  [[nodiscard]] const LiveMemory& live() const { return live_; }
  // Of a recording without a limit: flushes it, and writes a complete copy with these facts. A
  // failed copy is removed; the recording continues.
  [[nodiscard]] Result<> copy_to(const std::string& path, Existing existing,
                                 std::span<const trace::Setting> about);
  // Of recordings without a limit: takes the place of the other one's file.
  [[nodiscard]] Result<> replace(const Recording& other) {
    return part_->sink->replace(*other.part_->sink);
  }
  // Removes the file, unless another one has been put in its place.
  void remove() { part_->sink->remove(); }

 private:
  // A file, and all that is numbered within it.
  struct Part {
    Part(std::unique_ptr<FileSink> to, Translator::Describe describe)
        : sink(std::move(to)), translator(describe) {}
    std::unique_ptr<FileSink> sink;
    Translator translator;
    std::optional<trace::VtraceWriter> writer;
    std::unordered_map<uint32_t, trace::DeviceIndex> devices;
    std::vector<trace::Annotation> annotations;
    std::vector<trace::Figure> figures;
    std::vector<trace::Mark> marks;
    uint64_t first_bytes = 0;  // with what was there when the file was begun
    bool names_allocator = false;
  };

  explicit Recording(RecordingOptions options) : options_(std::move(options)) {}
  [[nodiscard]] Result<> open_part(Result<std::unique_ptr<FileSink>> sink);
  // The record with the time that its place in the file has. Readers place regions among events by
  // their times alone: so times never go back, and what marks a region is later than the event
  // before it.
  [[nodiscard]] Record placed(const Record& record);
  void note_open(const Record& scope);
  void restate_open();
  void write(const Fact& fact);
  [[nodiscard]] Result<> write_out();
  [[nodiscard]] bool is_full() const;
  [[nodiscard]] Result<> restart_file();
  // What the file that was just opened begins with.
  [[nodiscard]] Result<> write_beginning();
  [[nodiscard]] Result<> write_existing_memory();
  [[nodiscard]] Result<> put(const Record& record);
  [[nodiscard]] Result<> put(uint16_t device, const trace::Event& event);
  [[nodiscard]] Result<> put(const Record& record, trace::EventKind kind);
  [[nodiscard]] Result<> add_block(const Record& record);
  [[nodiscard]] Result<> add_found(const Record& record);
  [[nodiscard]] Result<> add_free(const Record& record);
  [[nodiscard]] Result<> add_segment(const Record& record);
  // Pages of a block that is shown elsewhere than at home: a trace has each page at one address, so
  // they move there with the block, and back.
  [[nodiscard]] Result<> move_from(const std::vector<Record>& homes, const Record& block);
  [[nodiscard]] Result<> move_back(const LiveMemory::Block& block);
  [[nodiscard]] Result<> complete(const LiveMemory::Block& block, const Record& free);
  void add_region(const Record& record);
  [[nodiscard]] Result<> write_end_states();
  void name_allocator(const Record& segment);

  RecordingOptions options_;
  std::unique_ptr<Part> part_;
  LiveMemory live_;
  std::map<LiveMemory::Key, std::vector<Record>> homes_;  // of blocks in the next records
  // An allocator's list of its memory, until the next event of the device.
  std::map<uint16_t, std::vector<Record>> held_;
  std::optional<uint64_t> open_step_;
  std::vector<Record> open_scopes_;                        // of all threads, in order
  std::map<std::pair<uint16_t, TextId>, Record> figures_;  // the last of each name
  int64_t last_ns_ = 0;
  bool is_last_an_event_ = false;
  uint64_t event_count_ = 0;
  uint64_t lost_ = 0;
  uint64_t closed_bytes_ = 0;
};

}  // namespace vram::record
