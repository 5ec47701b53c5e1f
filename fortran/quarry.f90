! SPDX-License-Identifier: Apache-2.0
! Host pools for Fortran: typed arrays in a pool's memory, over the C API of quarry/host/c_api.h.
!
! Each procedure that may fail is a subroutine whose last argument is `status`, one of the quarry_*
! states below. If the caller omits `status`, a failure prints quarry_last_error() and ends the
! program by `error stop`. Sizes are bytes in integer(int64). Any thread may call all procedures;
! calls on one pool take turns.
module quarry
  use, intrinsic :: iso_c_binding, only: c_associated, c_f_pointer, c_int, c_loc, c_null_ptr, c_ptr
  use, intrinsic :: iso_fortran_env, only: int32, int64, real32, real64
  use quarry_c
  use quarry_calls
  use quarry_memory
  use quarry_segments
  use quarry_streams
  implicit none
  private

  public :: quarry_pool, quarry_stream_pool, quarry_segment, quarry_pool_options, &
    quarry_pool_counts, quarry_record
  public :: quarry_ok, quarry_out_of_memory, quarry_bad_argument, quarry_resource_failed, &
    quarry_not_in_use, quarry_internal, quarry_destroyed
  public :: quarry_host, quarry_device, quarry_pinned, quarry_managed, quarry_file, quarry_shared
  public :: quarry_pool_default_options, quarry_find, quarry_copy, quarry_fill, quarry_report, &
    quarry_last_error
  public :: quarry_version, quarry_version_text
  public :: quarry_add_alias, quarry_remove_alias, quarry_destroy, quarry_deallocate, &
    quarry_reallocate, quarry_move

  ! A handle of a pool, which `create` makes, or of a named allocator, which `make`, `lookup` or
  ! `owner_of` returns. A copy by `=` is a handle of the same pool. After a destroy, calls on all
  ! copies fail with quarry_destroyed. So handles are not finalised: a pool whose variable goes out
  ! of scope without `destroy` keeps its memory. A variable with a named allocator may get another
  ! allocator or a new pool at any time.
  !
  ! allocate(array, extents, status) and deallocate(array, status) take pointers of rank 1 to 3 to
  ! real64, real32, int32 and int64; allocate(memory, size, status) and deallocate(memory, status)
  ! take a type(c_ptr). The procedures have the comments.
  type :: quarry_pool
    private
    type(c_ptr) :: handle = c_null_ptr
    logical :: has_name = .false.                 ! the handle is that of a named allocator
  contains
    procedure, public :: create
    procedure, public :: make
    procedure, public :: lookup
    procedure, public :: owner_of
    procedure, public :: destroy
    procedure, public :: release
    procedure, public :: coalesce
    procedure, public :: size_of
    procedure, public :: counts
    procedure, public :: overruns
    procedure, public :: label
    procedure, public :: id
    procedure, private :: allocate_bytes
    procedure, private :: deallocate_bytes
    generic, public :: allocate => allocate_bytes
    generic, public :: deallocate => deallocate_bytes
    include 'quarry_array_bindings.inc'  ! more procedures of both generics
  end type

  ! The targets of arrays without elements. Such arrays take no memory of the pool, because c_loc
  ! returns no address by which they could be freed.
  real(real64), target :: no_real64(0)
  real(real32), target :: no_real32(0)
  integer(int32), target :: no_int32(0)
  integer(int64), target :: no_int64(0)

