// TopLoop: runs vram top. One thread waits for keys, signals, new samples and answers at the same
// time; the sampler has its own thread, so that no key waits for a driver.
//
//     keys ──▶ handle ──▶ TopState ──┐
//     sampler ──▶ latest, History ───┴──▶ draw ──▶ Grid ──▶ Terminal
#pragma once

#include "base/result.hpp"
#include "cli/live.hpp"
#include "cli/signals.hpp"
#include "show/terminal/terminal.hpp"
#include "show/top/keys.hpp"
#include "show/top/rows.hpp"
#include "show/top/state.hpp"
#include "watch/sampler.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace vram::cli {

// Asks processes to release memory, on a thread of its own: an answer takes as long as a step, and
// the keyboard must stay responsive.

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

class TopLoop {
 public:
  TopLoop(const std::shared_ptr<Live>& live, show::top::TopState state, show::Terminal terminal);

  // Runs until the user ends it, and restores the terminal. A sample may still hang: leave the
  // program with _exit.
  void run();
  [[nodiscard]] const show::top::TopState& state() const { return state_; }

 private:
  [[nodiscard]] int wait() const;  // poll's answer
  [[nodiscard]] int timeout_ms() const;
  void take_sample();
  void take_answer();
  [[nodiscard]] bool take_signals();  // false: it is the end
  [[nodiscard]] bool take_keys();
  [[nodiscard]] bool execute(const show::top::Request& request);
  void signal_all(const show::top::Request& request);
  void draw();

  TopSignals signals_;  // first: the threads of the others inherit its mask
  show::top::TopState state_;
  show::Terminal terminal_;
  watch::Sampler sampler_;
  BackgroundTrim trim_;
  show::top::History history_;
  std::shared_ptr<const watch::Sampled> shown_;
};

// Sends a signal to a process and never to a later one with the same pid: a descriptor holds the
// process while its start time is compared.

// kNotFound: it has ended. kIo: not permitted; the message says what to do.
[[nodiscard]] Result<> signal_process(const show::top::ProcessId& process, int signal);

}  // namespace vram::cli
