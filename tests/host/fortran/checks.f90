! SPDX-License-Identifier: Apache-2.0
! Counts checks, and what several tests need.
module fortran_checks
  use, intrinsic :: iso_fortran_env, only: error_unit
  use quarry
  implicit none
  private

  public :: checked, failed, text_file, check, check_refused, check_no_allocation_is_left, &
    has_line, remove_text_file

  character(*), parameter :: text_file = 'quarry_fortran_test.txt'
  integer :: checked = 0, failed = 0

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

  subroutine check_no_allocation_is_left(pool, fact)
    type(quarry_pool), intent(in) :: pool
    character(*), intent(in) :: fact
    type(quarry_pool_counts) :: counts

    call pool%release()
    call pool%counts(counts)
    call check(counts%allocated == 0 .and. counts%allocations_in_use == 0 .and. &
      counts%reserved == 0, fact // ': no allocation is left')
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

end module
