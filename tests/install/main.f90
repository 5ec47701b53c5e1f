! SPDX-License-Identifier: Apache-2.0
! A user's Fortran program: arrays of a pool, and a segment.
program quarry_user_fortran
  use, intrinsic :: iso_fortran_env, only: int64, real64
  use quarry
  implicit none

  type(quarry_pool) :: pool
  type(quarry_segment) :: segment
  real(real64), pointer :: field(:, :)
  integer :: status

  if (quarry_version() <= 0 .or. len(quarry_version_text()) < 5) error stop 'the version is wrong'
  call pool%create(quarry_host)
  call pool%allocate(field, [10, 20])
  field = 1.5_real64
  call pool%deallocate(field)
  call pool%destroy()
  call segment%open('', 1_int64, status)
  if (status == quarry_ok) error stop 'a segment without a name was opened'
end program
