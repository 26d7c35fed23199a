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

# fairlead_layer(name SOURCES … DEPENDS …): library fairlead_<name>, alias fairlead::<name>.
function(fairlead_layer name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;PRIVATE" ${ARGN})
  add_library(fairlead_${name} STATIC ${ARG_SOURCES})
  add_library(fairlead::${name} ALIAS fairlead_${name})
  target_include_directories(fairlead_${name} PUBLIC ${PROJECT_SOURCE_DIR}/proxy)
  target_link_libraries(fairlead_${name} PUBLIC ${ARG_DEPENDS}
                        PRIVATE fairlead_options ${ARG_PRIVATE})
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
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${FAIRLEAD_HANG_SECONDS} LABELS "${ARG_LABELS}")
endfunction()
