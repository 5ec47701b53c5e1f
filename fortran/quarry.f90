! SPDX-License-Identifier: Apache-2.0
! Host pools for Fortran: typed arrays out of a pool, over the C API of quarry/host/c_api.h.
!
! Whatever may fail is a subroutine whose last argument is `status`, one of the quarry_* states below. Where a caller leaves it out,
! a failure prints quarry_last_error() and ends the program by `error stop`. Sizes are bytes in integer(int64). All may be called
! from any thread; calls to one pool take turns.
module quarry
  use, intrinsic :: iso_c_binding, only: c_associated, c_char, c_f_pointer, c_int, c_int32_t, c_int64_t, c_loc, c_null_char, &
    c_null_ptr, c_ptr, c_size_t
  use, intrinsic :: iso_fortran_env, only: error_unit, int32, int64, real32, real64
  implicit none
  private

  public :: quarry_pool, quarry_pool_options, quarry_pool_counts, quarry_record
  public :: quarry_ok, quarry_out_of_memory, quarry_bad_argument, quarry_resource_failed, quarry_not_in_use, quarry_internal, &
    quarry_destroyed
  public :: quarry_host, quarry_device, quarry_pinned, quarry_managed, quarry_file, quarry_shared
  public :: quarry_pool_default_options, quarry_find, quarry_copy, quarry_fill, quarry_report, quarry_last_error

  ! What a call came to; what each means is said in the C header.
  enum, bind(c)
    enumerator :: quarry_ok = 0
    enumerator :: quarry_out_of_memory = 1
    enumerator :: quarry_bad_argument = 2
    enumerator :: quarry_resource_failed = 3
    enumerator :: quarry_not_in_use = 4
    enumerator :: quarry_internal = 5
    enumerator :: quarry_destroyed = 6
  end enum

  ! Where memory comes from. Records may say quarry_shared; no pool can be made from it.
  enum, bind(c)
    enumerator :: quarry_host = 0
    enumerator :: quarry_device = 1
    enumerator :: quarry_pinned = 2
    enumerator :: quarry_managed = 3
    enumerator :: quarry_file = 4
    enumerator :: quarry_shared = 5
  end enum

  ! How a pool is made. As it stands it equals quarry_pool_default_options(). Trailing blanks of the texts do not count.
  type :: quarry_pool_options
    integer(int64) :: first_block = 0             ! the least bytes of the first block; 0: the library chooses
    integer(int64) :: next_block = 0              ! the least bytes of later blocks; 0: the library chooses
    integer(int32) :: growth_percent = 12         ! the least of a later block, in percent of what the pool holds
    integer(int64) :: alignment = 16              ! bytes; a power of two
    integer(int64) :: most = -1                   ! bytes that the pool holds at most; -1: no limit
    integer(c_int) :: device = 0                  ! quarry_device: its number
    character(:), allocatable :: directory        ! quarry_file: where the files go
    character(:), allocatable :: name             ! for reports; not allocated: "allocator N"
  end type

  ! What a pool counts: bytes, but for `pieces_live`, the blocks and `refused`.
  type, bind(c) :: quarry_pool_counts
    integer(c_int64_t) :: held = 0
    integer(c_int64_t) :: most_held = 0
    integer(c_int64_t) :: live = 0
    integer(c_int64_t) :: most_live = 0
    integer(c_int64_t) :: pieces_live = 0
    integer(c_int64_t) :: blocks_taken = 0
    integer(c_int64_t) :: blocks_given = 0
    integer(c_int64_t) :: refused = 0
  end type

  ! The allocation that an address belongs to.
  type, bind(c) :: quarry_record
    integer(c_int32_t) :: allocator = 0           ! the pool's id
    integer(c_int32_t) :: resource = 0            ! quarry_host and so on
    integer(c_int32_t) :: device = 0
    type(c_ptr) :: begin = c_null_ptr
    integer(c_int64_t) :: size = 0                ! bytes, as asked for
  end type

  ! A pool. It is a handle: a copy by `=` stands for the same pool, and is refused with quarry_destroyed once one of them was
  ! destroyed. For that reason nothing is finalised; a pool that goes out of scope without destroy keeps its memory.
  !
  ! allocate(array, extents, status) and deallocate(array, status) take pointers of rank 1 to 3 to real64, real32, int32 and int64;
  ! allocate(memory, size, status) and deallocate(memory, status) take a type(c_ptr). The comments are at the procedures.
  type :: quarry_pool
    private
    type(c_ptr) :: handle = c_null_ptr
  contains
    procedure, public :: create
    procedure, public :: destroy
    procedure, public :: release
    procedure, public :: size_of
    procedure, public :: counts
    procedure, public :: note
    procedure, public :: id
    procedure, private :: allocate_bytes
    procedure, private :: &
      allocate_real64_1, allocate_real64_2, allocate_real64_3, &
      allocate_real32_1, allocate_real32_2, allocate_real32_3, &
      allocate_int32_1, allocate_int32_2, allocate_int32_3, &
      allocate_int64_1, allocate_int64_2, allocate_int64_3
    procedure, private :: &
      allocate_real64_1_int32, allocate_real64_2_int32, allocate_real64_3_int32, &
      allocate_real32_1_int32, allocate_real32_2_int32, allocate_real32_3_int32, &
      allocate_int32_1_int32, allocate_int32_2_int32, allocate_int32_3_int32, &
      allocate_int64_1_int32, allocate_int64_2_int32, allocate_int64_3_int32
    procedure, private :: deallocate_bytes
    procedure, private :: &
      deallocate_real64_1, deallocate_real64_2, deallocate_real64_3, &
      deallocate_real32_1, deallocate_real32_2, deallocate_real32_3, &
      deallocate_int32_1, deallocate_int32_2, deallocate_int32_3, &
      deallocate_int64_1, deallocate_int64_2, deallocate_int64_3
    generic, public :: allocate => allocate_bytes, &
      allocate_real64_1, allocate_real64_2, allocate_real64_3, &
      allocate_real32_1, allocate_real32_2, allocate_real32_3, &
      allocate_int32_1, allocate_int32_2, allocate_int32_3, &
      allocate_int64_1, allocate_int64_2, allocate_int64_3, &
      allocate_real64_1_int32, allocate_real64_2_int32, allocate_real64_3_int32, &
      allocate_real32_1_int32, allocate_real32_2_int32, allocate_real32_3_int32, &
      allocate_int32_1_int32, allocate_int32_2_int32, allocate_int32_3_int32, &
      allocate_int64_1_int32, allocate_int64_2_int32, allocate_int64_3_int32
    generic, public :: deallocate => deallocate_bytes, &
      deallocate_real64_1, deallocate_real64_2, deallocate_real64_3, &
      deallocate_real32_1, deallocate_real32_2, deallocate_real32_3, &
      deallocate_int32_1, deallocate_int32_2, deallocate_int32_3, &
      deallocate_int64_1, deallocate_int64_2, deallocate_int64_3
  end type

  ! quarry_pool_options as C lays it out.
  type, bind(c) :: c_pool_options
    integer(c_int64_t) :: first_block
    integer(c_int64_t) :: next_block
    integer(c_int32_t) :: growth_percent
    integer(c_int64_t) :: alignment
    integer(c_int64_t) :: most
    integer(c_int) :: device
    type(c_ptr) :: directory
    type(c_ptr) :: name
  end type

  interface
    function c_pool_default_options() bind(c, name='quarry_pool_default_options') result(options)
      import :: c_pool_options
      type(c_pool_options) :: options
    end function

    function c_pool_create(from, options, pool) bind(c, name='quarry_pool_create') result(code)
      import :: c_int, c_pool_options, c_ptr
      integer(c_int), value :: from
      type(c_pool_options), intent(in), optional :: options
      type(c_ptr), intent(out) :: pool
      integer(c_int) :: code
    end function

    function c_pool_destroy(pool) bind(c, name='quarry_pool_destroy') result(code)
      import :: c_int, c_ptr
      type(c_ptr), value :: pool
      integer(c_int) :: code
    end function

    function c_pool_allocate(pool, size, memory) bind(c, name='quarry_pool_allocate') result(code)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: pool
      integer(c_int64_t), value :: size
      type(c_ptr), intent(out) :: memory
      integer(c_int) :: code
    end function

    function c_pool_deallocate(pool, memory) bind(c, name='quarry_pool_deallocate') result(code)
      import :: c_int, c_ptr
      type(c_ptr), value :: pool
      type(c_ptr), value :: memory
      integer(c_int) :: code
    end function

    function c_pool_release(pool) bind(c, name='quarry_pool_release') result(code)
      import :: c_int, c_ptr
      type(c_ptr), value :: pool
      integer(c_int) :: code
    end function

    function c_pool_size_of(pool, memory, size) bind(c, name='quarry_pool_size_of') result(code)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: pool
      type(c_ptr), value :: memory
      integer(c_int64_t), intent(inout) :: size
      integer(c_int) :: code
    end function

    function c_pool_get_counts(pool, counts) bind(c, name='quarry_pool_get_counts') result(code)
      import :: c_int, c_ptr, quarry_pool_counts
      type(c_ptr), value :: pool
      type(quarry_pool_counts), intent(inout) :: counts
      integer(c_int) :: code
    end function

    function c_pool_note(pool, memory, name) bind(c, name='quarry_pool_note') result(code)
      import :: c_char, c_int, c_ptr
      type(c_ptr), value :: pool
      type(c_ptr), value :: memory
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int) :: code
    end function

    function c_pool_id(pool, id) bind(c, name='quarry_pool_id') result(code)
      import :: c_int, c_int32_t, c_ptr
      type(c_ptr), value :: pool
      integer(c_int32_t), intent(inout) :: id
      integer(c_int) :: code
    end function

    function c_find(address, record) bind(c, name='quarry_find') result(code)
      import :: c_int, c_ptr, quarry_record
      type(c_ptr), value :: address
      type(quarry_record), intent(inout) :: record
      integer(c_int) :: code
    end function

    function c_copy(to, from, size) bind(c, name='quarry_copy') result(code)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: to
      type(c_ptr), value :: from
      integer(c_int64_t), value :: size
      integer(c_int) :: code
    end function

    function c_fill(memory, value, size) bind(c, name='quarry_fill') result(code)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: memory
      integer(c_int), value :: value
      integer(c_int64_t), value :: size
      integer(c_int) :: code
    end function

    function c_report(path) bind(c, name='quarry_report') result(code)
      import :: c_char, c_int
      character(kind=c_char), intent(in), optional :: path(*)
      integer(c_int) :: code
    end function

    pure function c_last_error() bind(c, name='quarry_last_error') result(text)
      import :: c_ptr
      type(c_ptr) :: text
    end function

    pure function c_strlen(text) bind(c, name='strlen') result(length)
      import :: c_ptr, c_size_t
      type(c_ptr), value :: text
      integer(c_size_t) :: length
    end function
  end interface

  integer(int64), parameter :: real64_bytes = storage_size(0.0_real64, int64) / 8
  integer(int64), parameter :: real32_bytes = storage_size(0.0_real32, int64) / 8
  integer(int64), parameter :: int32_bytes = storage_size(0_int32, int64) / 8
  integer(int64), parameter :: int64_bytes = storage_size(0_int64, int64) / 8

  ! What arrays without elements point to. They take no memory of the pool, since c_loc gives no address for them to be given back
  ! by.
  real(real64), target :: no_real64(0)
  real(real32), target :: no_real32(0)
  integer(int32), target :: no_int32(0)
  integer(int64), target :: no_int64(0)

  ! What this module refused itself, until a call into C fails. Each thread of OpenMP has its own, as in C; other threads share it.
  character(512) :: own_error = ''
  integer :: own_length = 0
  !$omp threadprivate(own_error, own_length)

