! SPDX-License-Identifier: Apache-2.0
! The options of pools, their limits and refusals, and memory without a type.
module fortran_pools
  use, intrinsic :: iso_c_binding, only: c_associated, c_f_pointer, c_loc, c_ptr
  use, intrinsic :: iso_fortran_env, only: int32, int64, real32, real64
  use quarry
  use fortran_checks
  implicit none
  private

  public :: default_options_are_those_of_the_library, &
    overruns_are_counted_and_backtraces_are_kept, invalid_pools_are_refused, &
    bad_options_are_refused, copies_of_a_destroyed_pool_are_refused, limits_are_kept, &
    plain_memory_works, the_latest_failure_sets_the_message, file_pools_work

contains

  subroutine default_options_are_those_of_the_library()
    type(quarry_pool_options) :: defaults, library

    library = quarry_pool_default_options()
    call check(defaults%first_block == library%first_block .and. &
      defaults%next_block == library%next_block, 'default blocks')
    call check(defaults%growth_percent == library%growth_percent .and. &
      defaults%alignment == library%alignment, 'default growth, alignment')
    call check(defaults%max_bytes == 0 .and. library%max_bytes == 0 .and. &
      defaults%device == library%device, 'no limit, device')
    call check(library%red_zone == 0 .and. .not. library%keeps_backtraces, 'default checks')
    call check(.not. (allocated(library%directory) .or. allocated(library%name)), 'default texts')
  end subroutine

  subroutine overruns_are_counted_and_backtraces_are_kept()
    type(quarry_pool) :: pool
    type(quarry_pool_options) :: options
    type(c_ptr) :: memory
    integer(int32), pointer :: words(:)
    integer(int64) :: count
    integer :: status

    options%name = 'checked'
    options%red_zone = 16
    options%keeps_backtraces = .true.
    call pool%create(quarry_host, options)
    call pool%allocate(memory, 8_int64)
    call quarry_report(text_file)
    call check(has_line('#0 '), 'a report has backtraces')
    call remove_text_file()
    call c_f_pointer(memory, words, [3])
    words(3) = 1
    call pool%overruns(count)
    call check(count == 0, 'no overrun before the free')
    call pool%deallocate(memory)
    call pool%overruns(count)
    call check(count == 1, 'one overrun after the free')
    call pool%destroy()
    call pool%overruns(count, status)
    call check(status == quarry_bad_argument .and. count == 0, 'overruns of an invalid pool')
    options%red_zone = 65537
    call pool%create(quarry_host, options, status)
    call check_refused(status, quarry_bad_argument, 'red_zone', 'a red zone that is too large')
    options%red_zone = -1
    call pool%create(quarry_host, options, status)
    call check_refused(status, quarry_bad_argument, 'negative', 'a negative red zone')
  end subroutine

  subroutine invalid_pools_are_refused()
    type(quarry_pool) :: invalid
    type(quarry_pool_counts) :: counts
    real(real64), pointer :: line(:)
    type(c_ptr) :: memory
    integer(int32) :: id
    integer :: status

    call invalid%allocate(line, [5], status)
    call check_refused(status, quarry_bad_argument, 'the pool is null', &
      'an array of an invalid pool')
    call invalid%allocate(line, [0], status)
    call check_refused(status, quarry_bad_argument, 'the pool is null', &
      'an empty array of an invalid pool')
    call check(.not. associated(line), 'an invalid pool returns null')
    call invalid%deallocate(line, status)
    call check_refused(status, quarry_bad_argument, 'the pool is null', &
      'a free with an invalid pool')
    call invalid%allocate(memory, 5_int64, status)
    call check_refused(status, quarry_bad_argument, 'the pool is null', 'memory of an invalid pool')
    call invalid%counts(counts, status)
    call check_refused(status, quarry_bad_argument, 'the pool is null', 'counts of an invalid pool')
    call check(counts%reserved == 0 .and. counts%invalid_frees == 0, 'counts of no pool are zeros')
    call invalid%id(id, status)
    call check_refused(status, quarry_bad_argument, 'the pool is null', &
      'the number of an invalid pool')
    call invalid%release(status)
    call check_refused(status, quarry_bad_argument, 'the pool is null', &
      'release of an invalid pool')
    call invalid%destroy()
  end subroutine

  subroutine bad_options_are_refused()
    type(quarry_pool) :: pool
    type(quarry_pool_options) :: options
    integer(int32) :: id_before, id_after
    integer :: status

    call pool%create(7, status=status)
    call check_refused(status, quarry_bad_argument, 'no resource 7', 'an invalid resource')
    call pool%create(quarry_file, status=status)
    call check_refused(status, quarry_bad_argument, 'directory', 'files without a directory')
    options%alignment = 24
    call pool%create(quarry_host, options, status)
    call check(status == quarry_bad_argument, 'an alignment of 24')
    options = quarry_pool_options()
    options%first_block = -1
    call pool%create(quarry_host, options, status)
    call check_refused(status, quarry_bad_argument, 'an option is negative', 'a negative block')
    options = quarry_pool_options()
    options%max_bytes = -1
    call pool%create(quarry_host, options, status)
    call check_refused(status, quarry_bad_argument, 'an option is negative', 'a negative limit')
    options = quarry_pool_options()
    options%max_bytes = huge(options%max_bytes)
    call pool%create(quarry_host, options, status)
    call check(status == quarry_ok, 'a very high limit')
    call pool%id(id_before)
    call pool%create(quarry_host, status=status)
    call check_refused(status, quarry_bad_argument, 'a pool without a name', 'a second create')
    call pool%id(id_after)
    call check(id_before == id_after, 'a second create changes nothing')
    call pool%destroy()
    call pool%create(quarry_host, status=status)
    call check(status == quarry_ok, 'a pool after a destroyed pool')
    call pool%destroy()
    call pool%destroy()
  end subroutine

  subroutine copies_of_a_destroyed_pool_are_refused()
    type(quarry_pool) :: pool, same
    type(quarry_pool_counts) :: totals
    real(real64), pointer :: line(:)
    integer :: status

    call pool%create(quarry_host)
    same = pool
    call pool%destroy(status)
    call check(status == quarry_ok, 'destroy gives a status')
    call same%allocate(line, [10], status)
    call check_refused(status, quarry_destroyed, 'was destroyed', 'an array of a destroyed pool')
    call check(.not. associated(line), 'a destroyed pool returns null')
    call same%counts(totals, status)
    call check_refused(status, quarry_destroyed, 'quarry_pool_get_counts', &
      'counts of a destroyed pool')
    call same%destroy(status)
    call check_refused(status, quarry_destroyed, 'quarry_pool_destroy', 'a second destroy')
    call same%destroy(status)
    call check(status == quarry_ok, 'an invalid pool may be destroyed')
  end subroutine

  subroutine limits_are_kept()
    type(quarry_pool) :: pool
    type(quarry_pool_options) :: options
    real(real32), pointer :: first(:), second(:)
    integer :: status

    options%first_block = 65536
    options%next_block = 65536
    options%max_bytes = 100000
    options%alignment = 4096
    call pool%create(quarry_host, options)
    call pool%allocate(first, [15000], status)
    call check(status == quarry_ok, 'within the limit')
    call pool%allocate(second, [15000], status)
    call check_refused(status, quarry_out_of_memory, '60000', 'beyond the limit')
    call check(.not. associated(second), 'beyond the limit returns null')
    call pool%deallocate(first)
    call check_no_allocation_is_left(pool, 'a limited pool')
    call pool%destroy()
  end subroutine

  subroutine plain_memory_works()
    type(quarry_pool) :: pool
    type(c_ptr) :: memory, same
    integer(int64) :: size_there
    integer :: status

    call pool%create(quarry_host)
    call pool%allocate(memory, 1001_int64)
    call pool%size_of(memory, size_there)
    call check(size_there == 1001, 'the size of memory')
    same = memory
    call pool%deallocate(memory)
    call check(.not. c_associated(memory), 'memory freed is null')
    call pool%deallocate(memory, status)
    call check(status == quarry_ok, 'null memory is ignored')
    call pool%deallocate(same, status)
    call check_refused(status, quarry_not_in_use, 'not in use', 'a double free of memory')
    call check(c_associated(same), 'refused memory stays')
    call pool%allocate(memory, 0_int64)
    call check(c_associated(memory), '0 bytes have an address')
    call pool%deallocate(memory)
    call pool%allocate(memory, -5_int64, status)
    call check_refused(status, quarry_bad_argument, '-5 bytes is negative', 'a negative size')
    call check(.not. c_associated(memory), 'a negative size returns null')
    call check_no_allocation_is_left(pool, 'plain memory')
    call pool%destroy()
  end subroutine

  subroutine the_latest_failure_sets_the_message()
    type(quarry_pool) :: pool
    real(real64), pointer :: line(:)
    type(c_ptr) :: memory
    character(:), allocatable :: message
    integer :: status

    call pool%create(quarry_host)
    call pool%allocate(line, [-1], status)
    call check_refused(status, quarry_bad_argument, 'negative', 'the message of the module')
    call pool%allocate(memory, 2_int64**62, status)
    call check_refused(status, quarry_out_of_memory, '4611686018427387904', &
      'the message of the library after the module')
    call pool%allocate(line, [-1], status)
    call check_refused(status, quarry_bad_argument, 'negative', 'the message of the module again')
    call pool%allocate(line, [1], status)
    call check_refused(status, quarry_ok, 'negative', 'success keeps the message')
    message = quarry_last_error()
    call check(message == 'quarry_pool allocate: an extent of -1 is negative' .and. &
      len(message) == 49, 'the message has its exact length')
    call pool%deallocate(line)
    call check_no_allocation_is_left(pool, 'messages')
    call pool%destroy()
  end subroutine

  subroutine file_pools_work()
    type(quarry_pool) :: pool
    type(quarry_pool_options) :: options
    type(quarry_record) :: record
    real(real64), pointer :: line(:)
    integer :: status

    options%first_block = 65536
    options%directory = '/nonexistent'
    call pool%create(quarry_file, options, status)
    call check_refused(status, quarry_resource_failed, '/nonexistent', &
      'files in a missing directory')
    options%directory = '.'
    call pool%create(quarry_file, options)
    call pool%allocate(line, [1000])
    line = 0.5_real64
    call quarry_find(c_loc(line(7)), record)
    call check(record%resource == quarry_file .and. nint(sum(line)) == 500, 'an array in a file')
    call pool%deallocate(line)
    call check_no_allocation_is_left(pool, 'files')
    call pool%destroy()
  end subroutine

end module
