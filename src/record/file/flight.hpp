// FlightWindow: the last steps of a flight recorder, in two files, each an ordinary recording. The
// older one begins at least so many steps or so long ago as is to be retained; the newer one takes
// its place when it covers that much itself:
//
//     older   base ├────────────────────────────┤ now      flight.4711.vtrace
//     newer              base ├─────────────────┤          flight.4711.next.vtrace
//
// A dump is a copy of the older file, complete with its index. If the process is killed, the older
// file is what remains. Use it from one thread at a time (the flusher).
#pragma once

#include "record/dumps.hpp"
#include "record/file/flight_rules.hpp"
#include "record/file/output.hpp"
#include "record/file/recording.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace vram::record {

struct FlightOptions {
  static constexpr uint64_t kMinBytes = uint64_t{3} << 20;
  // The most that both files take.
  uint64_t max_bytes = uint64_t{24} << 20;
  // Retained at least, if max_bytes allows; 0: no such limit.
  uint64_t steps = 100;
  std::chrono::nanoseconds duration = std::chrono::minutes(10);
  // Files of dumps that are kept; the oldest goes.
  uint32_t max_files = 4;
  // Beyond this many live blocks their table would take more memory than the recorder may.
  size_t max_live_blocks = size_t{1} << 15;
  FlightRulesOptions rules = {};
};

class FlightWindow final : public RecordOutput {
 public:
  // options.path is the older file's. A file there that a dead process left is renamed to
  // NAME.killed.vtrace, or NAME.killed-2.vtrace if that exists. kIo, kBadInput: a file cannot be
  // created, or one that vram did not write is in the way.
  [[nodiscard]] static Result<std::unique_ptr<FlightWindow>> create(const RecordingOptions& options,
                                                                    const FlightOptions& flight);

  [[nodiscard]] Result<> add(const Record& record) override;
  void add(const Fact& fact) override;
  void note_lost(uint64_t records) override;
  [[nodiscard]] Result<> flush() override;
  // Removes the files: a program that ends by itself leaves none but those of dumps.
  [[nodiscard]] Result<> finish() override;
  [[nodiscard]] uint64_t written_bytes() const override { return older_->written_bytes(); }
  [[nodiscard]] uint64_t event_count() const override { return event_count_; }

  // A rule that has fired since the last call: write a file.
  [[nodiscard]] std::optional<FlightRules::Fired> take_fired() { return rules_.take(); }
  // Writes what is retained, with a fact about why. "" is a name of its own next to the older file
  // (flight.4711.oom.vtrace, flight.4711.oom-2.vtrace) that no file has. Returns the path. A
  // failure leaves no file behind.
  [[nodiscard]] Result<std::string> dump(DumpReason reason, const std::string& path = "",
                                         const std::string& rule = "");

 private:
  FlightWindow(RecordingOptions options, const FlightOptions& flight)
      : options_(std::move(options)), flight_(flight), rules_(flight.rules) {}
  [[nodiscard]] bool is_covered() const;
  [[nodiscard]] Result<> begin_newer();
  [[nodiscard]] Result<> promote();

  RecordingOptions options_;
  FlightOptions flight_;
  FlightRules rules_;
  std::unique_ptr<Recording> older_;
  std::unique_ptr<Recording> newer_;
  uint64_t steps_of_newer_ = 0;
  int64_t newer_began_ns_ = 0;
  uint64_t first_bytes_ = 0;  // of the newer file, with what was there when it began
  int64_t last_ns_ = 0;
  uint64_t event_count_ = 0;
};

}  // namespace vram::record