contains

  ! The options of a pool of which nothing is said, as the library gives them.
  function quarry_pool_default_options() result(options)
    type(quarry_pool_options) :: options
    type(c_pool_options) :: usual

    usual = c_pool_default_options()
    options%first_block = usual%first_block
    options%next_block = usual%next_block
    options%growth_percent = usual%growth_percent
    options%alignment = usual%alignment
    options%most = usual%most
    options%device = usual%device
  end function

  ! Makes a pool over the resource `from`, quarry_host and so on. quarry_bad_argument: an option is out of range, or this is a pool
  ! already. quarry_resource_failed: the system refused. The pool is then as it was.
  subroutine create(pool, from, options, status)
    class(quarry_pool), intent(inout) :: pool
    integer(c_int), intent(in) :: from
    type(quarry_pool_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    type(c_pool_options) :: wanted
    character(kind=c_char), allocatable, target :: directory(:), name(:)
    integer(c_int) :: code

    if (c_associated(pool%handle)) then
      call refuse('quarry_pool create: this is a pool already', status)
      return
    end if
    if (.not. present(options)) then
      code = c_pool_create(from, pool=pool%handle)
      call settle(code, status)
      return
    end if
    ! C would read these as enormous ones.
    if (min(options%first_block, options%next_block, options%alignment) < 0 .or. options%most < -1 .or. &
      options%growth_percent < 0) then
      call refuse('quarry_pool create: an option is negative; -1 is for `most` only', status)
      return
    end if
    wanted = c_pool_options(options%first_block, options%next_block, options%growth_percent, options%alignment, options%most, &
      options%device, c_null_ptr, c_null_ptr)
    if (allocated(options%directory)) then
      allocate (directory, source=c_text(options%directory))
      wanted%directory = c_loc(directory)
    end if
    if (allocated(options%name)) then
      allocate (name, source=c_text(options%name))
      wanted%name = c_loc(name)
    end if
    code = c_pool_create(from, wanted, pool%handle)
    call settle(code, status)
  end subroutine

  ! Gives all memory of the pool back, also what is in use: no pointer into it may be used any more. Nothing happens if it is no
  ! pool. quarry_destroyed: a copy of it was destroyed before. It is no pool then, either.
  subroutine destroy(pool, status)
    class(quarry_pool), intent(inout) :: pool
    integer, intent(out), optional :: status
    type(c_ptr) :: handle

    handle = pool%handle
    pool%handle = c_null_ptr
    call settle(c_pool_destroy(handle), status)
  end subroutine

  ! Gives the blocks back in which nothing is in use.
  subroutine release(pool, status)
    class(quarry_pool), intent(in) :: pool
    integer, intent(out), optional :: status

    call settle(c_pool_release(pool%handle), status)
  end subroutine

  ! `size`: the bytes that were asked for at `memory`, where an allocation begins. quarry_not_in_use, and 0: none of this pool does.
  subroutine size_of(pool, memory, size, status)
    class(quarry_pool), intent(in) :: pool
    type(c_ptr), intent(in) :: memory
    integer(int64), intent(out) :: size
    integer, intent(out), optional :: status

    size = 0
    call settle(c_pool_size_of(pool%handle, memory, size), status)
  end subroutine

  ! What the pool counts; zeros if that fails.
  subroutine counts(pool, all, status)
    class(quarry_pool), intent(in) :: pool
    type(quarry_pool_counts), intent(out) :: all
    integer, intent(out), optional :: status

    call settle(c_pool_get_counts(pool%handle, all), status)
  end subroutine

  ! Names an allocation for reports until it is given back. Trailing blanks do not count. quarry_not_in_use: it is none of this
  ! pool.
  subroutine note(pool, memory, name, status)
    class(quarry_pool), intent(in) :: pool
    type(c_ptr), intent(in) :: memory
    character(*), intent(in) :: name
    integer, intent(out), optional :: status

    call settle(c_pool_note(pool%handle, memory, c_text(name)), status)
  end subroutine

  ! The pool's number in records; 0 if that fails.
  subroutine id(pool, number, status)
    class(quarry_pool), intent(in) :: pool
    integer(int32), intent(out) :: number
    integer, intent(out), optional :: status

    number = 0
    call settle(c_pool_id(pool%handle, number), status)
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

  ! What this thread's latest call that did not give quarry_ok says; empty if there was none. (For this module's own refusals,
  ! threads other than OpenMP's share it.)
  function quarry_last_error() result(message)
    character(last_error_length()) :: message
    character(kind=c_char), pointer :: chars(:)
    integer :: at

    if (own_length > 0) then
      message = own_error(:own_length)
      return
    end if
    call c_f_pointer(c_last_error(), chars, [len(message)])
    do at = 1, len(message)
      message(at:at) = chars(at)
    end do
  end function

  pure function last_error_length() result(length)
    integer :: length

    if (own_length > 0) then
      length = own_length
    else
      length = int(c_strlen(c_last_error()))
    end if
  end function

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
      call settle(c_pool_allocate(pool%handle, size, memory), status)
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

  ! Takes an array of these extents from the pool, with lower bounds of 1; its elements are not set. `array` is null unless
  ! quarry_ok. quarry_out_of_memory: the resource or the limit of the pool refuses. quarry_bad_argument: a negative extent, more
  ! bytes than integer(int64) counts, or not as many extents as dimensions. An array without elements takes nothing from the pool.
  ! One procedure for each type, rank and kind of extents.
  subroutine allocate_real64_1(pool, array, extents, status)
    class(quarry_pool), intent(in) :: pool
    real(real64), pointer, intent(out) :: array(:)
    integer(int64), intent(in) :: extents(:)
    integer, intent(out), optional :: status
    type(c_ptr) :: memory
    logical :: is_empty

    nullify (array)
    call take(pool, 1, extents, real64_bytes, memory, is_empty, status)
    if (is_empty) array(1:extents(1)) => no_real64
    if (c_associated(memory)) call c_f_pointer(memory, array, extents)
  end subroutine

  subroutine allocate_real64_2(pool, array, extents, status)
    class(quarry_pool), intent(in) :: pool
    real(real64), pointer, intent(out) :: array(:, :)
    integer(int64), intent(in) :: extents(:)
    integer, intent(out), optional :: status
    type(c_ptr) :: memory
    logical :: is_empty

    nullify (array)
    call take(pool, 2, extents, real64_bytes, memory, is_empty, status)
    if (is_empty) array(1:extents(1), 1:extents(2)) => no_real64
    if (c_associated(memory)) call c_f_pointer(memory, array, extents)
  end subroutine

  subroutine allocate_real64_3(pool, array, extents, status)
    class(quarry_pool), intent(in) :: pool
    real(real64), pointer, intent(out) :: array(:, :, :)
    integer(int64), intent(in) :: extents(:)
    integer, intent(out), optional :: status
    type(c_ptr) :: memory
    logical :: is_empty

    nullify (array)
    call take(pool, 3, extents, real64_bytes, memory, is_empty, status)
    if (is_empty) array(1:extents(1), 1:extents(2), 1:extents(3)) => no_real64
    if (c_associated(memory)) call c_f_pointer(memory, array, extents)
  end subroutine

  subroutine allocate_real32_1(pool, array, extents, status)
    class(quarry_pool), intent(in) :: pool
    real(real32), pointer, intent(out) :: array(:)
    integer(int64), intent(in) :: extents(:)
    integer, intent(out), optional :: status
    type(c_ptr) :: memory
    logical :: is_empty

    nullify (array)
    call take(pool, 1, extents, real32_bytes, memory, is_empty, status)
    if (is_empty) array(1:extents(1)) => no_real32
    if (c_associated(memory)) call c_f_pointer(memory, array, extents)
  end subroutine

  subroutine allocate_real32_2(pool, array, extents, status)
    class(quarry_pool), intent(in) :: pool
    real(real32), pointer, intent(out) :: array(:, :)
    integer(int64), intent(in) :: extents(:)
    integer, intent(out), optional :: status
    type(c_ptr) :: memory
    logical :: is_empty

    nullify (array)
    call take(pool, 2, extents, real32_bytes, memory, is_empty, status)
    if (is_empty) array(1:extents(1), 1:extents(2)) => no_real32
    if (c_associated(memory)) call c_f_pointer(memory, array, extents)
  end subroutine

  subroutine allocate_real32_3(pool, array, extents, status)
    class(quarry_pool), intent(in) :: pool
    real(real32), pointer, intent(out) :: array(:, :, :)
    integer(int64), intent(in) :: extents(:)
    integer, intent(out), optional :: status
    type(c_ptr) :: memory
    logical :: is_empty

    nullify (array)
    call take(pool, 3, extents, real32_bytes, memory, is_empty, status)
    if (is_empty) array(1:extents(1), 1:extents(2), 1:extents(3)) => no_real32
    if (c_associated(memory)) call c_f_pointer(memory, array, extents)
  end subroutine

  subroutine allocate_int32_1(pool, array, extents, status)
    class(quarry_pool), intent(in) :: pool
    integer(int32), pointer, intent(out) :: array(:)
    integer(int64), intent(in) :: extents(:)
    integer, intent(out), optional :: status
    type(c_ptr) :: memory
    logical :: is_empty

    nullify (array)
    call take(pool, 1, extents, int32_bytes, memory, is_empty, status)
    if (is_empty) array(1:extents(1)) => no_int32
    if (c_associated(memory)) call c_f_pointer(memory, array, extents)
  end subroutine

  subroutine allocate_int32_2(pool, array, extents, status)
    class(quarry_pool), intent(in) :: pool
    integer(int32), pointer, intent(out) :: array(:, :)
    integer(int64), intent(in) :: extents(:)
    integer, intent(out), optional :: status
    type(c_ptr) :: memory
    logical :: is_empty

    nullify (array)
    call take(pool, 2, extents, int32_bytes, memory, is_empty, status)
    if (is_empty) array(1:extents(1), 1:extents(2)) => no_int32
    if (c_associated(memory)) call c_f_pointer(memory, array, extents)
  end subroutine

  subroutine allocate_int32_3(pool, array, extents, status)
    class(quarry_pool), intent(in) :: pool
    integer(int32), pointer, intent(out) :: array(:, :, :)
    integer(int64), intent(in) :: extents(:)
    integer, intent(out), optional :: status
    type(c_ptr) :: memory
    logical :: is_empty

    nullify (array)
    call take(pool, 3, extents, int32_bytes, memory, is_empty, status)
    if (is_empty) array(1:extents(1), 1:extents(2), 1:extents(3)) => no_int32
    if (c_associated(memory)) call c_f_pointer(memory, array, extents)
  end subroutine

  subroutine allocate_int64_1(pool, array, extents, status)
    class(quarry_pool), intent(in) :: pool
    integer(int64), pointer, intent(out) :: array(:)
    integer(int64), intent(in) :: extents(:)
    integer, intent(out), optional :: status
    type(c_ptr) :: memory
    logical :: is_empty

    nullify (array)
    call take(pool, 1, extents, int64_bytes, memory, is_empty, status)
    if (is_empty) array(1:extents(1)) => no_int64
    if (c_associated(memory)) call c_f_pointer(memory, array, extents)
  end subroutine

  subroutine allocate_int64_2(pool, array, extents, status)
    class(quarry_pool), intent(in) :: pool
    integer(int64), pointer, intent(out) :: array(:, :)
    integer(int64), intent(in) :: extents(:)
    integer, intent(out), optional :: status
    type(c_ptr) :: memory
    logical :: is_empty

    nullify (array)
    call take(pool, 2, extents, int64_bytes, memory, is_empty, status)
    if (is_empty) array(1:extents(1), 1:extents(2)) => no_int64
    if (c_associated(memory)) call c_f_pointer(memory, array, extents)
  end subroutine

  subroutine allocate_int64_3(pool, array, extents, status)
    class(quarry_pool), intent(in) :: pool
    integer(int64), pointer, intent(out) :: array(:, :, :)
    integer(int64), intent(in) :: extents(:)
    integer, intent(out), optional :: status
    type(c_ptr) :: memory
    logical :: is_empty

    nullify (array)
    call take(pool, 3, extents, int64_bytes, memory, is_empty, status)
    if (is_empty) array(1:extents(1), 1:extents(2), 1:extents(3)) => no_int64
    if (c_associated(memory)) call c_f_pointer(memory, array, extents)
  end subroutine

  subroutine allocate_real64_1_int32(pool, array, extents, status)
    class(quarry_pool), intent(in) :: pool
    real(real64), pointer, intent(out) :: array(:)
    integer(int32), intent(in) :: extents(:)
    integer, intent(out), optional :: status

    call allocate_real64_1(pool, array, int(extents, int64), status)
  end subroutine

  subroutine allocate_real64_2_int32(pool, array, extents, status)
    class(quarry_pool), intent(in) :: pool
    real(real64), pointer, intent(out) :: array(:, :)
    integer(int32), intent(in) :: extents(:)
    integer, intent(out), optional :: status

    call allocate_real64_2(pool, array, int(extents, int64), status)
  end subroutine

  subroutine allocate_real64_3_int32(pool, array, extents, status)
    class(quarry_pool), intent(in) :: pool
    real(real64), pointer, intent(out) :: array(:, :, :)
    integer(int32), intent(in) :: extents(:)
    integer, intent(out), optional :: status

    call allocate_real64_3(pool, array, int(extents, int64), status)
  end subroutine

  subroutine allocate_real32_1_int32(pool, array, extents, status)
    class(quarry_pool), intent(in) :: pool
    real(real32), pointer, intent(out) :: array(:)
    integer(int32), intent(in) :: extents(:)
    integer, intent(out), optional :: status

    call allocate_real32_1(pool, array, int(extents, int64), status)
  end subroutine

  subroutine allocate_real32_2_int32(pool, array, extents, status)
    class(quarry_pool), intent(in) :: pool
    real(real32), pointer, intent(out) :: array(:, :)
    integer(int32), intent(in) :: extents(:)
    integer, intent(out), optional :: status

    call allocate_real32_2(pool, array, int(extents, int64), status)
  end subroutine

  subroutine allocate_real32_3_int32(pool, array, extents, status)
    class(quarry_pool), intent(in) :: pool
    real(real32), pointer, intent(out) :: array(:, :, :)
    integer(int32), intent(in) :: extents(:)
    integer, intent(out), optional :: status

    call allocate_real32_3(pool, array, int(extents, int64), status)
  end subroutine

  subroutine allocate_int32_1_int32(pool, array, extents, status)
    class(quarry_pool), intent(in) :: pool
    integer(int32), pointer, intent(out) :: array(:)
    integer(int32), intent(in) :: extents(:)
    integer, intent(out), optional :: status

    call allocate_int32_1(pool, array, int(extents, int64), status)
  end subroutine

  subroutine allocate_int32_2_int32(pool, array, extents, status)
    class(quarry_pool), intent(in) :: pool
    integer(int32), pointer, intent(out) :: array(:, :)
    integer(int32), intent(in) :: extents(:)
    integer, intent(out), optional :: status

    call allocate_int32_2(pool, array, int(extents, int64), status)
  end subroutine

  subroutine allocate_int32_3_int32(pool, array, extents, status)
    class(quarry_pool), intent(in) :: pool
    integer(int32), pointer, intent(out) :: array(:, :, :)
    integer(int32), intent(in) :: extents(:)
    integer, intent(out), optional :: status

    call allocate_int32_3(pool, array, int(extents, int64), status)
  end subroutine

  subroutine allocate_int64_1_int32(pool, array, extents, status)
    class(quarry_pool), intent(in) :: pool
    integer(int64), pointer, intent(out) :: array(:)
    integer(int32), intent(in) :: extents(:)
    integer, intent(out), optional :: status

    call allocate_int64_1(pool, array, int(extents, int64), status)
  end subroutine

  subroutine allocate_int64_2_int32(pool, array, extents, status)
    class(quarry_pool), intent(in) :: pool
    integer(int64), pointer, intent(out) :: array(:, :)
    integer(int32), intent(in) :: extents(:)
    integer, intent(out), optional :: status

    call allocate_int64_2(pool, array, int(extents, int64), status)
  end subroutine

  subroutine allocate_int64_3_int32(pool, array, extents, status)
    class(quarry_pool), intent(in) :: pool
    integer(int64), pointer, intent(out) :: array(:, :, :)
    integer(int32), intent(in) :: extents(:)
    integer, intent(out), optional :: status

    call allocate_int64_3(pool, array, int(extents, int64), status)
  end subroutine

  ! Gives an array back that this pool gave, by its first element, and makes `array` null; null is ignored. quarry_not_in_use, and
  ! nothing changes: no allocation of this pool begins there. Sizes are asked for as int64, since those of large arrays overflow
  ! others.
  subroutine deallocate_real64_1(pool, array, status)
    class(quarry_pool), intent(in) :: pool
    real(real64), pointer, intent(inout) :: array(:)
    integer, intent(out), optional :: status
    type(c_ptr) :: memory
    logical :: is_given

    memory = c_null_ptr
    if (associated(array)) then
      if (size(array, kind=int64) > 0) memory = c_loc(array(lbound(array, 1)))
    end if
    call give(pool, memory, is_given, status)
    if (is_given) nullify (array)
  end subroutine

  subroutine deallocate_real64_2(pool, array, status)
    class(quarry_pool), intent(in) :: pool
    real(real64), pointer, intent(inout) :: array(:, :)
    integer, intent(out), optional :: status
    type(c_ptr) :: memory
    logical :: is_given

    memory = c_null_ptr
    if (associated(array)) then
      if (size(array, kind=int64) > 0) memory = c_loc(array(lbound(array, 1), lbound(array, 2)))
    end if
    call give(pool, memory, is_given, status)
    if (is_given) nullify (array)
  end subroutine

  subroutine deallocate_real64_3(pool, array, status)
    class(quarry_pool), intent(in) :: pool
    real(real64), pointer, intent(inout) :: array(:, :, :)
    integer, intent(out), optional :: status
    type(c_ptr) :: memory
    logical :: is_given

    memory = c_null_ptr
    if (associated(array)) then
      if (size(array, kind=int64) > 0) memory = c_loc(array(lbound(array, 1), lbound(array, 2), lbound(array, 3)))
    end if
    call give(pool, memory, is_given, status)
    if (is_given) nullify (array)
  end subroutine

  subroutine deallocate_real32_1(pool, array, status)
    class(quarry_pool), intent(in) :: pool
    real(real32), pointer, intent(inout) :: array(:)
    integer, intent(out), optional :: status
    type(c_ptr) :: memory
    logical :: is_given

    memory = c_null_ptr
    if (associated(array)) then
      if (size(array, kind=int64) > 0) memory = c_loc(array(lbound(array, 1)))
    end if
    call give(pool, memory, is_given, status)
    if (is_given) nullify (array)
  end subroutine

  subroutine deallocate_real32_2(pool, array, status)
    class(quarry_pool), intent(in) :: pool
    real(real32), pointer, intent(inout) :: array(:, :)
    integer, intent(out), optional :: status
    type(c_ptr) :: memory
    logical :: is_given

    memory = c_null_ptr
    if (associated(array)) then
      if (size(array, kind=int64) > 0) memory = c_loc(array(lbound(array, 1), lbound(array, 2)))
    end if
    call give(pool, memory, is_given, status)
    if (is_given) nullify (array)
  end subroutine

  subroutine deallocate_real32_3(pool, array, status)
    class(quarry_pool), intent(in) :: pool
    real(real32), pointer, intent(inout) :: array(:, :, :)
    integer, intent(out), optional :: status
    type(c_ptr) :: memory
    logical :: is_given

    memory = c_null_ptr
    if (associated(array)) then
      if (size(array, kind=int64) > 0) memory = c_loc(array(lbound(array, 1), lbound(array, 2), lbound(array, 3)))
    end if
    call give(pool, memory, is_given, status)
    if (is_given) nullify (array)
  end subroutine

  subroutine deallocate_int32_1(pool, array, status)
    class(quarry_pool), intent(in) :: pool
    integer(int32), pointer, intent(inout) :: array(:)
    integer, intent(out), optional :: status
    type(c_ptr) :: memory
    logical :: is_given

    memory = c_null_ptr
    if (associated(array)) then
      if (size(array, kind=int64) > 0) memory = c_loc(array(lbound(array, 1)))
    end if
    call give(pool, memory, is_given, status)
    if (is_given) nullify (array)
  end subroutine

  subroutine deallocate_int32_2(pool, array, status)
    class(quarry_pool), intent(in) :: pool
    integer(int32), pointer, intent(inout) :: array(:, :)
    integer, intent(out), optional :: status
    type(c_ptr) :: memory
    logical :: is_given

    memory = c_null_ptr
    if (associated(array)) then
      if (size(array, kind=int64) > 0) memory = c_loc(array(lbound(array, 1), lbound(array, 2)))
    end if
    call give(pool, memory, is_given, status)
    if (is_given) nullify (array)
  end subroutine

  subroutine deallocate_int32_3(pool, array, status)
    class(quarry_pool), intent(in) :: pool
    integer(int32), pointer, intent(inout) :: array(:, :, :)
    integer, intent(out), optional :: status
    type(c_ptr) :: memory
    logical :: is_given

    memory = c_null_ptr
    if (associated(array)) then
      if (size(array, kind=int64) > 0) memory = c_loc(array(lbound(array, 1), lbound(array, 2), lbound(array, 3)))
    end if
    call give(pool, memory, is_given, status)
    if (is_given) nullify (array)
  end subroutine

  subroutine deallocate_int64_1(pool, array, status)
    class(quarry_pool), intent(in) :: pool
    integer(int64), pointer, intent(inout) :: array(:)
    integer, intent(out), optional :: status
    type(c_ptr) :: memory
    logical :: is_given

    memory = c_null_ptr
    if (associated(array)) then
      if (size(array, kind=int64) > 0) memory = c_loc(array(lbound(array, 1)))
    end if
    call give(pool, memory, is_given, status)
    if (is_given) nullify (array)
  end subroutine

  subroutine deallocate_int64_2(pool, array, status)
    class(quarry_pool), intent(in) :: pool
    integer(int64), pointer, intent(inout) :: array(:, :)
    integer, intent(out), optional :: status
    type(c_ptr) :: memory
    logical :: is_given

    memory = c_null_ptr
    if (associated(array)) then
      if (size(array, kind=int64) > 0) memory = c_loc(array(lbound(array, 1), lbound(array, 2)))
    end if
    call give(pool, memory, is_given, status)
    if (is_given) nullify (array)
  end subroutine

  subroutine deallocate_int64_3(pool, array, status)
    class(quarry_pool), intent(in) :: pool
    integer(int64), pointer, intent(inout) :: array(:, :, :)
    integer, intent(out), optional :: status
    type(c_ptr) :: memory
    logical :: is_given

    memory = c_null_ptr
    if (associated(array)) then
      if (size(array, kind=int64) > 0) memory = c_loc(array(lbound(array, 1), lbound(array, 2), lbound(array, 3)))
    end if
    call give(pool, memory, is_given, status)
    if (is_given) nullify (array)
  end subroutine

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
      call settle(c_pool_allocate(pool%handle, bytes, memory), status)
    end if
  end subroutine

  ! Gives memory back; null is given.
  subroutine give(pool, memory, is_given, status)
    class(quarry_pool), intent(in) :: pool
    type(c_ptr), intent(in) :: memory
    logical, intent(out) :: is_given
    integer, intent(out), optional :: status
    integer(c_int) :: code

    code = c_pool_deallocate(pool%handle, memory)
    is_given = code == quarry_ok
    call settle(code, status)
  end subroutine

  ! Ends a call that C decided.
  subroutine settle(code, status)
    integer(c_int), intent(in) :: code
    integer, intent(out), optional :: status

    if (code /= quarry_ok) own_length = 0
    call conclude(code, status)
  end subroutine

  ! Ends a call that this module refuses.
  subroutine refuse(message, status)
    character(*), intent(in) :: message
    integer, intent(out), optional :: status

    own_error = message
    own_length = min(len(message), len(own_error))
    call conclude(quarry_bad_argument, status)
  end subroutine

  subroutine conclude(code, status)
    integer(c_int), intent(in) :: code
    integer, intent(out), optional :: status

    if (present(status)) then
      status = int(code)
    else if (code /= quarry_ok) then
      write (error_unit, '(2a)') 'quarry: ', quarry_last_error()
      error stop 1
    end if
  end subroutine

  ! The text as C reads it.
  pure function c_text(text) result(chars)
    character(*), intent(in) :: text
    character(kind=c_char), allocatable :: chars(:)
    integer :: at

    allocate (chars(len_trim(text) + 1))
    do at = 1, len_trim(text)
      chars(at) = text(at:at)
    end do
    chars(size(chars)) = c_null_char
  end function

  ! These two give texts of a fixed length, and quarry_last_error one of a length worked out beforehand: where a result is
  ! allocated, gfortran keeps its length in a static variable of the caller, over which threads would race.
  pure function decimal(number) result(text)
    integer(int64), intent(in) :: number
    character(20) :: text

    write (text, '(i0)') number
  end function

  ! "2 x 3" for [2, 3]; for extents of rank 1 to 3.
  pure function product_text(extents) result(text)
    integer(int64), intent(in) :: extents(:)
    character(66) :: text
    integer :: dimension

    text = decimal(extents(1))
    do dimension = 2, size(extents)
      text = trim(text) // ' x ' // decimal(extents(dimension))
    end do
  end function

end module
