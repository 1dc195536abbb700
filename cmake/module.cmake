# A module is a folder of src/ and one static library, vram_<module>. Its sources are the .cpp files below the folder that are
# not tests. The *_test.cpp files next to them and the helpers in <module>/testing/ become the program <module>_test. The
# libraries that a module links are the modules that it may include: src/layers.toml has the rules and tools/check_layers.py
# checks them.

# vram_define_path(<test> <NAME> <path>): defines NAME as the path, as a string, in those sources of the test that use it or
# include a helper that uses it. All other sources get the same compiler options in every clone, so ccache can reuse them.
function(vram_define_path test name path)
  set(users "${name}")
  file(GLOB_RECURSE helpers RELATIVE "${CMAKE_SOURCE_DIR}/src" "${CMAKE_SOURCE_DIR}/src/*/testing/*.hpp")
  foreach(helper IN LISTS helpers)
    file(STRINGS "${CMAKE_SOURCE_DIR}/src/${helper}" uses REGEX "${name}" LIMIT_COUNT 1)
    if(uses)
      string(APPEND users "|${helper}")
    endif()
  endforeach()
  get_target_property(sources ${test} SOURCES)
  foreach(source IN LISTS sources)
    file(STRINGS "${source}" uses REGEX "${users}" LIMIT_COUNT 1)
    if(uses)
      set_property(SOURCE "${source}" TARGET_DIRECTORY ${test} APPEND PROPERTY COMPILE_DEFINITIONS "${name}=\"${path}\"")
    endif()
  endforeach()
endfunction()

# vram_module(<name> <library>…): adds the module's library and its test program.
function(vram_module name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cpp")
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_test\\.cpp$|/testing/")
  list(FILTER tests INCLUDE REGEX "_test\\.cpp$|/testing/")
  add_library(vram_${name} STATIC ${sources})
  vram_merge(vram_${name} ${sources})
  target_link_libraries(vram_${name} PUBLIC vram_flags ${ARGN})
  # libvram.so links parts of these libraries and must export none of their symbols.
  set_target_properties(vram_${name} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_compile_options(vram_${name} PRIVATE -ffunction-sections -fdata-sections)
  if(VRAM_TESTS AND tests)
    add_executable(${name}_test ${tests})
    target_link_libraries(${name}_test PRIVATE vram_${name})
    vram_define_path(${name}_test VRAM_TEST_DATA "${CMAKE_SOURCE_DIR}/tests/data")
    vram_add_tests(${name}_test)
  endif()
endfunction()
