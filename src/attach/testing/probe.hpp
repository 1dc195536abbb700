// Static probes as PyTorch's header makes them (c10/util/static_tracepoint.h): a 16-bit counter in
// the section .probes, a nop, and a note. For one source file of a program or library.
#pragma once

#include <cstdint>

extern "C" {
__attribute__((section(".probes"), used)) volatile uint16_t stand_in_malloc_semaphore = 0;
__attribute__((section(".probes"), used)) volatile uint16_t stand_in_free_semaphore = 0;
}

#define VRAM_TEST_PROBE(provider, name, operands)                         \
  "990: nop\n"                                                            \
  ".pushsection .note.stapsdt,\"?\",\"note\"\n"                           \
  ".balign 4\n.4byte 992f-991f, 994f-993f, 3\n"                           \
  "991: .asciz \"stapsdt\"\n"                                             \
  "992: .balign 4\n"                                                      \
  "993: .8byte 990b\n.8byte _.stapsdt.base\n.8byte stand_in_" name        \
  "_semaphore\n"                                                          \
  ".asciz \"" provider "\"\n.asciz \"" name "\"\n.asciz \"" operands      \
  "\"\n"                                                                  \
  "994: .balign 4\n"                                                      \
  ".popsection\n"                                                         \
  ".ifndef _.stapsdt.base\n"                                              \
  ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n" \
  ".weak _.stapsdt.base\n.hidden _.stapsdt.base\n"                        \
  "_.stapsdt.base: .space 1\n.size _.stapsdt.base, 1\n.popsection\n.endif\n"
