! SPDX-License-Identifier: Apache-2.0
! Allocators by their names, and memory of any pool or allocator by its address.
module quarry_memory
  use, intrinsic :: iso_c_binding, only: c_int, c_null_ptr, c_ptr
  use, intrinsic :: iso_fortran_env, only: int64
  use quarry_c
  use quarry_calls
  implicit none
  private

  public :: quarry_add_alias, quarry_remove_alias, quarry_destroy
  public :: quarry_deallocate, quarry_reallocate, quarry_find, quarry_copy, quarry_fill, &
    quarry_report

contains

  ! Gives an allocator a second name. Fails with quarry_bad_argument if there is no allocator
  ! `name`, or if `alias` is in use.
  subroutine quarry_add_alias(alias, name, status)
    character(*), intent(in) :: alias
    character(*), intent(in) :: name
    integer, intent(out), optional :: status

    call finish_call(c_allocator_add_alias(c_text(alias), c_text(name)), status)
  end subroutine

  ! Removes a second name. Fails with quarry_bad_argument if `alias` is not an alias.
  subroutine quarry_remove_alias(alias, status)
    character(*), intent(in) :: alias
    integer, intent(out), optional :: status

    call finish_call(c_allocator_remove_alias(c_text(alias)), status)
  end subroutine

  ! Destroys the allocator of that name with its aliases. Fails with quarry_bad_argument and changes
  ! nothing if there is no such allocator, if a pool takes its blocks from the allocator, or if its
  ! memory was not freed and `discards` is not true.
  subroutine quarry_destroy(name, discards, status)
    character(*), intent(in) :: name
    logical, intent(in), optional :: discards
    integer, intent(out), optional :: status
    integer(c_int) :: is_discarded

    is_discarded = 0
    if (present(discards)) is_discarded = merge(1_c_int, 0_c_int, discards)
    call finish_call(c_allocator_destroy(c_text(name), is_discarded), status)
  end subroutine

  ! Frees an allocation of any named allocator and sets `memory` to null. Null is ignored. Fails
  ! with quarry_bad_argument and changes nothing if `memory` is not the base address of such an
  ! allocation.
  subroutine quarry_deallocate(memory, status)
    type(c_ptr), intent(inout) :: memory
    integer, intent(out), optional :: status
    integer(c_int) :: code

    code = c_deallocate(memory)
    if (code == quarry_ok) memory = c_null_ptr
    call finish_call(code, status)
  end subroutine

  ! Resizes an allocation of a named allocator to `size` bytes: copies the contents to a new
  ! allocation of the same allocator, and sets `memory` to its address. Fails with
  ! quarry_bad_argument if `memory` is null or not the base address of such an allocation, or if the
  ! size is negative, and with quarry_out_of_memory. A failed call changes nothing.
  subroutine quarry_reallocate(memory, size, status)
    type(c_ptr), intent(inout) :: memory
    integer(int64), intent(in) :: size
    integer, intent(out), optional :: status
    type(c_ptr) :: moved
    integer(c_int) :: code

    if (size < 0) then
      call refuse('quarry_reallocate: the size of ' // trim(decimal(size)) // &
        ' bytes is negative', status)
      return
    end if
    code = c_reallocate(memory, size, moved)
    if (code == quarry_ok) memory = moved
    call finish_call(code, status)
  end subroutine

  ! Finds the allocation of any pool that contains `address`. Fails with quarry_not_in_use if no
  ! allocation contains it.
  subroutine quarry_find(address, record, status)
    type(c_ptr), intent(in) :: address
    type(quarry_record), intent(out) :: record
    integer, intent(out), optional :: status

    call finish_call(c_find(address, record), status)
  end subroutine

  ! Copies `size` bytes between any two allocations or parts of them. The copy is complete on
  ! return. Fails with quarry_bad_argument and accesses no memory if an address is in no allocation,
  ! or if fewer than `size` bytes follow it there.
  subroutine quarry_copy(target, source, size, status)
    type(c_ptr), intent(in) :: target
    type(c_ptr), intent(in) :: source
    integer(int64), intent(in) :: size
    integer, intent(out), optional :: status

    if (size < 0) then
      call refuse('quarry_copy: the size of ' // trim(decimal(size)) // ' bytes is negative', &
        status)
    else
      call finish_call(c_copy(target, source, size), status)
    end if
  end subroutine

  ! Sets `size` bytes of an allocation to `value`, from 0 to 255. The work is complete on return.
  ! Fails as quarry_copy does, and if `value` is out of range.
  subroutine quarry_fill(memory, value, size, status)
    type(c_ptr), intent(in) :: memory
    integer(c_int), intent(in) :: value
    integer(int64), intent(in) :: size
    integer, intent(out), optional :: status

    if (size < 0) then
      call refuse('quarry_fill: the size of ' // trim(decimal(size)) // ' bytes is negative', &
        status)
    else
      call finish_call(c_fill(memory, value, size), status)
    end if
  end subroutine

  ! Writes a line for each allocation in use and each allocator to the file `path`, or to standard
  ! error if there is no `path`. Fails with quarry_resource_failed if the file cannot be written.
  subroutine quarry_report(path, status)
    character(*), intent(in), optional :: path
    integer, intent(out), optional :: status

    if (present(path)) then
      call finish_call(c_report(c_text(path)), status)
    else
      call finish_call(c_report(), status)
    end if
  end subroutine

end module
