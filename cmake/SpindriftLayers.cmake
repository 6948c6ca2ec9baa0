# Layering that the compiler enforces. Includes are written from the project root
# ("transport/wire/pds.h"). A target gets as include paths only the layers it SEES: for each layer
# a folder below ${PROJECT_BINARY_DIR}/layers holds a link to that one source folder, so an include of
# any other layer does not compile.

# spindrift_layer(<name> <source folder>): makes the layer's include path.
function(spindrift_layer name folder)
  set(root ${PROJECT_BINARY_DIR}/layers/${name})
  get_filename_component(parent ${root}/${folder} DIRECTORY)
  file(MAKE_DIRECTORY ${parent})
  if(NOT EXISTS ${root}/${folder})
    file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${folder} ${root}/${folder} SYMBOLIC)
  endif()
endfunction()

spindrift_layer(base transport/base)
spindrift_layer(wire transport/wire)
spindrift_layer(paths transport/paths)
spindrift_layer(transport transport)
spindrift_layer(cc cc)
spindrift_layer(providers providers)
spindrift_layer(collectives collectives)
spindrift_layer(sim sim)
spindrift_layer(plugins plugins)
spindrift_layer(tools tools)
spindrift_layer(bench bench)
spindrift_layer(tests tests)

option(SPINDRIFT_SANITIZED "The compiler flags hold sanitizers" OFF)
option(SPINDRIFT_FUZZ "Build the libFuzzer targets (clang only)" OFF)

function(spindrift_compile_options target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wconversion -Wshadow -Wnon-virtual-dtor
                                           -Werror -ffp-contract=off)
  if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
    # Part of clang's -Wconversion but not of gcc's.
    target_compile_options(${target} PRIVATE -Wno-sign-conversion)
  elseif(SPINDRIFT_SANITIZED)
    # gcc reports these falsely in instrumented code.
    target_compile_options(${target} PRIVATE -Wno-maybe-uninitialized -Wno-stringop-overflow
                                             -Wno-array-bounds)
  endif()
endfunction()

# spindrift_sees(<target> <layer>...): include paths of these layers (and the public headers).
function(spindrift_sees target)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/include)
  foreach(layer ${ARGN})
    target_include_directories(${target} PRIVATE ${PROJECT_BINARY_DIR}/layers/${layer})
  endforeach()
endfunction()

# spindrift_library(<target> SOURCES ... SEES <layer>... [LINKS <library>...])
function(spindrift_library target)
  cmake_parse_arguments(arg "" "" "SOURCES;SEES;LINKS" ${ARGN})
  add_library(${target} STATIC ${arg_SOURCES})
  spindrift_compile_options(${target})
  spindrift_sees(${target} ${arg_SEES})
  target_link_libraries(${target} PUBLIC ${arg_LINKS})
endfunction()

# spindrift_program(<target> SOURCES ... SEES <layer>... LINKS <library>...)
function(spindrift_program target)
  cmake_parse_arguments(arg "" "" "SOURCES;SEES;LINKS" ${ARGN})
  add_executable(${target} ${arg_SOURCES})
  spindrift_compile_options(${target})
  spindrift_sees(${target} ${arg_SEES})
  target_link_libraries(${target} PRIVATE ${arg_LINKS})
endfunction()

# spindrift_c_program(<target> SOURCES ... [LINKS <library>...]): C11, public headers only.
function(spindrift_c_program target)
  cmake_parse_arguments(arg "" "" "SOURCES;LINKS" ${ARGN})
  add_executable(${target} ${arg_SOURCES})
  set_target_properties(${target} PROPERTIES C_STANDARD 11 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF
                                             LINKER_LANGUAGE CXX)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror)
  spindrift_sees(${target})
  target_link_libraries(${target} PRIVATE ${arg_LINKS})
endfunction()

# spindrift_plugin(<target> SOURCES ...): a shared object that is loaded at run time
# (spindrift/plugin.h); public headers only, and nothing of the library is linked into it.
function(spindrift_plugin target)
  cmake_parse_arguments(arg "" "" "SOURCES" ${ARGN})
  add_library(${target} MODULE ${arg_SOURCES})
  spindrift_compile_options(${target})
  spindrift_sees(${target})
endfunction()

# spindrift_test(<name> SOURCES ... SEES <layer>... LINKS <library>... [LABELS ...] [TIMEOUT s]):
# a GoogleTest program, run by ctest as a whole.
function(spindrift_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "SOURCES;SEES;LINKS;LABELS" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  spindrift_program(${name} SOURCES ${arg_SOURCES} SEES base tests ${arg_SEES}
                    LINKS ${arg_LINKS} GTest::gtest GTest::gmock GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${arg_TIMEOUT})
  if(arg_LABELS)
    set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}")
  endif()
endfunction()

# spindrift_fuzz_target(<name> SOURCES ... SEES <layer>... LINKS <library>...): defines
# LLVMFuzzerTestOneInput. With SPINDRIFT_FUZZ a libFuzzer program; otherwise a test that replays
# tests/fuzz/corpus/<name>, an empty input, and the seeds 0..255 as single bytes.
function(spindrift_fuzz_target name)
  cmake_parse_arguments(arg "" "" "SOURCES;SEES;LINKS" ${ARGN})
  if(SPINDRIFT_FUZZ)
    spindrift_program(${name} SOURCES ${arg_SOURCES} SEES base tests ${arg_SEES}
                      LINKS ${arg_LINKS} -fsanitize=fuzzer)
  else()
    spindrift_program(${name} SOURCES ${arg_SOURCES}
                      ${PROJECT_SOURCE_DIR}/tests/fuzz/replay_main.cc
                      SEES base tests ${arg_SEES} LINKS ${arg_LINKS})
    add_test(NAME ${name} COMMAND ${name} ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${name})
    set_tests_properties(${name} PROPERTIES TIMEOUT 120)
  endif()
endfunction()

# The linter of the house rules is tested like everything else.
if(NOT DEFINED SPINDRIFT_TESTS OR SPINDRIFT_TESTS)
  enable_testing()
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  add_test(NAME tidy_test COMMAND ${Python3_EXECUTABLE} -B ${PROJECT_SOURCE_DIR}/tools/tidy_test.py)
endif()
