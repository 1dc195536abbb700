# The commit and the build type that `vram --version` prints besides the version. Each build runs this file as a script, which
# writes them to one small source file; that file is compiled only if its text has changed. So a new commit compiles one file
# and links the program. Nothing else in the program may depend on the commit.
if(NOT CMAKE_SCRIPT_MODE_FILE)
  set(vram_build_type "${CMAKE_BUILD_TYPE}")
  if(VRAM_SANITIZE)
    string(APPEND vram_build_type ", sanitizers ${VRAM_SANITIZE}")
  endif()
  set(vram_build "${CMAKE_CURRENT_BINARY_DIR}/build.cpp")
  add_custom_target(vram_commit
    COMMAND "${CMAKE_COMMAND}" "-DSOURCE=${CMAKE_SOURCE_DIR}" "-DTEMPLATE=${CMAKE_CURRENT_SOURCE_DIR}/cli/build.cpp.in"
      "-DBUILD_TYPE=${vram_build_type}" "-DTARGET=${vram_build}" -P "${CMAKE_CURRENT_LIST_FILE}"
    BYPRODUCTS "${vram_build}"
    COMMENT "Commit for vram --version"
    VERBATIM)
  add_dependencies(vram vram_commit)
  target_sources(vram PRIVATE "${vram_build}")
  return()
endif()

# `git archive`, and therefore the source archives of a release, insert the commit here (.gitattributes).
set(archived "$Format:%h$")

# Asks only the repository whose root this folder is: the sources may be unpacked inside another repository. The owner of the
# folder does not matter (safe.directory), since root builds in users' clones, too.
function(ask_git result)
  find_program(GIT git)
  set(${result} "" PARENT_SCOPE)
  if(NOT GIT OR NOT EXISTS "${SOURCE}/.git")
    return()
  endif()
  set(git "${GIT}" --no-optional-locks -c "safe.directory=${SOURCE}" -C "${SOURCE}")
  execute_process(COMMAND ${git} describe --always --dirty --abbrev=7 "--exclude=*"
    OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(failed)
    return()
  endif()
  # --dirty ignores files that git does not track yet, although a new source file is compiled (tools/build_backend.py has the
  # same list).
  if(NOT described MATCHES "-dirty$")
    execute_process(COMMAND ${git} status --porcelain --untracked-files=normal
      -- src include cmake python demo tools CMakeLists.txt
      OUTPUT_VARIABLE changed ERROR_QUIET)
    if(changed)
      string(APPEND described "-dirty")
    endif()
  endif()
  set(${result} "${described}" PARENT_SCOPE)
endfunction()

ask_git(commit)
# A source distribution contains the commit in a file (tools/build_backend.py).
if(NOT commit AND EXISTS "${SOURCE}/COMMIT")
  file(STRINGS "${SOURCE}/COMMIT" commit LIMIT_COUNT 1)
endif()
if(NOT commit AND NOT archived MATCHES "Format")
  set(commit "${archived}")
endif()
if(commit MATCHES "^[0-9a-f]+(-dirty)?$")
  set(COMMIT "commit ${commit}")
else()
  set(COMMIT "unknown commit")
endif()
configure_file("${TEMPLATE}" "${TARGET}" @ONLY)  # touches the file only if its text changes
