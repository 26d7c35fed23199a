# The two kinds of targets. A layer is a static library whose headers are included as
# "layer/file.h". A test program is a gtest binary.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS ON)  # SMC_TRY is a statement expression
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

add_library(fairlead_options INTERFACE)
target_compile_options(fairlead_options INTERFACE
  -Wall -Wextra -Wconversion -Wsign-conversion -Wswitch-enum -Wshadow -Wnon-virtual-dtor
  -Wno-missing-field-initializers -fno-omit-frame-pointer)
# `one() | other()` calls both, which is meant; members of a base need no braces of their own.
target_compile_options(fairlead_options INTERFACE
  "$<$<CXX_COMPILER_ID:Clang>:-Wno-bitwise-instead-of-logical;-Wno-missing-braces>")
option(FAIRLEAD_WERROR "Warnings are errors" ON)
if(FAIRLEAD_WERROR)
  target_compile_options(fairlead_options INTERFACE -Werror)
endif()
set(FAIRLEAD_SANITIZE "" CACHE STRING "Comma-separated sanitizers for everything")
if(FAIRLEAD_SANITIZE)
  target_compile_options(fairlead_options INTERFACE -fsanitize=${FAIRLEAD_SANITIZE}
                         -fno-sanitize-recover=all)
  target_link_options(fairlead_options INTERFACE -fsanitize=${FAIRLEAD_SANITIZE})
endif()

option(FAIRLEAD_COVERAGE "Record which code runs (clang only)" OFF)
if(FAIRLEAD_COVERAGE)
  target_compile_options(fairlead_options INTERFACE -fprofile-instr-generate -fcoverage-mapping)
  target_link_options(fairlead_options INTERFACE -fprofile-instr-generate)
endif()

# Headers of the standard library and of GoogleTest take most of the time of a compilation, so one
# build has them precompiled. The other builds find what a source forgot to include.
option(FAIRLEAD_PRECOMPILE "Precompile headers of the standard library and GoogleTest" OFF)
set(FAIRLEAD_COLD_COMPILE_OPTIONS "" CACHE STRING
    "Further options for sources whose speed does not matter: tests, command lines, generated code")

# fairlead_precompile(target headers): headers is "standard", "commands" or "testing",
# cmake/precompiled_*.h. The last two have the options of cold sources.
function(fairlead_precompile target headers)
  if(FAIRLEAD_PRECOMPILE)
    target_precompile_headers(${target} REUSE_FROM fairlead_precompiled_${headers})
  endif()
endfunction()

if(FAIRLEAD_PRECOMPILE)
  # Found later; their definitions have to be those of the targets that include them.
  set(libraries_commands CLI11::CLI11)
  set(libraries_testing GTest::gtest GTest::gmock)
  foreach(headers standard commands testing)
    set(source ${PROJECT_BINARY_DIR}/precompiled_${headers}.cc)
    file(CONFIGURE OUTPUT ${source} CONTENT "// The headers are all that it compiles.\n")
    add_library(fairlead_precompiled_${headers} OBJECT EXCLUDE_FROM_ALL ${source})
    target_link_libraries(fairlead_precompiled_${headers} PRIVATE fairlead_options ${libraries_${headers}})
    target_precompile_headers(fairlead_precompiled_${headers} PRIVATE ${PROJECT_SOURCE_DIR}/cmake/precompiled_${headers}.h)
  endforeach()
  target_compile_options(fairlead_precompiled_commands PRIVATE ${FAIRLEAD_COLD_COMPILE_OPTIONS})
  target_compile_options(fairlead_precompiled_testing PRIVATE ${FAIRLEAD_COLD_COMPILE_OPTIONS})
endif()

# fairlead_layer(name [COMMANDS] SOURCES … DEPENDS …): library fairlead_<name>, alias
# fairlead::<name>. COMMANDS: its sources are command lines.
function(fairlead_layer name)
  cmake_parse_arguments(ARG "COMMANDS" "" "SOURCES;DEPENDS;PRIVATE" ${ARGN})
  add_library(fairlead_${name} STATIC ${ARG_SOURCES})
  add_library(fairlead::${name} ALIAS fairlead_${name})
  target_include_directories(fairlead_${name} PUBLIC ${PROJECT_SOURCE_DIR}/proxy)
  target_link_libraries(fairlead_${name} PUBLIC ${ARG_DEPENDS}
                        PRIVATE fairlead_options ${ARG_PRIVATE})
  if(ARG_COMMANDS)
    target_compile_options(fairlead_${name} PRIVATE ${FAIRLEAD_COLD_COMPILE_OPTIONS})
    fairlead_precompile(fairlead_${name} commands)
  else()
    fairlead_precompile(fairlead_${name} standard)
  endif()
endfunction()

# A limit for a test that hangs. No other test comes near it, however busy the machine is.
set(FAIRLEAD_HANG_SECONDS 1800)

# fairlead_test(name SOURCES … DEPENDS … LABELS …): one gtest program, one ctest entry.
function(fairlead_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE fairlead_options ${ARG_DEPENDS} GTest::gtest GTest::gmock
                        GTest::gtest_main)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_compile_definitions(${name} PRIVATE FAIRLEAD_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
                             FAIRLEAD_BINARY_DIR="${PROJECT_BINARY_DIR}")
  target_compile_options(${name} PRIVATE ${FAIRLEAD_COLD_COMPILE_OPTIONS})
  fairlead_precompile(${name} testing)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${FAIRLEAD_HANG_SECONDS} LABELS "${ARG_LABELS}")
endfunction()
