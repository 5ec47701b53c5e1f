! SPDX-License-Identifier: Apache-2.0
! Arrays of each type and rank.
module fortran_arrays
  use, intrinsic :: iso_c_binding, only: c_associated, c_loc
  use, intrinsic :: iso_fortran_env, only: int32, int64, real32, real64
  use quarry
  use fortran_checks
  implicit none
  private

  public :: arrays_of_each_type_and_rank_work, empty_arrays_work, bad_extents_are_refused, &
    wrong_addresses_are_refused, arrays_may_be_contiguous_or_have_other_bounds, &
    large_arrays_are_freed

contains

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

end module
