! SPDX-License-Identifier: Apache-2.0
! Allocators with names, and memory of any allocator.
module fortran_allocators
  use, intrinsic :: iso_c_binding, only: c_associated, c_loc, c_null_ptr, c_ptr
  use, intrinsic :: iso_fortran_env, only: int32, int64, real64
  use quarry
  use fortran_checks
  implicit none
  private

  public :: allocators_have_names, variables_of_named_pools_are_reusable, &
    pools_without_names_are_not_lost, memory_is_freed_by_its_address, &
    records_labels_and_reports_work, copies_and_fills_work

contains

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

end module
