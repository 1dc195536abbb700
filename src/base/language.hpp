// Messages in the user's language. Call sites contain the English text:
//
//   tr("largest first")             a text
//   trf("{} of the peak", share)    a text with fmt's placeholders, which the compiler checks
//   tr_context("verb", "free")      a text whose translation depends on its context
//   tr_later("largest first")       a text of a table, which tr() translates when
//                                   it is shown
//
// fail() (result.hpp) and counted() (bytes.hpp) translate their texts too. tools/catalogue.py finds
// all of them in the sources, and checks po/*.po against them. Texts without a translation, and
// everything before use_language() (libvram.so never calls it), are English.
//
// Thread-safe, except use_language(): call it before threads start.
#pragma once

#include <fmt/format.h>

#include <atomic>
#include <string>
#include <string_view>
#include <utility>

namespace vram {

// Null for English. Returns the translation, or null.
using Translate = const char* (*)(std::string_view context, std::string_view text);
inline constinit std::atomic<Translate> current_translate = nullptr;

[[nodiscard]] inline bool is_translated() {
  return current_translate.load(std::memory_order_relaxed) != nullptr;
}

[[nodiscard]] inline const char* tr_context(const char* context, const char* text) {
  const Translate translate = current_translate.load(std::memory_order_acquire);
  const char* const found = translate == nullptr ? nullptr : translate(context, text);
  return found == nullptr ? text : found;
}

[[nodiscard]] inline const char* tr(const char* text) { return tr_context("", text); }

[[nodiscard]] inline std::string_view tr(std::string_view text) {
  const Translate translate = current_translate.load(std::memory_order_acquire);
  const char* const found = translate == nullptr ? nullptr : translate("", text);
  return found == nullptr ? text : found;
}

[[nodiscard]] constexpr const char* tr_later(const char* text) { return text; }

template <typename... Args>
[[nodiscard]] std::string trf(fmt::format_string<Args...> text, Args&&... args) {
  const fmt::string_view original = text;
  // A test proves that each translation has the placeholders of its original.
  const std::string_view translated = tr(std::string_view(original.data(), original.size()));
  return fmt::vformat(fmt::string_view(translated.data(), translated.size()),
                      fmt::make_format_args(args...));
}

// The language that the environment asks for, as a locale's name without codeset ("zh_CN"): the
// first of LANGUAGE (a list) that there is a catalogue for, or else of LC_ALL, LC_MESSAGES or LANG,
// whichever is set first. "" is English. The locale need not be installed.
[[nodiscard]] std::string language_of_environment();

// Uses the catalogue of this language from now on; "" is English. Returns false, and uses English,
// if there is none.
bool use_language(std::string_view language);

}  // namespace vram
