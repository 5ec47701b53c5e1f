! SPDX-License-Identifier: Apache-2.0
! Host pools for Fortran: typed arrays out of a pool, over the C API of quarry/host/c_api.h.
!
! Whatever may fail is a subroutine whose last argument is `status`, one of the quarry_* states below. Where a caller leaves it out,
! a failure prints quarry_last_error() and ends the program by `error stop`. Sizes are bytes in integer(int64). All may be called
! from any thread; calls to one pool take turns.
module quarry
  use, intrinsic :: iso_c_binding, only: c_associated, c_f_pointer, c_int, c_loc, c_null_ptr, c_ptr
  use, intrinsic :: iso_fortran_env, only: int32, int64, real32, real64
  use quarry_c
  use quarry_calls
  use quarry_segments
  use quarry_streams
  implicit none
  private

  public :: quarry_pool, quarry_stream_pool, quarry_segment, quarry_pool_options, quarry_pool_counts, quarry_record
  public :: quarry_ok, quarry_out_of_memory, quarry_bad_argument, quarry_resource_failed, quarry_not_in_use, quarry_internal, &
    quarry_destroyed
  public :: quarry_host, quarry_device, quarry_pinned, quarry_managed, quarry_file, quarry_shared
  public :: quarry_pool_default_options, quarry_find, quarry_copy, quarry_fill, quarry_report, quarry_last_error
  public :: quarry_version, quarry_version_text
  public :: quarry_add_alias, quarry_remove_alias, quarry_destroy, quarry_deallocate, quarry_reallocate, quarry_move

  ! A pool, made by `create`, or an allocator with a name, by `make`, `lookup` or `owner_of`. It is a handle: a copy by `=` stands for
  ! the same pool, and is refused with quarry_destroyed once one of them was destroyed. For that reason nothing is finalised; a pool
  ! that goes out of scope without destroy keeps its memory. A variable that stands for an allocator with a name may be made to stand
  ! for another one, and for a pool of `create`, at any time.
  !
  ! allocate(array, extents, status) and deallocate(array, status) take pointers of rank 1 to 3 to real64, real32, int32 and int64;
  ! allocate(memory, size, status) and deallocate(memory, status) take a type(c_ptr). The comments are at the procedures.
  type :: quarry_pool
    private
    type(c_ptr) :: handle = c_null_ptr
    logical :: has_name = .false.                 ! the handle is an allocator's, as `make` and `lookup` give it
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
    include 'quarry_array_bindings.inc'  ! more of both generics
  end type

  ! What arrays without elements point to. They take no memory of the pool, since c_loc gives no address for them to be freed
  ! by.
  real(real64), target :: no_real64(0)
  real(real32), target :: no_real32(0)
  integer(int32), target :: no_int32(0)
  integer(int64), target :: no_int64(0)

