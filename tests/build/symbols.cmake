# What the library takes from header-only libraries stays in it: a program's own copy would be called in its stead, whatever its
# version and its compiler's options.
#   cmake -DNM=<nm> -DLIBRARY=<libcostate.so> -P symbols.cmake
execute_process(COMMAND ${NM} -D --defined-only ${LIBRARY} RESULT_VARIABLE result OUTPUT_VARIABLE symbols)
if(NOT result EQUAL 0 OR NOT symbols MATCHES " costate_transition\n" OR NOT symbols MATCHES " _ZN7costate9Linearize")
  message(FATAL_ERROR "${LIBRARY} does not export its own functions")
endif()
if(symbols MATCHES "[^\n]* _Z(GV|T.|Z)*NK?(5Eigen|8nlohmann)[^\n]*")
  message(FATAL_ERROR "${LIBRARY} exports ${CMAKE_MATCH_0}")
endif()
