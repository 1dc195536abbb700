# A module is a folder of src/ and one static library, vram_<module>. Its sources are the .cpp files below the folder that are
# not tests. The *_test.cpp files next to them and the helpers in <module>/testing/ become the program <module>_test. The
# libraries that a module links are the modules that it may include: src/layers.toml has the rules and tools/check_layers.py
# checks them.

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
    vram_merge(${name}_test ${tests})
    target_link_libraries(${name}_test PRIVATE vram_${name})
    vram_add_tests(${name}_test)
  endif()
endfunction()