contains

  ! Makes a pool over `resource`, for instance quarry_host. Fails with quarry_bad_argument if an
  ! option is out of range, or if `pool` is already a pool without a name, which would be lost.
  ! Fails with quarry_resource_failed if the system refuses. A failed call does not change `pool`.
  subroutine create(pool, resource, options, status)
    class(quarry_pool), intent(inout) :: pool
    integer(c_int), intent(in) :: resource
    type(quarry_pool_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    type(c_pool_options) :: wanted
    type(option_texts), target :: texts
    type(c_ptr) :: handle
    integer(c_int) :: code

    if (would_lose_a_pool(pool, 'create', status)) return
    if (.not. present(options)) then
      code = c_pool_create(resource, pool=handle)
      call take_handle(pool, code, handle, .false., status)
      return
    end if
    if (.not. read_options('quarry_pool create', options, wanted, texts, status)) return
    code = c_pool_create(resource, wanted, handle)
    call take_handle(pool, code, handle, .false., status)
  end subroutine

  ! Makes an allocator from a text, such as 'pool(device(0), first_block=1GiB)', and gives it a
  ! name, by which any part of the program finds it. The C++ header allocators.hpp defines these
  ! texts. Trailing blanks are ignored. Fails with quarry_bad_argument if the name is in use, if the
  ! text is invalid, or if `pool` is a pool without a name. A failed call does not change `pool`.
  subroutine make(pool, name, description, status)
    class(quarry_pool), intent(inout) :: pool
    character(*), intent(in) :: name
    character(*), intent(in) :: description
    integer, intent(out), optional :: status
    type(c_ptr) :: handle
    integer(c_int) :: code

    if (would_lose_a_pool(pool, 'make', status)) return
    code = c_allocator_make(c_text(name), c_text(description), handle)
    call take_handle(pool, code, handle, .true., status)
  end subroutine

  ! Sets `pool` to the allocator of that name or alias. Fails with quarry_bad_argument if there is
  ! no such allocator, or if `pool` is a pool without a name. A failed call does not change `pool`.
  subroutine lookup(pool, name, status)
    class(quarry_pool), intent(inout) :: pool
    character(*), intent(in) :: name
    integer, intent(out), optional :: status
    type(c_ptr) :: handle
    integer(c_int) :: code

    if (would_lose_a_pool(pool, 'lookup', status)) return
    code = c_allocator_find(c_text(name), handle)
    call take_handle(pool, code, handle, .true., status)
  end subroutine

  ! Sets `pool` to the named allocator of the allocation that contains `address`. Fails with
  ! quarry_bad_argument if there is no such allocator, or if `pool` is a pool without a name. A
  ! failed call does not change `pool`.
  subroutine owner_of(pool, address, status)
    class(quarry_pool), intent(inout) :: pool
    type(c_ptr), intent(in) :: address
    integer, intent(out), optional :: status
    type(c_ptr) :: handle
    integer(c_int) :: code

    if (would_lose_a_pool(pool, 'owner_of', status)) return
    code = c_allocator_of(address, handle)
    call take_handle(pool, code, handle, .true., status)
  end subroutine

  ! Refuses to overwrite the handle of a pool without a name: only the variable and its copies have
  ! that handle.
  function would_lose_a_pool(pool, call_name, status) result(would)
    class(quarry_pool), intent(in) :: pool
    character(*), intent(in) :: call_name
    integer, intent(out), optional :: status
    logical :: would

    would = c_associated(pool%handle) .and. .not. pool%has_name
    if (would) call refuse('quarry_pool ' // call_name // &
      ': this is a pool without a name; destroy it first', status)
  end function

  subroutine take_handle(pool, code, handle, has_name, status)
    class(quarry_pool), intent(inout) :: pool
    integer(c_int), intent(in) :: code
    type(c_ptr), intent(in) :: handle
    logical, intent(in) :: has_name
    integer, intent(out), optional :: status

    if (code == quarry_ok) then
      pool%handle = handle
      pool%has_name = has_name
    end if
    call finish_call(code, status)
  end subroutine

  ! Moves an allocation to the named allocator `target`: copies the contents to a new allocation and
  ! sets `memory` to its address. Fails as quarry_reallocate does.
  subroutine quarry_move(memory, target, status)
    type(c_ptr), intent(inout) :: memory
    type(quarry_pool), intent(in) :: target
    integer, intent(out), optional :: status
    type(c_ptr) :: moved
    integer(c_int) :: code

    code = c_move(memory, target%handle, moved)
    if (code == quarry_ok) memory = moved
    call finish_call(code, status)
  end subroutine

  ! Destroys the pool and returns all its memory, including allocations in use: pointers to them
  ! become invalid. Does nothing if `pool` is null. Fails with quarry_destroyed if a copy was
  ! destroyed before; `pool` is null then, too. Fails with quarry_bad_argument if the pool has a
  ! name; quarry_destroy destroys it by that name.
  subroutine destroy(pool, status)
    class(quarry_pool), intent(inout) :: pool
    integer, intent(out), optional :: status
    type(c_ptr) :: handle

    if (pool%has_name) then
      call refuse('quarry_pool destroy: the pool has a name; call quarry_destroy with that', status)
      return
    end if
    handle = pool%handle
    pool%handle = c_null_ptr
    call finish_call(c_pool_destroy(handle), status)
  end subroutine

  ! Returns the blocks without allocations to the resource.
  subroutine release(pool, status)
    class(quarry_pool), intent(in) :: pool
    integer, intent(out), optional :: status

    if (pool%has_name) then
      call finish_call(c_allocator_release(pool%handle), status)
    else
      call finish_call(c_pool_release(pool%handle), status)
    end if
  end subroutine

  ! The same, then takes a block for the difference if less than `wanted` bytes are reserved. Fails
  ! with quarry_bad_argument if the pool has no name, or if `wanted` is negative.
  subroutine coalesce(pool, wanted, status)
    class(quarry_pool), intent(in) :: pool
    integer(int64), intent(in) :: wanted
    integer, intent(out), optional :: status

    if (.not. pool%has_name) then
      call refuse( &
        'quarry_pool coalesce: this is a pool without a name; release returns its blocks', status)
    else if (wanted < 0) then
      call refuse('quarry_pool coalesce: the size of ' // trim(decimal(wanted)) // &
        ' bytes is negative', status)
    else
      call finish_call(c_allocator_coalesce(pool%handle, wanted), status)
    end if
  end subroutine

  ! Sets `size` to the requested bytes of the allocation with the base address `memory`. Fails with
  ! quarry_not_in_use and sets `size` to 0 if the pool has no such allocation.
  subroutine size_of(pool, memory, size, status)
    class(quarry_pool), intent(in) :: pool
    type(c_ptr), intent(in) :: memory
    integer(int64), intent(out) :: size
    integer, intent(out), optional :: status

    size = 0
    if (pool%has_name) then
      call finish_call(c_allocator_size_of(pool%handle, memory, size), status)
    else
      call finish_call(c_pool_size_of(pool%handle, memory, size), status)
    end if
  end subroutine

  ! The counts of the pool; zeros if the call fails. For a named allocator the counts of blocks are
  ! 0.
  subroutine counts(pool, counted, status)
    class(quarry_pool), intent(in) :: pool
    type(quarry_pool_counts), intent(out) :: counted
    integer, intent(out), optional :: status
    type(c_allocator_counts) :: named
    integer(c_int) :: code

    if (.not. pool%has_name) then
      call finish_call(c_pool_get_counts(pool%handle, counted), status)
      return
    end if
    code = c_allocator_get_counts(pool%handle, named)
    counted%reserved = named%reserved
    counted%peak_reserved = named%peak_reserved
    counted%allocated = named%allocated
    counted%peak_allocated = named%peak_allocated
    counted%allocations_in_use = named%allocations_in_use
    counted%invalid_frees = named%invalid_frees
    call finish_call(code, status)
  end subroutine

  ! The number of frees whose red zone had been overwritten; 0 if the call fails.
  subroutine overruns(pool, count, status)
    class(quarry_pool), intent(in) :: pool
    integer(int64), intent(out) :: count
    integer, intent(out), optional :: status

    count = 0
    call finish_call(c_pool_get_overruns(pool%handle, count), status)
  end subroutine

  ! Labels an allocation for reports until it is freed. Trailing blanks are ignored. Fails with
  ! quarry_not_in_use if `memory` is not an allocation of this pool.
  subroutine label(pool, memory, name, status)
    class(quarry_pool), intent(in) :: pool
    type(c_ptr), intent(in) :: memory
    character(*), intent(in) :: name
    integer, intent(out), optional :: status

    if (pool%has_name) then
      call finish_call(c_allocator_label(pool%handle, memory, c_text(name)), status)
    else
      call finish_call(c_pool_label(pool%handle, memory, c_text(name)), status)
    end if
  end subroutine

  ! The pool's id in records; 0 if the call fails.
  subroutine id(pool, number, status)
    class(quarry_pool), intent(in) :: pool
    integer(int32), intent(out) :: number
    integer, intent(out), optional :: status

    number = 0
    if (pool%has_name) then
      call finish_call(c_allocator_id(pool%handle, number), status)
    else
      call finish_call(c_pool_id(pool%handle, number), status)
    end if
  end subroutine

  ! Allocates `size` bytes. `memory` is null unless quarry_ok. Size 0 returns a unique address.
  ! Fails with quarry_out_of_memory if the resource or the pool's limit refuses, and with
  ! quarry_bad_argument if the size is negative.
  subroutine allocate_bytes(pool, memory, size, status)
    class(quarry_pool), intent(in) :: pool
    type(c_ptr), intent(out) :: memory
    integer(int64), intent(in) :: size
    integer, intent(out), optional :: status

    memory = c_null_ptr
    if (size < 0) then
      call refuse('quarry_pool allocate: the size of ' // trim(decimal(size)) // &
        ' bytes is negative', status)
    else
      call finish_call(c_allocate(pool, size, memory), status)
    end if
  end subroutine

  ! Frees an allocation and sets `memory` to null. Null is ignored. Fails with quarry_not_in_use and
  ! changes nothing if `memory` is not an allocation of this pool.
  subroutine deallocate_bytes(pool, memory, status)
    class(quarry_pool), intent(in) :: pool
    type(c_ptr), intent(inout) :: memory
    integer, intent(out), optional :: status
    logical :: is_freed

    call free_memory(pool, memory, is_freed, status)
    if (is_freed) memory = c_null_ptr
  end subroutine

  include 'quarry_arrays.inc'  ! from array_procedures.f90.in

  ! Allocates memory for an array of `rank` extents with elements of `element` bytes. `memory` is
  ! null after a failure, and if the array `is_empty`, which is not a failure.
  subroutine allocate_elements(pool, rank, extents, element, memory, is_empty, status)
    class(quarry_pool), intent(in) :: pool
    integer, intent(in) :: rank
    integer(int64), intent(in) :: extents(:)
    integer(int64), intent(in) :: element
    type(c_ptr), intent(out) :: memory
    logical, intent(out) :: is_empty
    integer, intent(out), optional :: status
    integer(int64) :: bytes
    integer :: dimension

    memory = c_null_ptr
    is_empty = .false.
    if (size(extents) /= rank) then
      call refuse('quarry_pool allocate: ' // trim(decimal(size(extents, kind=int64))) // &
        ' extents for an array of rank ' // trim(decimal(int(rank, int64))), status)
      return
    end if
    if (any(extents < 0)) then
      call refuse('quarry_pool allocate: an extent of ' // trim(product_text(extents)) // &
        ' is negative', status)
      return
    end if
    bytes = element
    do dimension = 1, rank
      ! An extent of 0 does not allow larger extents before it, because the strides of an array are
      ! products of extents.
      if (bytes > huge(bytes) / max(1_int64, extents(dimension))) then
        call refuse('quarry_pool allocate: ' // trim(product_text(extents)) // ' elements of ' // &
          trim(decimal(element)) // ' bytes are more than ' // trim(decimal(huge(bytes))) // &
          ' bytes', status)
        return
      end if
      bytes = bytes * extents(dimension)
    end do
    ! If `pool` is null, an empty array must fail as other arrays do; the call of C reports that.
    is_empty = bytes == 0 .and. c_associated(pool%handle)
    if (is_empty) then
      call conclude(quarry_ok, status)
    else
      call finish_call(c_allocate(pool, bytes, memory), status)
    end if
  end subroutine

  ! Calls the C function for the kind of the handle.
  function c_allocate(pool, size, memory) result(code)
    class(quarry_pool), intent(in) :: pool
    integer(int64), intent(in) :: size
    type(c_ptr), intent(out) :: memory
    integer(c_int) :: code

    if (pool%has_name) then
      code = c_allocator_allocate(pool%handle, size, memory)
    else
      code = c_pool_allocate(pool%handle, size, memory)
    end if
  end function

  ! Frees memory; null counts as freed.
  subroutine free_memory(pool, memory, is_freed, status)
    class(quarry_pool), intent(in) :: pool
    type(c_ptr), intent(in) :: memory
    logical, intent(out) :: is_freed
    integer, intent(out), optional :: status
    integer(c_int) :: code

    if (pool%has_name) then
      code = c_allocator_deallocate(pool%handle, memory)
    else
      code = c_pool_deallocate(pool%handle, memory)
    end if
    is_freed = code == quarry_ok
    call finish_call(code, status)
  end subroutine

end module