contains

  ! Makes a pool over the resource `from`, quarry_host and so on. quarry_bad_argument: an option is out of range, or this is a pool
  ! without a name already, which nothing else might stand for. quarry_resource_failed: the system refused. The pool is then as it
  ! was.
  subroutine create(pool, from, options, status)
    class(quarry_pool), intent(inout) :: pool
    integer(c_int), intent(in) :: from
    type(quarry_pool_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    type(c_pool_options) :: wanted
    type(option_texts), target :: texts
    type(c_ptr) :: handle
    integer(c_int) :: code

    if (would_lose_a_pool(pool, 'create', status)) return
    if (.not. present(options)) then
      code = c_pool_create(from, pool=handle)
      call take_handle(pool, code, handle, .false., status)
      return
    end if
    if (.not. read_options('quarry_pool create', options, wanted, texts, status)) return
    code = c_pool_create(from, wanted, handle)
    call take_handle(pool, code, handle, .false., status)
  end subroutine

  ! Makes an allocator of a text, such as 'pool(device(0), first_block=1GiB)', and gives it a name, by which any part of the program
  ! finds it: the C++ header allocators.hpp says what there is. Trailing blanks do not count. quarry_bad_argument: the name is in
  ! use, the text is not understood, or this is a pool without a name. The pool is then as it was.
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

  ! Stands for the allocator of that name or alias from now on. quarry_bad_argument: there is none, or this is a pool without a
  ! name. The pool is then as it was.
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

  ! Stands for the allocator with a name that `address` was allocated by, at its begin or in its midst, from now on.
  ! quarry_bad_argument: there is none, or this is a pool without a name. The pool is then as it was.
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

  ! Only the variable, and its copies, stand for a pool without a name: refuses to have it stand for another one.
  function would_lose_a_pool(pool, call_name, status) result(would)
    class(quarry_pool), intent(in) :: pool
    character(*), intent(in) :: call_name
    integer, intent(out), optional :: status
    logical :: would

    would = c_associated(pool%handle) .and. .not. pool%has_name
    if (would) call refuse('quarry_pool ' // call_name // ': this is a pool without a name; destroy it before', status)
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
    call settle(code, status)
  end subroutine

  ! Gives an allocator a second name. quarry_bad_argument: there is no allocator `name`, or `alias` is in use.
  subroutine quarry_add_alias(alias, name, status)
    character(*), intent(in) :: alias
    character(*), intent(in) :: name
    integer, intent(out), optional :: status

    call settle(c_allocator_add_alias(c_text(alias), c_text(name)), status)
  end subroutine

  ! quarry_bad_argument: it is no alias.
  subroutine quarry_remove_alias(alias, status)
    character(*), intent(in) :: alias
    integer, intent(out), optional :: status

    call settle(c_allocator_remove_alias(c_text(alias)), status)
  end subroutine

  ! Destroys the allocator of that name, with its aliases. quarry_bad_argument, and nothing changes: there is none, a pool takes its
  ! blocks from it, or memory of it was not freed and `discards` is not true.
  subroutine quarry_destroy(name, discards, status)
    character(*), intent(in) :: name
    logical, intent(in), optional :: discards
    integer, intent(out), optional :: status
    integer(c_int) :: is_discarded

    is_discarded = 0
    if (present(discards)) is_discarded = merge(1_c_int, 0_c_int, discards)
    call settle(c_allocator_destroy(c_text(name), is_discarded), status)
  end subroutine

  ! Frees an allocation of any allocator with a name, and makes `memory` null; null is ignored. quarry_bad_argument, and nothing
  ! changes: it is no first address of one.
  subroutine quarry_deallocate(memory, status)
    type(c_ptr), intent(inout) :: memory
    integer, intent(out), optional :: status
    integer(c_int) :: code

    code = c_deallocate(memory)
    if (code == quarry_ok) memory = c_null_ptr
    call settle(code, status)
  end subroutine

  ! Moves what is in `memory` to `size` bytes of the same allocator with a name, and `memory` to there. quarry_bad_argument:
  ! `memory` is null or no first address of such an allocation, or the size is negative; or quarry_out_of_memory: nothing changes.
  subroutine quarry_reallocate(memory, size, status)
    type(c_ptr), intent(inout) :: memory
    integer(int64), intent(in) :: size
    integer, intent(out), optional :: status
    type(c_ptr) :: moved
    integer(c_int) :: code

    if (size < 0) then
      call refuse('quarry_reallocate: the size of ' // trim(decimal(size)) // ' bytes is negative', status)
      return
    end if
    code = c_reallocate(memory, size, moved)
    if (code == quarry_ok) memory = moved
    call settle(code, status)
  end subroutine

  ! Moves what is in `memory` to an allocation of `to`, which has a name, and `memory` to there. Fails as quarry_reallocate does.
  subroutine quarry_move(memory, to, status)
    type(c_ptr), intent(inout) :: memory
    type(quarry_pool), intent(in) :: to
    integer, intent(out), optional :: status
    type(c_ptr) :: moved
    integer(c_int) :: code

    code = c_move(memory, to%handle, moved)
    if (code == quarry_ok) memory = moved
    call settle(code, status)
  end subroutine

  ! Gives all memory of the pool back, also what is in use: no pointer into it may be used any more. Nothing happens if it is no
  ! pool. quarry_destroyed: a copy of it was destroyed before. It is no pool then, either. quarry_bad_argument: it has a name, by
  ! which quarry_destroy destroys it.
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
    call settle(c_pool_destroy(handle), status)
  end subroutine

  ! Gives the blocks back in which nothing is in use.
  subroutine release(pool, status)
    class(quarry_pool), intent(in) :: pool
    integer, intent(out), optional :: status

    if (pool%has_name) then
      call settle(c_allocator_release(pool%handle), status)
    else
      call settle(c_pool_release(pool%handle), status)
    end if
  end subroutine

  ! The same, and takes one block for what is missing to `wanted` bytes reserved. quarry_bad_argument: the pool has no name, or
  ! `wanted` is negative.
  subroutine coalesce(pool, wanted, status)
    class(quarry_pool), intent(in) :: pool
    integer(int64), intent(in) :: wanted
    integer, intent(out), optional :: status

    if (.not. pool%has_name) then
      call refuse('quarry_pool coalesce: this is a pool without a name; release returns its blocks', status)
    else if (wanted < 0) then
      call refuse('quarry_pool coalesce: the size of ' // trim(decimal(wanted)) // ' bytes is negative', status)
    else
      call settle(c_allocator_coalesce(pool%handle, wanted), status)
    end if
  end subroutine

  ! `size`: the bytes that were asked for at `memory`, where an allocation begins. quarry_not_in_use, and 0: none of this pool does.
  subroutine size_of(pool, memory, size, status)
    class(quarry_pool), intent(in) :: pool
    type(c_ptr), intent(in) :: memory
    integer(int64), intent(out) :: size
    integer, intent(out), optional :: status

    size = 0
    if (pool%has_name) then
      call settle(c_allocator_size_of(pool%handle, memory, size), status)
    else
      call settle(c_pool_size_of(pool%handle, memory, size), status)
    end if
  end subroutine

  ! What the pool counts; zeros if that fails. Of an allocator with a name the blocks are not counted.
  subroutine counts(pool, all, status)
    class(quarry_pool), intent(in) :: pool
    type(quarry_pool_counts), intent(out) :: all
    integer, intent(out), optional :: status
    type(c_allocator_counts) :: named
    integer(c_int) :: code

    if (.not. pool%has_name) then
      call settle(c_pool_get_counts(pool%handle, all), status)
      return
    end if
    code = c_allocator_get_counts(pool%handle, named)
    all%reserved = named%reserved
    all%peak_reserved = named%peak_reserved
    all%allocated = named%allocated
    all%peak_allocated = named%peak_allocated
    all%allocations_in_use = named%allocations_in_use
    all%invalid_frees = named%invalid_frees
    call settle(code, status)
  end subroutine

  ! How many frees found the red zone behind their allocation written to; 0 if that fails.
  subroutine overruns(pool, count, status)
    class(quarry_pool), intent(in) :: pool
    integer(int64), intent(out) :: count
    integer, intent(out), optional :: status

    count = 0
    call settle(c_pool_get_overruns(pool%handle, count), status)
  end subroutine

  ! Names an allocation for reports until it is freed. Trailing blanks do not count. quarry_not_in_use: it is none of this
  ! pool.
  subroutine label(pool, memory, name, status)
    class(quarry_pool), intent(in) :: pool
    type(c_ptr), intent(in) :: memory
    character(*), intent(in) :: name
    integer, intent(out), optional :: status

    if (pool%has_name) then
      call settle(c_allocator_label(pool%handle, memory, c_text(name)), status)
    else
      call settle(c_pool_label(pool%handle, memory, c_text(name)), status)
    end if
  end subroutine

  ! The pool's number in records; 0 if that fails.
  subroutine id(pool, number, status)
    class(quarry_pool), intent(in) :: pool
    integer(int32), intent(out) :: number
    integer, intent(out), optional :: status

    number = 0
    if (pool%has_name) then
      call settle(c_allocator_id(pool%handle, number), status)
    else
      call settle(c_pool_id(pool%handle, number), status)
    end if
  end subroutine

  ! What allocation of any pool `address` lies in, at its begin or in its midst. quarry_not_in_use: in none.
  subroutine quarry_find(address, record, status)
    type(c_ptr), intent(in) :: address
    type(quarry_record), intent(out) :: record
    integer, intent(out), optional :: status

    call settle(c_find(address, record), status)
  end subroutine

  ! Copies `size` bytes between any two allocations or parts of them; done on return. quarry_bad_argument, and nothing is touched:
  ! an address is in no allocation, or that ends before `size` bytes.
  subroutine quarry_copy(to, from, size, status)
    type(c_ptr), intent(in) :: to
    type(c_ptr), intent(in) :: from
    integer(int64), intent(in) :: size
    integer, intent(out), optional :: status

    if (size < 0) then
      call refuse('quarry_copy: the size of ' // trim(decimal(size)) // ' bytes is negative', status)
    else
      call settle(c_copy(to, from, size), status)
    end if
  end subroutine

  ! Sets `size` bytes of an allocation to `value`, from 0 to 255; done on return. Failure as of quarry_copy, or `value` is no byte.
  subroutine quarry_fill(memory, value, size, status)
    type(c_ptr), intent(in) :: memory
    integer(c_int), intent(in) :: value
    integer(int64), intent(in) :: size
    integer, intent(out), optional :: status

    if (size < 0) then
      call refuse('quarry_fill: the size of ' // trim(decimal(size)) // ' bytes is negative', status)
    else
      call settle(c_fill(memory, value, size), status)
    end if
  end subroutine

  ! Writes a line for each live allocation and each allocator to the file `path`, or to standard error without one.
  ! quarry_resource_failed: it cannot be written.
  subroutine quarry_report(path, status)
    character(*), intent(in), optional :: path
    integer, intent(out), optional :: status

    if (present(path)) then
      call settle(c_report(c_text(path)), status)
    else
      call settle(c_report(), status)
    end if
  end subroutine

  ! Takes `size` bytes; `memory` is null unless quarry_ok. A size of 0 gives an address of its own. quarry_out_of_memory: the
  ! resource or the limit of the pool refuses. quarry_bad_argument: a negative size.
  subroutine allocate_bytes(pool, memory, size, status)
    class(quarry_pool), intent(in) :: pool
    type(c_ptr), intent(out) :: memory
    integer(int64), intent(in) :: size
    integer, intent(out), optional :: status

    memory = c_null_ptr
    if (size < 0) then
      call refuse('quarry_pool allocate: the size of ' // trim(decimal(size)) // ' bytes is negative', status)
    else
      call settle(c_allocate(pool, size, memory), status)
    end if
  end subroutine

  ! Gives memory back and makes `memory` null; null is ignored. quarry_not_in_use, and nothing changes: it is none of this pool.
  subroutine deallocate_bytes(pool, memory, status)
    class(quarry_pool), intent(in) :: pool
    type(c_ptr), intent(inout) :: memory
    integer, intent(out), optional :: status
    logical :: is_given

    call give(pool, memory, is_given, status)
    if (is_given) memory = c_null_ptr
  end subroutine

  include 'quarry_arrays.inc'  ! of array_procedures.f90.in

  ! Memory for an array of `rank` extents of elements of `element` bytes. Null on a failure, and if it `is_empty`, which is none.
  subroutine take(pool, rank, extents, element, memory, is_empty, status)
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
      call refuse('quarry_pool allocate: ' // trim(decimal(size(extents, kind=int64))) // ' extents for an array of rank ' // &
        trim(decimal(int(rank, int64))), status)
      return
    end if
    if (any(extents < 0)) then
      call refuse('quarry_pool allocate: an extent of ' // trim(product_text(extents)) // ' is negative', status)
      return
    end if
    bytes = element
    do dimension = 1, rank
      ! An extent of 0 does not excuse those before it: the strides of an array are their products.
      if (bytes > huge(bytes) / max(1_int64, extents(dimension))) then
        call refuse('quarry_pool allocate: ' // trim(product_text(extents)) // ' elements of ' // trim(decimal(element)) // &
          ' bytes are more than ' // trim(decimal(huge(bytes))) // ' bytes', status)
        return
      end if
      bytes = bytes * extents(dimension)
    end do
    ! What is no pool must fail for an empty array as for others; C says so.
    is_empty = bytes == 0 .and. c_associated(pool%handle)
    if (is_empty) then
      call conclude(quarry_ok, status)
    else
      call settle(c_allocate(pool, bytes, memory), status)
    end if
  end subroutine

  ! By the handle's kind.
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

  ! Gives memory back; null is given.
  subroutine give(pool, memory, is_given, status)
    class(quarry_pool), intent(in) :: pool
    type(c_ptr), intent(in) :: memory
    logical, intent(out) :: is_given
    integer, intent(out), optional :: status
    integer(c_int) :: code

    if (pool%has_name) then
      code = c_allocator_deallocate(pool%handle, memory)
    else
      code = c_pool_deallocate(pool%handle, memory)
    end if
    is_given = code == quarry_ok
    call settle(code, status)
  end subroutine

end module
