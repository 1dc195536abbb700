// TopLoop: runs vram top. One thread waits for keys, signals, new samples and answers at the same
// time; the sampler has its own thread, so that no key waits for a driver.
//
//     keys ──▶ handle ──▶ TopState ──┐
//     sampler ──▶ latest, History ───┴──▶ draw ──▶ Grid ──▶ Terminal
#pragma once

#include "cli/background_trim.hpp"
#include "cli/live.hpp"
#include "cli/top_signals.hpp"
#include "show/terminal/terminal.hpp"
#include "show/top/history.hpp"
#include "show/top/keys.hpp"
#include "show/top/state.hpp"
#include "watch/sampler.hpp"

#include <memory>

namespace vram::cli {

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

}  // namespace vram::cli
