"""The brace matcher behind the size check handles the shapes of code that mislead simpler ones."""

import textwrap

import pytest

from cpp_text import blanked, functions


def found(code: str) -> list[tuple[str, int, int]]:
    return [(f.name, f.first_line, f.last_line) for f in functions(textwrap.dedent(code).lstrip("\n"))]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("int one() { return 1; }", [("one", 1, 1)]),
        ("namespace a::b {\nint one() {\n  return 1;\n}\n}  // namespace a::b", [("one", 2, 4)]),
        ("class A {\n  int one() const noexcept {\n    return 1;\n  }\n};", [("one", 2, 4)]),
        ("A::A(int x) : x_{x}, y_(2) {\n  run();\n}", [("A::A", 1, 3)]),
        ("A::A(int x)\n    : x_(x),\n      y_{2} {}", [("A::A", 1, 3)]),
        ("A::~A() {\n}", [("A::~A", 1, 2)]),
        ("template <typename T = int>\nauto f(T x) -> std::vector<T> {\n}", [("f", 1, 3)]),
        ("static const int kTable[] = {\n  1,\n  2,\n};\nint f() {\n}", [("f", 5, 6)]),
        ("int x{1};\nstruct P {\n  int a = {3};\n  int b{4};\n};\nint f() {\n}", [("f", 6, 7)]),
        ("A& A::operator=(A&& other) noexcept {\n  return *this;\n}", [("A::operator=", 1, 3)]),
        ("TEST(Suite, Case) {\n  if (a) {\n  }\n}", [("TEST(Suite, Case)", 1, 4)]),
        ("void f(int a = g({1, 2})) {\n}", [("f", 1, 2)]),
        ("enum class E { kA, kB };\nint f() {\n}", [("f", 2, 3)]),
        ("int f();\nint g() {\n}", [("g", 2, 3)]),
    ],
)
def test_finds_functions(code: str, expected: list[tuple[str, int, int]]) -> None:
    assert found(code) == expected


def test_braces_in_literals_comments_and_directives_do_not_count() -> None:
    code = """
    #define OPEN {
    // {
    /* { */
    int f() {
      auto a = "}"; auto b = '}'; auto c = 1'000'000;
      auto d = R"(}
      )";
    }
    int g() {}
    """
    assert found(code) == [("f", 4, 8), ("g", 9, 9)]


def test_blanking_keeps_every_line() -> None:
    code = 'a /* x\n y */ "b\\"c" R"m(\n)m" // z\n#define A \\\n  {\nend'
    assert blanked(code).count("\n") == code.count("\n")
    assert len(blanked(code)) == len(code)
    assert blanked(code).split() == ["a", "end"]
