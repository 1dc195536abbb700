# A room is a folder of src/ and one static library, vram_<room>: its sources are the .cpp files below it that are not
# tests; the files *_test.cpp beside them, and what helps them in <room>/testing/, become the program <room>_test. Links
# say which rooms it may include (src/layers.toml is the law; tools/check_layers.py enforces it).
function(vram_room name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cpp")
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_test\\.cpp$|/testing/")
  list(FILTER tests INCLUDE REGEX "_test\\.cpp$|/testing/")
  add_library(vram_${name} STATIC ${sources})
  target_link_libraries(vram_${name} PUBLIC vram_flags ${ARGN})
  if(VRAM_TESTS AND tests)
    add_executable(${name}_test ${tests})
    target_link_libraries(${name}_test PRIVATE vram_${name} vram::dep::gtest)
    target_compile_definitions(${name}_test PRIVATE VRAM_TEST_DATA="${CMAKE_SOURCE_DIR}/tests/data")
    add_test(NAME ${name} COMMAND ${name}_test)
  endif()
endfunction()
