# Compiles through ccache where it is installed, so that a second checkout builds in a fraction of
# the time. Paths below the checkout are made relative, so that checkouts share their results.
option(FAIRLEAD_CCACHE "Compile through ccache if it is installed" ON)

if(FAIRLEAD_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(FAIRLEAD_CCACHE_PROGRAM ccache)
  if(FAIRLEAD_CCACHE_PROGRAM)
    foreach(language C CXX)
      set(CMAKE_${language}_COMPILER_LAUNCHER
          ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
          ${FAIRLEAD_CCACHE_PROGRAM})
    endforeach()
  endif()
endif()
