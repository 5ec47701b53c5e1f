# SPDX-License-Identifier: Apache-2.0
# Records, reads, replays and tunes traces of allocations.
quarry_layer(trace
  USES core platform host
  SOURCES byte_source.cpp candidates.cpp codec.cpp compare_keys.cpp event.cpp file_writer.cpp json_line.cpp line_reader.cpp
    open_trace.cpp option_names.cpp placement.cpp plan.cpp pytorch_snapshot.cpp quarry_reader.cpp reader.cpp recorder.cpp repetition.cpp
    replay.cpp replay/running_replay.cpp rmm_log.cpp rmm_writer.cpp select_allocator.cpp separate.cpp strategy_code.cpp text_log.cpp tune.cpp umpire_line.cpp umpire_log.cpp
    unpickler.cpp
  TESTS trace/*_test.cpp heap_trace_test.cpp
  GPU heap_trace_test.cpp
  FUZZ plan rmm_log text_log trace umpire_log)
