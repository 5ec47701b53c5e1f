! SPDX-License-Identifier: Apache-2.0
! Checks the Fortran module: facts, refusals and their messages, and that freed memory no longer
! counts. The tests are in the modules of the folder fortran.
program fortran_test
  use quarry
  use fortran_checks
  use fortran_pools
  use fortran_arrays
  use fortran_allocators
  use fortran_segments_and_streams
  implicit none

  character(32) :: argument

  call get_command_argument(1, argument)
  if (argument == 'stop') call fail_without_a_status()

  call the_version_is_a_number_and_a_text()
  call default_options_are_those_of_the_library()
  call overruns_are_counted_and_backtraces_are_kept()
  call arrays_of_each_type_and_rank_work()
  call empty_arrays_work()
  call bad_extents_are_refused()
  call wrong_addresses_are_refused()
  call invalid_pools_are_refused()
  call bad_options_are_refused()
  call copies_of_a_destroyed_pool_are_refused()
  call limits_are_kept()
  call plain_memory_works()
  call arrays_may_be_contiguous_or_have_other_bounds()
  call large_arrays_are_freed()
  call the_latest_failure_sets_the_message()
  call records_labels_and_reports_work()
  call copies_and_fills_work()
  call file_pools_work()
  call allocators_have_names()
  call variables_of_named_pools_are_reusable()
  call pools_without_names_are_not_lost()
  call memory_is_freed_by_its_address()
  call segments_are_shared_by_names()
  call stream_pools_work_where_there_is_cuda()
  call failures_without_a_status_end_the_program()

  if (failed > 0) error stop 'fortran_test failed'
  print '(i0, a)', checked, ' checks passed'

contains

  subroutine the_version_is_a_number_and_a_text()
    character(:), allocatable :: text
    integer :: dots(2), major, minor, patch

    text = quarry_version_text()
    dots(1) = index(text, '.')
    dots(2) = index(text, '.', back=.true.)
    read (text(:dots(1) - 1), *) major
    read (text(dots(1) + 1:dots(2) - 1), *) minor
    read (text(dots(2) + 1:), *) patch
    call check(quarry_version() == 10000 * major + 100 * minor + patch, 'the version')
  end subroutine

  ! The program calls this subroutine when it runs itself.
  subroutine fail_without_a_status()
    type(quarry_pool) :: pool

    call pool%create(7)
    stop
  end subroutine

  subroutine failures_without_a_status_end_the_program()
    character(4096) :: self
    integer :: code

    call get_command_argument(0, self)
    code = 0
    call execute_command_line('"' // trim(self) // '" stop 2> ' // text_file, exitstat=code)
    call check(code == 1, 'the program ends with 1')
    call check(has_line('quarry: quarry_pool_create: there is no resource 7'), &
      'the program says why')
    call remove_text_file()
  end subroutine

end program
