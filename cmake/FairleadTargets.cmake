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
  # Sources ask for these: clang 14 does not define the macros of g++.
  foreach(sanitizer address thread)
    if(FAIRLEAD_SANITIZE MATCHES ${sanitizer})
      string(TOUPPER ${sanitizer} upper)
      target_compile_definitions(fairlead_options INTERFACE FAIRLEAD_${upper}_SANITIZER)
    endif()
  endforeach()
endif()

option(FAIRLEAD_COVERAGE "Record which code runs (clang only)" OFF)
if(FAIRLEAD_COVERAGE)
  # Atomic: a count that a thread loses would show lines as reached that are derived from it.
  target_compile_options(fairlead_options INTERFACE -fprofile-instr-generate -fcoverage-mapping -fprofile-update=atomic)
  target_link_options(fairlead_options INTERFACE -fprofile-instr-generate)
endif()

# Headers of libraries take most of the time of a compilation, so one build has them precompiled. The
# other builds find what a source forgot to include.
option(FAIRLEAD_PRECOMPILE "Precompile headers of the standard library, JSON and GoogleTest" OFF)
set(FAIRLEAD_COLD_COMPILE_OPTIONS "" CACHE STRING
    "Further options for sources whose speed does not matter: tests, command lines, JSON, generated code")
set(FAIRLEAD_TEST_COMPILE_OPTIONS "" CACHE STRING "Further options for the sources of tests")
add_library(fairlead_cold_options INTERFACE)
target_compile_options(fairlead_cold_options INTERFACE ${FAIRLEAD_COLD_COMPILE_OPTIONS})
# Linked after fairlead_options: the last option about a sanitizer is in force.
add_library(fairlead_test_options INTERFACE)
target_compile_options(fairlead_test_options INTERFACE ${FAIRLEAD_TEST_COMPILE_OPTIONS})

# fairlead_precompile(target headers): headers is "standard", "cold", "commands" or "testing",
# cmake/precompiled_*.h. A target has the options of its headers.
function(fairlead_precompile target headers)
  if(FAIRLEAD_PRECOMPILE)
    target_precompile_headers(${target} REUSE_FROM fairlead_precompiled_${headers})
  endif()
endfunction()

# fairlead_cold(target [headers]): the sources of this target are compiled quickly instead of run quickly.
function(fairlead_cold target)
  set(headers cold)
  if(ARGC GREATER 1)
    set(headers ${ARGV1})
  endif()
  target_link_libraries(${target} PRIVATE fairlead_options fairlead_cold_options)
  fairlead_precompile(${target} ${headers})
endfunction()

if(FAIRLEAD_PRECOMPILE)
  # Found later; their definitions have to be those of the targets that include them.
  set(libraries_standard fairlead_options)
  set(libraries_cold fairlead_options fairlead_cold_options nlohmann_json::nlohmann_json)
  set(libraries_commands ${libraries_cold} CLI11::CLI11)
  set(libraries_testing fairlead_options fairlead_cold_options fairlead_test_options nlohmann_json::nlohmann_json GTest::gtest GTest::gmock)
  foreach(headers standard cold commands testing)
    set(source ${PROJECT_BINARY_DIR}/precompiled_${headers}.cc)
    file(CONFIGURE OUTPUT ${source} CONTENT "// The headers are all that it compiles.\n")
    add_library(fairlead_precompiled_${headers} OBJECT EXCLUDE_FROM_ALL ${source})
    target_link_libraries(fairlead_precompiled_${headers} PRIVATE ${libraries_${headers}})
    target_precompile_headers(fairlead_precompiled_${headers} PRIVATE ${PROJECT_SOURCE_DIR}/cmake/precompiled_${headers}.h)
  endforeach()
endif()

# fairlead_layer(name [COLD|COMMANDS] SOURCES … DEPENDS …): library fairlead_<name>, alias
# fairlead::<name>. COLD: see fairlead_cold. COMMANDS: its sources are command lines, which are cold too.
function(fairlead_layer name)
  cmake_parse_arguments(ARG "COLD;COMMANDS" "" "SOURCES;DEPENDS;PRIVATE" ${ARGN})
  add_library(fairlead_${name} STATIC ${ARG_SOURCES})
  add_library(fairlead::${name} ALIAS fairlead_${name})
  target_include_directories(fairlead_${name} PUBLIC ${PROJECT_SOURCE_DIR}/proxy)
  target_link_libraries(fairlead_${name} PUBLIC ${ARG_DEPENDS}
                        PRIVATE fairlead_options ${ARG_PRIVATE})
  if(ARG_COMMANDS)
    fairlead_cold(fairlead_${name} commands)
  elseif(ARG_COLD)
    fairlead_cold(fairlead_${name})
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
  target_link_libraries(${name} PRIVATE fairlead_options fairlead_cold_options fairlead_test_options ${ARG_DEPENDS} GTest::gtest GTest::gmock
                        GTest::gtest_main)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_compile_definitions(${name} PRIVATE FAIRLEAD_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
                             FAIRLEAD_BINARY_DIR="${PROJECT_BINARY_DIR}")
  fairlead_precompile(${name} testing)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${FAIRLEAD_HANG_SECONDS} LABELS "${ARG_LABELS}")
endfunction()
