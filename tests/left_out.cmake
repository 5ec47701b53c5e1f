# SPDX-License-Identifier: Apache-2.0
# Cases that `make test` leaves out: sets quarry_test_filter, the filter of all programs of tests. `make test-long` runs all
# (QUARRY_EVERY_TEST).

# Tests that AddressSanitizer and UndefinedBehaviorSanitizer leave out in `make test`. `dev` runs them, and the presets of
# `make test-long` run them under each sanitizer. They take a half of the time of all tests there, and find no error of memory that
# others of their source do not find: they compare results or counts in the same code for many more inputs, or examine forks, which
# ThreadSanitizer sees too.
set(quarry_tests_of_results
  # results on recorded programs
  FastFit.ReservesAtMostTwelvePercentMoreThanThePeakOfSimulationsInTheMean
  PublishedHeuristics.MatchTheMeasuredResults
  PytorchSnapshot.HasTheEventsThatPythonFindsInRealSnapshots
  Replay.AStreamPoolReservesLittleMoreThanARecordedProgramUses
  # numbers and sets
  BaseTable.AgreesWithAMap
  CConvert.ReadsBackEachDouble
  CConvert.ReadsIntegersAsTheHost
  CConvert.ReadsRandomDecimalsAsTheHost
  CommunicatorMeeting.ReductionsHaveTheBitsOfABinaryTree
  DirectCollectives.FewNumbersOfManyRanksHaveTheBitsOfABinaryTreeInMeetings
  DirectCollectives.ReductionsHaveTheBitsOfABinaryTree
  DirectCollectives.ReductionsOfMoreThanThousandRanksHaveThreeLevels
  LargeCounts.OperationsOfTheProgramGetThem
  ManyRanks.ScansCombineLowerRanksInOrder
  ManyRanks.SplitAsASortOfAllWishesDoes
  Meeting.NumbersOfMeetingsWrap
  Meeting.ReductionsHaveEveryBitOfReductionsByMessages
  Meeting.ReductionsOfSeveralNumbersHaveEveryBitOfReductionsByMessages
  Messages.TheSameInACommunicatorWithRanksInReverseOrder
  Messages.TheSameWhereNumbersOfMessagesWrap
  OpenRequests.AreFoundByNumberAndBytesAsInAList
  Reduction.EachOperationReducesEachTypeAsCDoes
  UsedBytes.BuffersHaveACommonByteIfTheirSetsOfBytesHave
  UsedBytes.PartsHaveACommonByteIfASetOfTheirBytesHasFewer
  # full memory, and memory that is all free in the end
  Checks.SignedMessagesGiveTheirMemoryBack
  CpuThreads.RanksThatWaitForMemoryThatARankFreesAreNotDeadlocked
  Memory.AHeapThatIsFullForAShortTimeIsNoError
  Memory.CallsThatFreeWhatTheyAllocateLeaveTheHeapAsItWas
  Memory.CallsThatDoNotWaitSayThatTheHeapIsFull
  OpenclHeap.IsAllocatedFullyAndFreedCompletely
  RankArrays.AllMemoryIsFreeInTheEnd
  RankMemory.AllOfItIsFreeInTheEnd
  ScheduledCollective.OperationsGiveTheirMemoryBack
  SharedResource.AllocatesUntilItsDataIsFull
  StreamPool.ForgetsStreamsWithoutMemory
  # models of a part, of which other tests use the whole
  LentSlices.ServeAThreadWhileTheirOwnersAreIdle
  OpenclGrowingHeap.EveryStepBetweenAllocationsKeepsTheInvariants
  SliceSupply.AllocatesEachSliceToOneLaneInEveryInterleaving
  SuperblockMap.AgreesWithAMapForRandomOperations
  # forks and kills
  AllocatorsOfAChild.*
  HeldAtFork.*
  SegmentTables.AreCorrectAfterAKillAtAnyInstruction)
# Tests that take a second or more under ThreadSanitizer and can have no races that others of their source do not show: they have one
# thread and no fibers, or threads that act one after the other, or tune with the threads of OutcomesDoNotDependOnTheNumberOfThreads.
# The load of whole blocks takes two fifths of the time of HeapStress, and races in the same code as its six other loads.
set(quarry_tests_of_one_thread
  BaseTable.AgreesWithAMap
  BaseTable.SpreadsEvenlySpacedBaseAddresses
  BusyLenders.AgreeWithANaiveModel
  LentChunks.AgreeWithANaiveModel
  LentSlices.ServeAThreadWhileTheirOwnersAreIdle
  Loads/HeapStress.*/WholeBlocks
  OpenclGrowingHeap.*
  OpenclHeap.AUsedHeapServesFreeSlotsBeforeItOpensSpans
  OpenclHeap.IsAllocatedFullyAndFreedCompletely
  OpenclOrderedMap.ASearchTakesFewStepsEvenIfKeysAreAddedInOrder
  OpenclQueueForLong.*
  Registry.AgreesWithAMap
  SuperblockMap.AgreesWithAMapForRandomOperations
  Tune.DropsCandidatesEarlyIfAnotherOneIsAsGood
  Tune.EndsTheSettingsThatMakeUmpireCrash
  Tune.FindsTheFrontOfCompleteReplays
  Tune.NoOutcomeIsBetterThanOneOnTheFront
  Tune.RefusesNegativeCostsAndTracesThatChange
  Tune.RepeatsEachMeasuredRowOfUmpire
  Tune.SaysThatNothingFits
  Tune.ThePriceOfMemoryMovesTheBestOutcome
  Tune.TriesPoolsThatSeparateTemporaryAllocations)
# Models with so many schedules that they take five seconds or more. `asan` and `apart` of `make test-long` run them.
set(quarry_long_models
  HeapModel.OneOfSeveralFreesOfAPointerSucceeds
  LateClaimModel.*
  OpenclHeapModel.MallocsAndFreesOfTwoClassesShareASpan)
set(quarry_test_filter "*")
if(NOT QUARRY_EVERY_TEST)
  if(QUARRY_SANITIZE STREQUAL "")
    set(left_out ${quarry_long_models})
  elseif(QUARRY_SANITIZE MATCHES "thread")
    set(left_out ${quarry_tests_of_one_thread})
  else()
    set(left_out ${quarry_tests_of_results})
  endif()
  list(JOIN left_out ":" quarry_test_filter)
  string(PREPEND quarry_test_filter "-")
endif()
