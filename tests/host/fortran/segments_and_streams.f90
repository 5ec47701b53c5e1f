! SPDX-License-Identifier: Apache-2.0
! Shared segments and stream pools.
module fortran_segments_and_streams
  use, intrinsic :: iso_c_binding, only: c_associated, c_f_pointer, c_null_ptr, c_ptr
  use, intrinsic :: iso_fortran_env, only: int32, int64
  use quarry
  use fortran_checks
  implicit none
  private

  public :: segments_are_shared_by_names, stream_pools_work_where_there_is_cuda

contains

  subroutine segments_are_shared_by_names()
    type(quarry_segment) :: first, second, invalid
    type(c_ptr) :: memory, same, result
    integer(int32), pointer :: numbers(:)
    integer(int64) :: offset
    integer :: status
    character(64) :: name

    call get_unique_name(name)
    call first%open(name, 1048576_int64)
    call second%open(name)
    call first%allocate(memory, 'numbers', 40_int64)
    call c_f_pointer(memory, numbers, [10])
    call check(all(numbers == 0), 'new shared memory is zeroed')
    numbers = 7
    call second%find(same, 'numbers ')
    call c_f_pointer(same, numbers, [10])
    call check(all(numbers == 7), 'the other opening reads the values')
    call second%offset_of(same, offset)
    call first%at(offset, result)
    call check(c_associated(result, memory), 'offsets are the same')

    call second%find(result, 'letters', status)
    call check_refused(status, quarry_not_in_use, 'no allocation of that name', 'an unknown name')
    call check(.not. c_associated(result), 'the result is null')
    call first%open(name, status=status)
    call check_refused(status, quarry_bad_argument, 'close it first', 'a second open')
    call invalid%open(name, -1_int64, status)
    call check_refused(status, quarry_bad_argument, 'negative', 'a negative size')
    call first%at(-1_int64, result, status)
    call check_refused(status, quarry_bad_argument, 'negative', 'a negative offset')
    call first%offset_of(c_null_ptr, offset, status)
    call check(status == quarry_bad_argument .and. offset == 0, 'a foreign address')
    call invalid%allocate(result, 'x', 1_int64, status)
    call check(status == quarry_bad_argument, 'an invalid segment')

    call second%release(same)
    call check(.not. c_associated(same), 'a released address is null')
    call first%release(memory)
    call second%find(result, 'numbers', status)
    call check(status == quarry_not_in_use, 'an allocation without references is removed')
    call second%close()
    call first%close()
    call first%close()
    call first%allocate(result, 'x', 1_int64, status)
    call check(status == quarry_bad_argument, 'a closed segment')
  end subroutine

  subroutine stream_pools_work_where_there_is_cuda()
    type(quarry_stream_pool) :: pool
    type(quarry_pool_options) :: options
    type(quarry_pool_counts) :: counts
    type(c_ptr) :: memory
    integer :: status

    call pool%allocate(memory, 10_int64, c_null_ptr, status)
    call check(status == quarry_bad_argument .and. .not. c_associated(memory), &
      'an invalid stream pool')
    call pool%counts(counts, status)
    call check(status == quarry_bad_argument .and. counts%reserved == 0, &
      'counts of an invalid stream pool')
    options%red_zone = 8
    call pool%create(options, status)
    call check_refused(status, quarry_bad_argument, 'no red zones', 'a stream pool with red zones')
    options = quarry_pool_options()
    options%first_block = -1
    call pool%create(options, status)
    call check_refused(status, quarry_bad_argument, 'an option is negative', &
      'a stream pool with a negative block')

    call pool%create(status=status)
    if (status == quarry_ok) call pool%allocate(memory, 1000_int64, c_null_ptr, status)
    if (status /= quarry_ok) then  ! no CUDA, or no GPU
      call check(status == quarry_resource_failed .or. status == quarry_out_of_memory, &
        'a stream pool without CUDA')
      call pool%destroy()
      return
    end if
    call pool%create(status=status)
    call check_refused(status, quarry_bad_argument, 'destroy it first', 'a second stream pool')
    call pool%counts(counts)
    call check(counts%allocated == 1000 .and. counts%allocations_in_use == 1, &
      'a stream pool counts')
    call pool%share(c_null_ptr)
    call pool%forget(c_null_ptr)
    call pool%deallocate(memory, c_null_ptr)
    call check(.not. c_associated(memory), 'a freed address is null')
    call pool%release()
    call pool%destroy()
  end subroutine

  subroutine get_unique_name(name)
    character(*), intent(out) :: name
    integer :: ticks

    call system_clock(ticks)
    write (name, '(a, i0)') 'quarry_fortran_test_', ticks
  end subroutine

end module
