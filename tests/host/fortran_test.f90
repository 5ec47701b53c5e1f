! SPDX-License-Identifier: Apache-2.0
! Checks the Fortran module: facts, refusals and their messages, and that freed memory no longer
! counts.
program fortran_test
  use, intrinsic :: iso_c_binding, only: c_associated, c_f_pointer, c_loc, c_null_ptr, c_ptr
  use, intrinsic :: iso_fortran_env, only: error_unit, int32, int64, real32, real64
  use quarry
  implicit none

  character(*), parameter :: text_file = 'quarry_fortran_test.txt'
  integer :: checked = 0, failed = 0
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

  subroutine check(is_right, fact)
    logical, intent(in) :: is_right
    character(*), intent(in) :: fact

    checked = checked + 1
    if (is_right) return
    failed = failed + 1
    write (error_unit, '(4a)') 'failed: ', fact, '; the last error is: ', quarry_last_error()
  end subroutine

  ! Checks that the preceding call returned the status `wanted`, and that the message contains
  ! `part`.
  subroutine check_refused(status, wanted, part, fact)
    integer, intent(in) :: status, wanted
    character(*), intent(in) :: part, fact

    call check(status == wanted, fact // ': the status')
    call check(index(quarry_last_error(), part) > 0, fact // ': the message')
  end subroutine

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

  subroutine get_unique_name(name)
    character(*), intent(out) :: name
    integer :: ticks

    call system_clock(ticks)
    write (name, '(a, i0)') 'quarry_fortran_test_', ticks
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

  subroutine allocators_have_names()
    type(quarry_pool) :: host, fields, found, other
    type(quarry_pool_counts) :: totals
    real(real64), pointer :: array(:, :)
    integer(int64) :: size
    integer(int32) :: number, found_number
    integer :: status

    call host%make('HOST', 'host')
    call fields%make('fields ', "pool('HOST', first_block=1MiB)")
    call quarry_add_alias('densities', 'fields')
    call found%lookup('densities')
    call found%id(number)
    call fields%id(found_number)
    call check(number == found_number .and. number /= 0, 'an alias is the same allocator')
    call fields%allocate(array, [10_int64, 20_int64])
    array = 1.5_real64
    call found%counts(totals)
    call check(totals%allocated == 1600 .and. totals%allocations_in_use == 1 .and. &
      totals%reserved == 1048576, 'an allocator counts')
    call found%size_of(c_loc(array), size)
    call check(size == 1600, 'an allocator knows sizes')
    call found%label(c_loc(array), 'density')
    call other%owner_of(c_loc(array(5, 5)))
    call other%id(found_number)
    call check(number == found_number, 'the owner of an address')

    call found%lookup('none', status)
    call check_refused(status, quarry_bad_argument, "there is no allocator 'none'", &
      'an unknown name')
    call found%id(number)
    call check(number == found_number, 'a failed lookup changes nothing')
    call fields%destroy(status)
    call check_refused(status, quarry_bad_argument, 'the pool has a name', 'destroy by the handle')
    call quarry_destroy('fields', status=status)
    call check_refused(status, quarry_bad_argument, '1 allocations of 1600 bytes', &
      'destroy with allocated memory')
    call quarry_destroy('densities', status=status)
    call check_refused(status, quarry_bad_argument, 'is an alias', 'destroy an alias')
    call other%owner_of(c_null_ptr, status)
    call check_refused(status, quarry_bad_argument, 'nullptr has no allocator', 'the owner of null')
    call quarry_remove_alias('fields', status)
    call check_refused(status, quarry_bad_argument, 'is no alias', 'remove a name')

    call found%deallocate(array)
    call check(.not. associated(array), 'another handle frees')
    call found%coalesce(2097152_int64)
    call found%counts(totals)
    call check(totals%reserved == 2097152, 'one block of the requested size')
    call found%release()
    call found%counts(totals)
    call check(totals%reserved == 0 .and. totals%peak_reserved == 2097152, 'the blocks were freed')
    call quarry_remove_alias('densities')
    call quarry_destroy('fields')
    call found%release(status)
    call check_refused(status, quarry_destroyed, 'was destroyed', 'a destroyed allocator')
    call quarry_destroy('HOST')
  end subroutine

  ! The name suffices to find the pool again.
  subroutine variables_of_named_pools_are_reusable()
    type(quarry_pool) :: first_pool, second_pool
    integer(int32) :: first, second
    integer :: status

    call first_pool%make('first', 'host')
    call second_pool%lookup('first')
    call first_pool%id(first)
    call first_pool%make('second', 'host')
    call first_pool%id(second)
    call check(first /= second, 'make after make')
    call second_pool%id(second)
    call check(first == second, 'the first pool keeps its name')
    call first_pool%make('first', 'host', status)
    call check_refused(status, quarry_bad_argument, "there is an allocator 'first'", &
      'make with a name in use')
    call first_pool%id(second)
    call check(first /= second, 'a failed make changes nothing')
    call quarry_destroy('second')
    call first_pool%make('second', 'pool(host)')
    call first_pool%id(second, status)
    call check(status == quarry_ok, 'make after quarry_destroy')
    call first_pool%create(-7, status=status)
    call check_refused(status, quarry_bad_argument, 'resource', 'create with an invalid resource')
    call first_pool%id(first)
    call check(first == second, 'a failed create changes nothing')
    call first_pool%create(quarry_host)
    call first_pool%id(second)
    call check(first /= second, 'create after make')
    call first_pool%destroy()
    call quarry_destroy('first')
    call quarry_destroy('second')
  end subroutine

  ! A pool without a name is reachable only through its variable.
  subroutine pools_without_names_are_not_lost()
    type(quarry_pool) :: named, pool
    type(c_ptr) :: memory
    integer(int32) :: number, same
    integer :: status

    call named%make('named', 'host')
    call named%allocate(memory, 100_int64)
    call pool%create(quarry_host)
    call pool%id(number)
    call pool%lookup('named', status)
    call check_refused(status, quarry_bad_argument, 'lookup: this is a pool without a name', &
      'lookup')
    call pool%owner_of(memory, status)
    call check_refused(status, quarry_bad_argument, 'owner_of: this is a pool without a name', &
      'owner_of')
    call pool%make('other', 'host', status)
    call check_refused(status, quarry_bad_argument, 'make: this is a pool without a name', 'make')
    call pool%create(quarry_host, status=status)
    call check_refused(status, quarry_bad_argument, 'create: this is a pool without a name', &
      'create')
    call pool%id(same)
    call check(same == number, 'a refused call changes nothing')
    call pool%destroy()
    call pool%lookup('named')
    call pool%owner_of(memory)
    call pool%id(number)
    call named%id(same)
    call check(same == number, 'a destroyed pool may stand for another')
    call quarry_destroy('named', discards=.true.)
  end subroutine

  subroutine memory_is_freed_by_its_address()
    type(quarry_pool) :: first, second, owner
    type(c_ptr) :: memory, copy
    type(quarry_record) :: record
    integer(int32) :: number
    integer :: status

    call first%make('one', 'pool(host, first_block=1MiB)')
    call second%make('two', 'host')
    call first%allocate(memory, 100_int64)
    call quarry_fill(memory, 7, 100_int64)
    call quarry_reallocate(memory, 1000_int64)
    call quarry_find(memory, record)
    call first%id(number)
    call check(record%size == 1000 .and. record%allocator == number, &
      'reallocated in the same allocator')
    call quarry_move(memory, second)
    call owner%owner_of(memory)
    call quarry_find(memory, record)
    call owner%id(number)
    call check(record%size == 1000 .and. record%allocator == number, 'moved to the other allocator')
    call quarry_reallocate(memory, -1_int64, status)
    call check_refused(status, quarry_bad_argument, 'is negative', 'a negative size')
    copy = memory
    call quarry_deallocate(memory)
    call check(.not. c_associated(memory), 'freed memory is null')
    call quarry_deallocate(memory, status)
    call check(status == quarry_ok, 'null is ignored')
    call quarry_deallocate(copy, status)
    call check_refused(status, quarry_bad_argument, 'is in no allocation', &
      'a double free by the address')
    call quarry_reallocate(memory, 10_int64, status)
    call check_refused(status, quarry_bad_argument, 'nullptr', 'reallocate null')
    call quarry_destroy('one')
    call second%allocate(memory, 10_int64)
    call quarry_destroy('two', discards=.true.)
  end subroutine

  subroutine check_no_allocation_is_left(pool, fact)
    type(quarry_pool), intent(in) :: pool
    character(*), intent(in) :: fact
    type(quarry_pool_counts) :: counts

    call pool%release()
    call pool%counts(counts)
    call check(counts%allocated == 0 .and. counts%allocations_in_use == 0 .and. &
      counts%reserved == 0, fact // ': no allocation is left')
  end subroutine

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

  subroutine arrays_of_each_type_and_rank_work()
    type(quarry_pool) :: pool
    type(quarry_pool_counts) :: counts
    real(real64), pointer :: a1(:), a2(:, :), a3(:, :, :)
    real(real32), pointer :: b1(:), b2(:, :), b3(:, :, :)
    integer(int32), pointer :: c1(:), c2(:, :), c3(:, :, :)
    integer(int64), pointer :: d1(:), d2(:, :), d3(:, :, :)
    integer(int64), parameter :: n(3) = [2_int64, 3_int64, 5_int64]

    call pool%create(quarry_host)
    call pool%allocate(a1, [2])
    call pool%allocate(b1, n(:1))
    call pool%allocate(c1, [2])
    call pool%allocate(d1, n(:1))
    call pool%allocate(a2, n(:2))
    call pool%allocate(b2, [2, 3])
    call pool%allocate(c2, n(:2))
    call pool%allocate(d2, [2, 3])
    call pool%allocate(a3, [2, 3, 5])
    call pool%allocate(b3, n)
    call pool%allocate(c3, [2, 3, 5])
    call pool%allocate(d3, n)
    call check(all([size(a1), size(b1), size(c1), size(d1)] == 2), 'extents of rank 1')
    call check(all([shape(a2), shape(b2), shape(c2), shape(d2)] == [2, 3, 2, 3, 2, 3, 2, 3]), &
      'extents of rank 2')
    call check(all([shape(a3), shape(b3), shape(c3), shape(d3)] == &
      [2, 3, 5, 2, 3, 5, 2, 3, 5, 2, 3, 5]), 'extents of rank 3')
    call check(all([lbound(a1), lbound(b2), lbound(c3), lbound(d3)] == 1), 'lower bounds')
    call pool%counts(counts)
    call check(counts%allocated == (8 + 4 + 4 + 8) * (2 + 6 + 30) .and. &
      counts%allocations_in_use == 12, 'counts of twelve arrays')
    ! Sets all arrays before it checks any: the arrays must not overlap.
    a1 = 1
    b1 = 2
    c1 = 3
    d1 = 4
    a2 = 5
    b2 = 6
    c2 = 7
    d2 = 8
    a3 = 9
    b3 = 10
    c3 = 11
    d3 = 12
    call check(nint(sum(a1) + sum(b1)) == 6 .and. sum(c1) + sum(d1) == 14, 'values of rank 1')
    call check(nint(sum(a2) + sum(b2)) == 66 .and. sum(c2) + sum(d2) == 90, 'values of rank 2')
    call check(nint(sum(a3) + sum(b3)) == 570 .and. sum(c3) + sum(d3) == 690, 'values of rank 3')
    call pool%deallocate(a1)
    call pool%deallocate(b1)
    call pool%deallocate(c1)
    call pool%deallocate(d1)
    call pool%deallocate(a2)
    call pool%deallocate(b2)
    call pool%deallocate(c2)
    call pool%deallocate(d2)
    call pool%deallocate(a3)
    call pool%deallocate(b3)
    call pool%deallocate(c3)
    call pool%deallocate(d3)
    call check(.not. (associated(a1) .or. associated(b1) .or. associated(c1) .or. &
      associated(d1)), 'freed, rank 1')
    call check(.not. (associated(a2) .or. associated(b2) .or. associated(c2) .or. &
      associated(d2)), 'freed, rank 2')
    call check(.not. (associated(a3) .or. associated(b3) .or. associated(c3) .or. &
      associated(d3)), 'freed, rank 3')
    call check_no_allocation_is_left(pool, 'twelve arrays')
    call pool%destroy()
  end subroutine

  subroutine empty_arrays_work()
    type(quarry_pool) :: pool
    type(quarry_pool_counts) :: counts
    real(real64), pointer :: line(:)
    real(real32), pointer :: plane(:, :)
    integer(int64), pointer :: box(:, :, :)
    integer :: status

    call pool%create(quarry_host)
    call pool%allocate(line, [0], status)
    call check(status == quarry_ok .and. associated(line) .and. size(line) == 0, 'an empty line')
    call pool%allocate(plane, [7, 0], status)
    call check(status == quarry_ok .and. all(shape(plane) == [7, 0]), 'an empty plane')
    call pool%allocate(box, [4, 0, 9], status)
    call check(status == quarry_ok .and. all(shape(box) == [4, 0, 9]), 'an empty box')
    line = 1
    plane = 1
    call check(sum(box) == 0, 'an empty sum')
    call pool%counts(counts)
    call check(counts%allocations_in_use == 0, 'empty arrays take no memory')
    call pool%deallocate(line, status)
    call check(status == quarry_ok .and. .not. associated(line), 'an empty line is freed')
    call pool%deallocate(line, status)
    call check(status == quarry_ok, 'a null line is ignored')
    call pool%deallocate(plane, status)
    call check(status == quarry_ok .and. .not. associated(plane), 'an empty plane is freed')
    call pool%deallocate(box, status)
    call check(status == quarry_ok .and. .not. associated(box), 'an empty box is freed')
    call check_no_allocation_is_left(pool, 'empty arrays')
    call pool%destroy()
  end subroutine

  subroutine bad_extents_are_refused()
    type(quarry_pool) :: pool
    real(real64), pointer :: line(:), plane(:, :)
    integer(int32), pointer :: box(:, :, :)
    ! the smallest number whose square exceeds int64
    integer(int64), parameter :: root = 3037000500_int64
    integer :: status

    call pool%create(quarry_host)
    call pool%allocate(line, [-1], status)
    call check_refused(status, quarry_bad_argument, 'an extent of -1 is negative', &
      'a negative extent')
    call check(.not. associated(line), 'a negative extent returns null')
    ! The product of the extents is positive.
    call pool%allocate(plane, [-3, -5], status)
    call check_refused(status, quarry_bad_argument, 'an extent of -3 x -5 is negative', &
      'two negative extents')
    call pool%allocate(plane, [0, -5], status)
    call check_refused(status, quarry_bad_argument, '0 x -5', 'a negative extent of an empty array')
    call pool%allocate(plane, [root, root], status)
    call check_refused(status, quarry_bad_argument, &
      '3037000500 x 3037000500 elements of 8 bytes', 'too many elements')
    call check(.not. associated(plane), 'too many elements return null')
    ! An int64 can hold the number of elements, but not the number of bytes.
    call pool%allocate(line, [2_int64**60], status)
    call check_refused(status, quarry_bad_argument, 'more than 9223372036854775807 bytes', &
      'too many bytes')
    call pool%allocate(box, [2_int64**32, 2_int64**32, 0_int64], status)
    call check_refused(status, quarry_bad_argument, '4294967296 x 4294967296 x 0', &
      'strides that overflow')
    call pool%allocate(box, [0_int64, 2_int64**32, 2_int64**32], status)
    call check(status == quarry_ok .and. size(box, 3, int64) == 2_int64**32, 'strides of 0')
    call pool%deallocate(box)
    call pool%allocate(box, [2, 3], status)
    call check_refused(status, quarry_bad_argument, '2 extents for an array of rank 3', &
      'too few extents')
    call pool%allocate(line, [2_int64**60 - 1], status)
    call check_refused(status, quarry_out_of_memory, '9223372036854775800', &
      'the most that can be asked for')
    call check(.not. associated(line), 'too large returns null')
    call check_no_allocation_is_left(pool, 'refusals')
    call pool%destroy()
  end subroutine

  subroutine wrong_addresses_are_refused()
    type(quarry_pool) :: pool, other
    type(quarry_pool_counts) :: counts
    type(quarry_record) :: record
    integer(int64), pointer :: numbers(:), same(:), part(:), foreign(:)
    integer(int64), target :: local(4)
    integer(int64) :: size_there
    integer :: status

    call pool%create(quarry_host)
    call other%create(quarry_host)
    call pool%allocate(numbers, [100])
    same => numbers
    part => numbers(2:)
    foreign => local
    call pool%deallocate(part, status)
    call check_refused(status, quarry_not_in_use, 'not in use', 'a part of an array')
    call check(associated(part), 'a refused array stays associated')
    call pool%deallocate(foreign, status)
    call check_refused(status, quarry_not_in_use, 'not in use', 'foreign memory')
    call other%deallocate(numbers, status)
    call check_refused(status, quarry_not_in_use, 'not in use', 'an array of another pool')
    size_there = 99
    call pool%size_of(c_loc(local), size_there, status)
    call check_refused(status, quarry_not_in_use, 'size_of', 'the size at an unknown address')
    call check(size_there == 0, 'the size is 0')
    call quarry_find(c_loc(local), record, status)
    call check_refused(status, quarry_not_in_use, 'quarry_find', 'a record of an unknown address')
    call check(record%size == 0 .and. .not. c_associated(record%base), 'an empty record')
    call pool%label(c_loc(local), 'own', status)
    call check_refused(status, quarry_not_in_use, 'label', 'a name for an unknown address')
    call pool%deallocate(numbers, status)
    call check(status == quarry_ok, 'the array itself is freed')
    call pool%deallocate(same, status)
    call check_refused(status, quarry_not_in_use, 'not in use', 'a double free')
    call pool%counts(counts)
    call check(counts%invalid_frees == 3, 'refusals are counted')
    call check_no_allocation_is_left(pool, 'wrong addresses')
    call other%destroy()
    call pool%destroy()
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

  subroutine arrays_may_be_contiguous_or_have_other_bounds()
    type(quarry_pool) :: pool
    real(real64), pointer, contiguous :: plane(:, :)
    real(real64), pointer :: shifted(:, :)
    integer :: status

    call pool%create(quarry_host)
    call pool%allocate(plane, [3, 4])
    plane = 2
    shifted(-1:, 0:) => plane
    call check(nint(shifted(1, 3)) == 2, 'the last element by other bounds')
    nullify (plane)
    call pool%deallocate(shifted, status)
    call check(status == quarry_ok, 'an array with other bounds is freed')
    call check_no_allocation_is_left(pool, 'other bounds')
    call pool%destroy()
  end subroutine

  ! The number of elements wraps around to 0 in default integers. The test touches few of the pages.
  subroutine large_arrays_are_freed()
    type(quarry_pool) :: pool
    integer(int32), pointer :: line(:)
    integer :: status

    call pool%create(quarry_host)
    call pool%allocate(line, [2_int64**32], status)
    if (status == quarry_ok) then
      line(2_int64**32) = 7
      call check(size(line, kind=int64) == 2_int64**32, 'the size of a large array')
    else
      call check(status == quarry_out_of_memory, 'a large array is out of memory')
    end if
    call pool%deallocate(line, status)
    call check(status == quarry_ok, 'a large array is freed')
    call check_no_allocation_is_left(pool, 'a large array')
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

  subroutine records_labels_and_reports_work()
    type(quarry_pool) :: pool
    type(quarry_pool_options) :: options
    type(quarry_record) :: record
    real(real64), pointer :: plane(:, :)
    integer(int32) :: id
    integer :: status

    options%name = 'plain fields   '
    call pool%create(quarry_host, options)
    call pool%allocate(plane, [10, 20])
    call pool%id(id)
    call quarry_find(c_loc(plane(10, 20)), record)
    call check(record%allocator == id .and. id > 0, 'the pool of the record of the last element')
    call check(c_associated(record%base, c_loc(plane(1, 1))) .and. record%size == 1600, &
      'the range of the record')
    call check(record%resource == quarry_host .and. record%device == 0, &
      'the resource of the record')
    call pool%label(c_loc(plane(1, 1)), 'velocity  ')
    call quarry_report(text_file)
    call check(has_line('1600 bytes  velocity'), 'the report has the name of the array')
    call check(has_line('plain fields (allocator'), 'the report has the name of the pool')
    call remove_text_file()
    call quarry_report('/nonexistent/report', status)
    call check_refused(status, quarry_resource_failed, '/nonexistent/report', &
      'a report to a missing directory')
    call pool%deallocate(plane)
    call check_no_allocation_is_left(pool, 'records')
    call pool%destroy()
  end subroutine

  subroutine copies_and_fills_work()
    type(quarry_pool) :: pool
    integer(int32), pointer :: source(:), destination(:)
    integer :: status

    call pool%create(quarry_host)
    call pool%allocate(source, [100])
    call pool%allocate(destination, [100])
    call quarry_fill(c_loc(source(1)), 1, 400_int64)
    call check(all(source == 16843009), 'a fill')
    destination = 0
    call quarry_copy(c_loc(destination(51)), c_loc(source(1)), 200_int64)
    call check(all(destination(:50) == 0) .and. all(destination(51:) == 16843009), &
      'a copy into the midst')
    call quarry_copy(c_loc(destination(51)), c_loc(source(1)), 201_int64, status)
    call check_refused(status, quarry_bad_argument, '1 more', 'a copy beyond the end')
    call quarry_copy(c_loc(destination(1)), c_loc(source(1)), -1_int64, status)
    call check_refused(status, quarry_bad_argument, '-1 bytes is negative', 'a negative copy')
    call quarry_fill(c_loc(destination(1)), 0, -1_int64, status)
    call check_refused(status, quarry_bad_argument, '-1 bytes is negative', 'a negative fill')
    call quarry_fill(c_loc(destination(1)), 256, 400_int64, status)
    call check_refused(status, quarry_bad_argument, '256 is no byte', &
      'a fill value that is no byte')
    call quarry_fill(c_null_ptr, 0, 1_int64, status)
    call check(status == quarry_bad_argument, 'a fill of the null address')
    call check(all(destination(51:) == 16843009), 'refused calls change no memory')
    call pool%deallocate(source)
    call pool%deallocate(destination)
    call check_no_allocation_is_left(pool, 'copies')
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

  logical function has_line(part)
    character(*), intent(in) :: part
    character(1024) :: line
    integer :: unit, ended

    has_line = .false.
    open (newunit=unit, file=text_file, status='old', action='read', iostat=ended)
    if (ended /= 0) return
    do
      read (unit, '(a)', iostat=ended) line
      if (ended /= 0) exit
      has_line = has_line .or. index(line, part) > 0
    end do
    close (unit)
  end function

  subroutine remove_text_file()
    integer :: unit, status

    open (newunit=unit, file=text_file, status='old', iostat=status)
    if (status == 0) close (unit, status='delete')
  end subroutine

end program
