! SPDX-License-Identifier: Apache-2.0
! A host pool in Fortran: arrays in the pool, and the record of the array that contains an address.
program host_pools_fortran
  use, intrinsic :: iso_c_binding, only: c_loc
  use, intrinsic :: iso_fortran_env, only: int32, int64, real64
  use quarry
  implicit none

  integer, parameter :: columns = 1000, rows = 500
  type(quarry_pool) :: pool
  type(quarry_pool_options) :: options
  type(quarry_pool_counts) :: counts
  type(quarry_record) :: record
  real(real64), pointer :: field(:, :), scratch(:), too_large(:, :)
  integer(int32) :: id
  integer :: status, row

  options%name = 'fields'
  options%max_bytes = 2_int64**30
  call pool%create(quarry_host, options)  ! without a status argument a failure ends the program

  call pool%allocate(field, [columns, rows])
  call pool%allocate(scratch, [columns])
  scratch = 1.5_real64
  do row = 1, rows
    field(:, row) = row * scratch
  end do
  call check(abs(sum(field) - 1.5_real64 * columns * rows * (rows + 1) / 2) < 1.0_real64, &
    'the sum of the field')
  call pool%deallocate(scratch)
  call check(.not. associated(scratch), 'a freed array is null')

  call pool%label(c_loc(field(1, 1)), 'density')
  call quarry_find(c_loc(field(17, 200)), record)
  call pool%id(id)
  print '(a, i0, a, i0)', 'the element is in ', record%size, ' bytes of allocator ', &
    record%allocator
  call check(record%size == 8_int64 * columns * rows .and. record%allocator == id, &
    'the record of an element')

  call pool%counts(counts)
  print '(i0, a, i0, a)', counts%allocated, ' bytes allocated of ', counts%reserved, ' reserved'
  call check(counts%allocated == record%size .and. counts%allocations_in_use == 1, 'the counts')
  call quarry_report()

  call pool%allocate(too_large, [100000, 100000], status)
  call check(status == quarry_out_of_memory .and. .not. associated(too_large), 'a refusal')
  print '(a)', quarry_last_error()

  call pool%deallocate(field)
  call pool%release()
  call pool%counts(counts)
  call check(counts%allocated == 0 .and. counts%reserved == 0, 'no memory is left')
  call pool%destroy()

contains

  subroutine check(is_right, condition)
    logical, intent(in) :: is_right
    character(*), intent(in) :: condition

    if (.not. is_right) error stop 'wrong: ' // condition
  end subroutine

end program
