"""python/vram/_prototypes.py: current, laid out as the compiler does it, and of nothing but what the reader knows."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import pytest

import prototypes
from vram import _prototypes

INCLUDE = Path(__file__).resolve().parents[2] / "include"
DECLARED = prototypes.Declarations(INCLUDE / "vram")


def test_the_file_is_current() -> None:
    assert prototypes.TARGET.read_text() == prototypes.prototypes(INCLUDE / "vram"), "run tools/prototypes.py"


def test_structs_and_constants_are_the_compilers(tmp_path: Path) -> None:
    numbers = {name: value for name, value in DECLARED.constants.items() if name.startswith("VRAM_")}
    for name, members in DECLARED.structs.items():
        struct = getattr(_prototypes, prototypes.class_name(name))
        numbers[f"sizeof(struct {name})"] = ctypes.sizeof(struct)
        for _, member in members:
            numbers[f"offsetof(struct {name}, {member})"] = getattr(struct, member).offset
            numbers[f"sizeof(((struct {name}*)0)->{member})"] = getattr(struct, member).size
    assert len(numbers) > 200
    source = tmp_path / "layout.c"
    includes = "".join(f"#include <vram/{header.name}>\n" for header in sorted((INCLUDE / "vram").glob("*.h")))
    checks = "".join(f'_Static_assert((uint64_t)({text}) == {value}u, "{text}");\n' for text, value in numbers.items())
    source.write_text(includes + checks)
    command = ["cc", "-std=c11", "-fsyntax-only", "-I", str(INCLUDE), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("declaration", "said"),
    [
        ("VRAM_API float vram_load(void);", "unknown type float"),
        ("VRAM_API int vram_load(unsigned int x);", "unknown declaration: unsigned int x"),
        ("VRAM_API int vram_load(int x[4]);", "an array as a parameter"),
        ("VRAM_API int vram_load(vram_pool pool);", "unknown type vram_pool"),
        ("int vram_load(void);", "unknown declaration: int vram_load"),
        ("VRAM_API int vram_load(void)", "unknown declaration: VRAM_API int"),
        ("typedef struct vram_a { uint32_t bits : 3; } vram_a;", "unknown declaration: uint32_t bits : 3"),
        ("typedef struct vram_a { struct { int x; } inner; } vram_a;", "unknown declaration"),
        ("typedef union vram_a { int x; } vram_a;", "unknown declaration"),
        ("typedef struct vram_a { int x, y; } vram_a;", "unknown declaration: int x, y"),
        ("typedef enum vram_a { VRAM_A = 1 << 3 } vram_a;", "expected NAME = number in an enum"),
        ("#define VRAM_A (1 + 2)", "unknown directive"),
        ("#if 1\nVRAM_API void vram_a(void);\n#endif", "unknown directive: #if 1"),
    ],
)
def test_what_the_reader_does_not_know_is_an_error(declaration: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "vram.h").write_text(
        f"#ifndef VRAM_H\n#define VRAM_H\ntypedef struct vram_pool vram_pool;\n{declaration}\n#endif\n"
    )
    with pytest.raises(prototypes.HeaderError, match=said.replace("(", r"\(")):
        prototypes.Declarations(tmp_path)


def test_the_kinds_of_declarations(tmp_path: Path) -> None:
    (tmp_path / "vram.h").write_text("""
#ifndef VRAM_H
#define VRAM_H
#include <stdint.h>
#define VRAM_API __attribute__((visibility("default")))
#define VRAM_COUNT 3u
typedef struct vram_pool vram_pool;
typedef enum vram_state { VRAM_ON = 1, VRAM_OFF = 2 } vram_state;
typedef struct vram_part_info {
  const char* name; /* a comment; with a semicolon */
  vram_state states[VRAM_COUNT];
  void (*visit)(void* user, const vram_pool* pool);
} vram_part_info;
VRAM_API vram_state vram_open(const char* path, vram_pool** pool,
                              const vram_part_info* infos, double* share);
#define VRAM_REPORT_API __attribute__((visibility("default")))
#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE
struct ArrowArray {
  struct ArrowArray** children;
  void (*release)(struct ArrowArray*);
};
#endif
VRAM_REPORT_API void vram_report_rows(struct ArrowArray* rows);
#endif
""")
    found = prototypes.Declarations(tmp_path)
    assert found.constants == {"VRAM_COUNT": 3, "VRAM_ON": 1, "VRAM_OFF": 2}
    assert found.structs == {
        "vram_part_info": [
            ("c_char_p", "name"),
            ("c_int * 3", "states"),
            ("CFUNCTYPE(None, c_void_p, c_void_p)", "visit"),
        ],
        "ArrowArray": [("POINTER(c_void_p)", "children"), ("CFUNCTYPE(None, c_void_p)", "release")],
    }
    assert found.functions == {
        "vram_open": ("c_int", ["c_char_p", "POINTER(c_void_p)", "POINTER(PartInfo)", "POINTER(c_double)"])
    }
    assert found.report_functions == {"vram_report_rows": ("None", ["c_void_p"])}
