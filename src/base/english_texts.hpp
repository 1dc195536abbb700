// EnglishTexts: all texts are English while it lives, for files in formats of programs. Not for use
// while other threads make texts for people.
#pragma once

#include "base/language.hpp"

#include <atomic>

namespace vram {

class EnglishTexts {
 public:
  EnglishTexts() : before_(current_translate.exchange(nullptr)) {}
  ~EnglishTexts() { current_translate.store(before_); }
  EnglishTexts(const EnglishTexts&) = delete;
  EnglishTexts& operator=(const EnglishTexts&) = delete;

 private:
  Translate before_;
};

}  // namespace vram
