! SPDX-License-Identifier: Apache-2.0
! Memory that processes share by name. Programs use the module quarry.
module quarry_segments
  use, intrinsic :: iso_c_binding, only: c_associated, c_int, c_null_ptr, c_ptr
  use, intrinsic :: iso_fortran_env, only: int64
  use quarry_c
  use quarry_calls
  implicit none
  private

  public :: quarry_segment

  ! One opening of a segment. The segment is removed when the last process has closed it. Offsets
  ! are the same in all processes; addresses are not. The type is a handle, as quarry_pool is.
  ! Trailing blanks of names are ignored.
  type :: quarry_segment
    private
    type(c_ptr) :: handle = c_null_ptr
  contains
    procedure, public :: open => open_segment
    procedure, public :: close => close_segment
    procedure, public :: allocate => allocate_name
    procedure, public :: find
    procedure, public :: release
    procedure, public :: offset_of
    procedure, public :: at
  end type

contains

  ! Opens segment `name`, or makes it with `size` bytes. Size 0, or no size, opens an existing
  ! segment. Fails with quarry_bad_argument if the size is negative, or if `segment` is already
  ! open. Fails with quarry_resource_failed if the system refuses. A failed call does not change
  ! `segment`.
  subroutine open_segment(segment, name, size, status)
    class(quarry_segment), intent(inout) :: segment
    character(*), intent(in) :: name
    integer(int64), intent(in), optional :: size
    integer, intent(out), optional :: status
    type(c_ptr) :: handle
    integer(int64) :: wanted
    integer(c_int) :: code

    wanted = 0
    if (present(size)) wanted = size
    if (wanted < 0) then
      call refuse('quarry_segment open: the size of ' // trim(decimal(wanted)) // &
        ' bytes is negative', status)
      return
    end if
    if (c_associated(segment%handle)) then
      call refuse('quarry_segment open: this is an open segment; close it first', status)
      return
    end if
    code = c_segment_open(c_text(name), wanted, handle)
    if (code == quarry_ok) segment%handle = handle
    call finish_call(code, status)
  end subroutine

  ! Drops the references of this opening and closes the segment. Does nothing if `segment` is null.
  subroutine close_segment(segment, status)
    class(quarry_segment), intent(inout) :: segment
    integer, intent(out), optional :: status
    type(c_ptr) :: handle

    handle = segment%handle
    segment%handle = c_null_ptr
    call finish_call(c_segment_close(handle), status)
  end subroutine

  ! Returns the memory of that name and adds a reference. New memory is zeroed. `memory` is null
  ! unless quarry_ok.
  subroutine allocate_name(segment, memory, name, size, status)
    class(quarry_segment), intent(in) :: segment
    type(c_ptr), intent(out) :: memory
    character(*), intent(in) :: name
    integer(int64), intent(in) :: size
    integer, intent(out), optional :: status

    memory = c_null_ptr
    if (size < 0) then
      call refuse('quarry_segment allocate: the size of ' // trim(decimal(size)) // &
        ' bytes is negative', status)
    else
      call finish_call(c_segment_allocate(segment%handle, c_text(name), size, memory), status)
    end if
  end subroutine

  ! The same for an existing name. Fails with quarry_not_in_use and sets `memory` to null if the
  ! name does not exist.
  subroutine find(segment, memory, name, status)
    class(quarry_segment), intent(in) :: segment
    type(c_ptr), intent(out) :: memory
    character(*), intent(in) :: name
    integer, intent(out), optional :: status

    call finish_call(c_segment_find(segment%handle, c_text(name), memory), status)
  end subroutine

  ! Drops a reference and sets `memory` to null. Fails with quarry_not_in_use and changes nothing if
  ! this opening has no reference to the memory.
  subroutine release(segment, memory, status)
    class(quarry_segment), intent(in) :: segment
    type(c_ptr), intent(inout) :: memory
    integer, intent(out), optional :: status
    integer(c_int) :: code

    code = c_segment_release(segment%handle, memory)
    if (code == quarry_ok) memory = c_null_ptr
    call finish_call(code, status)
  end subroutine

  ! The offset of `memory` in the segment, in bytes. Fails with quarry_bad_argument and sets
  ! `offset` to 0 if `memory` lies outside of the segment.
  subroutine offset_of(segment, memory, offset, status)
    class(quarry_segment), intent(in) :: segment
    type(c_ptr), intent(in) :: memory
    integer(int64), intent(out) :: offset
    integer, intent(out), optional :: status

    offset = 0
    call finish_call(c_segment_offset_of(segment%handle, memory, offset), status)
  end subroutine

  ! The address of that offset in this process. Fails with quarry_bad_argument and sets `memory` to
  ! null if the offset lies outside of the segment.
  subroutine at(segment, offset, memory, status)
    class(quarry_segment), intent(in) :: segment
    integer(int64), intent(in) :: offset
    type(c_ptr), intent(out) :: memory
    integer, intent(out), optional :: status

    memory = c_null_ptr
    if (offset < 0) then
      call refuse('quarry_segment at: the offset ' // trim(decimal(offset)) // ' is negative', &
        status)
    else
      call finish_call(c_segment_at(segment%handle, offset, memory), status)
    end if
  end subroutine

end module
