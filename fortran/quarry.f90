! SPDX-License-Identifier: Apache-2.0
! Host pools for Fortran: typed arrays out of a pool, over the C API of quarry/host/c_api.h.
!
! Whatever may fail is a subroutine whose last argument is `status`, one of the quarry_* states below. Where a caller leaves it out,
! a failure prints quarry_last_error() and ends the program by `error stop`. Sizes are bytes in integer(int64). All may be called
! from any thread; calls to one pool take turns.
module quarry
  use, intrinsic :: iso_c_binding, only: c_associated, c_char, c_f_pointer, c_int, c_int32_t, c_int64_t, c_loc, c_null_char, &
    c_null_ptr, c_ptr, c_size_t, c_sizeof
  use, intrinsic :: iso_fortran_env, only: error_unit, int32, int64, real32, real64
  implicit none
  private

  public :: quarry_pool, quarry_pool_options, quarry_pool_counts, quarry_record
  public :: quarry_ok, quarry_out_of_memory, quarry_bad_argument, quarry_resource_failed, quarry_not_in_use, quarry_internal, &
    quarry_destroyed
  public :: quarry_host, quarry_device, quarry_pinned, quarry_managed, quarry_file, quarry_shared
  public :: quarry_pool_default_options, quarry_find, quarry_copy, quarry_fill, quarry_report, quarry_last_error
  public :: quarry_version, quarry_version_text
  public :: quarry_add_alias, quarry_remove_alias, quarry_destroy, quarry_deallocate, quarry_reallocate, quarry_move

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
    integer(int32) :: growth_percent = 4          ! the least of a later block, in percent of what the pool holds
    integer(int64) :: alignment = 16              ! bytes; a power of two
    integer(int64) :: most = -1                   ! bytes that the pool holds at most; -1: no limit
    integer(c_int) :: device = 0                  ! quarry_device: its number
    character(:), allocatable :: directory        ! quarry_file: where the files go
    character(:), allocatable :: name             ! for reports; not allocated: "allocator N"
    integer(int64) :: red_zone = 0                ! bytes behind each allocation that nobody may write, 65536 at most; 0: none
    logical :: keeps_backtraces = .false.         ! reports say where each allocation was made
  end type

  ! What a pool counts: bytes, but for `chunks_allocated`, the blocks and `invalid_frees`.
  type, bind(c) :: quarry_pool_counts
    integer(c_int64_t) :: reserved = 0
    integer(c_int64_t) :: peak_reserved = 0
    integer(c_int64_t) :: allocated = 0
    integer(c_int64_t) :: peak_allocated = 0
    integer(c_int64_t) :: chunks_allocated = 0
    integer(c_int64_t) :: blocks_allocated = 0
    integer(c_int64_t) :: blocks_returned = 0
    integer(c_int64_t) :: invalid_frees = 0
  end type

  ! The allocation that an address belongs to.
  type, bind(c) :: quarry_record
    integer(c_int32_t) :: allocator = 0           ! the pool's id
    integer(c_int32_t) :: resource = 0            ! quarry_host and so on
    integer(c_int32_t) :: device = 0
    type(c_ptr) :: begin = c_null_ptr
    integer(c_int64_t) :: size = 0                ! bytes, as asked for
  end type

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
    procedure, public :: size_of
    procedure, public :: counts
    procedure, public :: overruns
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

  ! quarry_allocator_counts as C lays it out.
  type, bind(c) :: c_allocator_counts
    integer(c_int64_t) :: reserved = 0
    integer(c_int64_t) :: peak_reserved = 0
    integer(c_int64_t) :: allocated = 0
    integer(c_int64_t) :: peak_allocated = 0
    integer(c_int64_t) :: allocations = 0
    integer(c_int64_t) :: invalid_frees = 0
  end type

  ! quarry_pool_options as C lays it out.
  type, bind(c) :: c_pool_options
    integer(c_int64_t) :: size
    integer(c_int64_t) :: first_block
    integer(c_int64_t) :: next_block
    integer(c_int32_t) :: growth_percent
    integer(c_int64_t) :: alignment
    integer(c_int64_t) :: most
    integer(c_int) :: device
    type(c_ptr) :: directory
    type(c_ptr) :: name
    integer(c_int64_t) :: red_zone
    integer(c_int64_t) :: keeps_backtraces
  end type

  interface
    function c_pool_fill_options(options, size) bind(c, name='quarry_pool_fill_options') result(code)
      import :: c_int, c_int64_t, c_pool_options
      type(c_pool_options), intent(out) :: options
      integer(c_int64_t), value :: size
      integer(c_int) :: code
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

    function c_pool_get_overruns(pool, overruns) bind(c, name='quarry_pool_get_overruns') result(code)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: pool
      integer(c_int64_t), intent(inout) :: overruns
      integer(c_int) :: code
    end function

    function c_pool_label(pool, memory, name) bind(c, name='quarry_pool_label') result(code)
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

    function c_allocator_make(name, description, allocator) bind(c, name='quarry_allocator_make') result(code)
      import :: c_char, c_int, c_ptr
      character(kind=c_char), intent(in) :: name(*)
      character(kind=c_char), intent(in) :: description(*)
      type(c_ptr), intent(out) :: allocator
      integer(c_int) :: code
    end function

    function c_allocator_find(name, allocator) bind(c, name='quarry_allocator_find') result(code)
      import :: c_char, c_int, c_ptr
      character(kind=c_char), intent(in) :: name(*)
      type(c_ptr), intent(out) :: allocator
      integer(c_int) :: code
    end function

    function c_allocator_of(address, allocator) bind(c, name='quarry_allocator_of') result(code)
      import :: c_int, c_ptr
      type(c_ptr), value :: address
      type(c_ptr), intent(out) :: allocator
      integer(c_int) :: code
    end function

    function c_allocator_add_alias(alias, name) bind(c, name='quarry_allocator_add_alias') result(code)
      import :: c_char, c_int
      character(kind=c_char), intent(in) :: alias(*)
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int) :: code
    end function

    function c_allocator_remove_alias(alias) bind(c, name='quarry_allocator_remove_alias') result(code)
      import :: c_char, c_int
      character(kind=c_char), intent(in) :: alias(*)
      integer(c_int) :: code
    end function

    function c_allocator_destroy(name, discards) bind(c, name='quarry_allocator_destroy') result(code)
      import :: c_char, c_int
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int), value :: discards
      integer(c_int) :: code
    end function

    function c_allocator_allocate(allocator, size, memory) bind(c, name='quarry_allocator_allocate') result(code)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: allocator
      integer(c_int64_t), value :: size
      type(c_ptr), intent(out) :: memory
      integer(c_int) :: code
    end function

    function c_allocator_deallocate(allocator, memory) bind(c, name='quarry_allocator_deallocate') result(code)
      import :: c_int, c_ptr
      type(c_ptr), value :: allocator
      type(c_ptr), value :: memory
      integer(c_int) :: code
    end function

    function c_allocator_size_of(allocator, memory, size) bind(c, name='quarry_allocator_size_of') result(code)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: allocator
      type(c_ptr), value :: memory
      integer(c_int64_t), intent(inout) :: size
      integer(c_int) :: code
    end function

    function c_allocator_release(allocator) bind(c, name='quarry_allocator_release') result(code)
      import :: c_int, c_ptr
      type(c_ptr), value :: allocator
      integer(c_int) :: code
    end function

    function c_allocator_get_counts(allocator, counts) bind(c, name='quarry_allocator_get_counts') result(code)
      import :: c_allocator_counts, c_int, c_ptr
      type(c_ptr), value :: allocator
      type(c_allocator_counts), intent(inout) :: counts
      integer(c_int) :: code
    end function

    function c_allocator_label(allocator, memory, name) bind(c, name='quarry_allocator_label') result(code)
      import :: c_char, c_int, c_ptr
      type(c_ptr), value :: allocator
      type(c_ptr), value :: memory
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int) :: code
    end function

    function c_allocator_id(allocator, id) bind(c, name='quarry_allocator_id') result(code)
      import :: c_int, c_int32_t, c_ptr
      type(c_ptr), value :: allocator
      integer(c_int32_t), intent(inout) :: id
      integer(c_int) :: code
    end function

    function c_deallocate(memory) bind(c, name='quarry_deallocate') result(code)
      import :: c_int, c_ptr
      type(c_ptr), value :: memory
      integer(c_int) :: code
    end function

    function c_reallocate(memory, size, result_address) bind(c, name='quarry_reallocate') result(code)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: memory
      integer(c_int64_t), value :: size
      type(c_ptr), intent(out) :: result_address
      integer(c_int) :: code
    end function

    function c_move(memory, to, result_address) bind(c, name='quarry_move') result(code)
      import :: c_int, c_ptr
      type(c_ptr), value :: memory
      type(c_ptr), value :: to
      type(c_ptr), intent(out) :: result_address
      integer(c_int) :: code
    end function

    pure function quarry_version() bind(c, name='quarry_version') result(number)
      import :: c_int32_t
      integer(c_int32_t) :: number
    end function

    pure function c_version_text() bind(c, name='quarry_version_text') result(text)
      import :: c_ptr
      type(c_ptr) :: text
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

  ! What arrays without elements point to. They take no memory of the pool, since c_loc gives no address for them to be freed
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

    call settle(c_pool_fill_options(usual, c_sizeof(usual)))
    options%first_block = usual%first_block
    options%next_block = usual%next_block
    options%growth_percent = usual%growth_percent
    options%alignment = usual%alignment
    options%most = usual%most
    options%device = usual%device
    options%red_zone = usual%red_zone
    options%keeps_backtraces = usual%keeps_backtraces /= 0
  end function

  ! Makes a pool over the resource `from`, quarry_host and so on. quarry_bad_argument: an option is out of range, or this is a pool
  ! without a name already, which nothing else might stand for. quarry_resource_failed: the system refused. The pool is then as it
  ! was.
  subroutine create(pool, from, options, status)
    class(quarry_pool), intent(inout) :: pool
    integer(c_int), intent(in) :: from
    type(quarry_pool_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    type(c_pool_options) :: wanted
    character(kind=c_char), allocatable, target :: directory(:), name(:)
    type(c_ptr) :: handle
    integer(c_int) :: code

    if (would_lose_a_pool(pool, 'create', status)) return
    if (.not. present(options)) then
      code = c_pool_create(from, pool=handle)
      call take_handle(pool, code, handle, .false., status)
      return
    end if
    ! C would read these as enormous ones.
    if (min(options%first_block, options%next_block, options%alignment, options%red_zone) < 0 .or. options%most < -1 .or. &
      options%growth_percent < 0) then
      call refuse('quarry_pool create: an option is negative; -1 is for `most` only', status)
      return
    end if
    wanted = c_pool_options(c_sizeof(wanted), options%first_block, options%next_block, options%growth_percent, options%alignment, &
      options%most, options%device, c_null_ptr, c_null_ptr, options%red_zone, merge(1_c_int64_t, 0_c_int64_t, &
      options%keeps_backtraces))
    if (allocated(options%directory)) then
      allocate (directory, source=c_text(options%directory))
      wanted%directory = c_loc(directory)
    end if
    if (allocated(options%name)) then
      allocate (name, source=c_text(options%name))
      wanted%name = c_loc(name)
    end if
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
    all%chunks_allocated = named%allocations
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
  subroutine note(pool, memory, name, status)
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

  ! The version of the library as text, such as "1.2.3"; quarry_version gives the same as a number, such as 10203.
  function quarry_version_text() result(text)
    character(version_length()) :: text
    character(kind=c_char), pointer :: chars(:)
    integer :: at

    call c_f_pointer(c_version_text(), chars, [len(text)])
    do at = 1, len(text)
      text(at:at) = chars(at)
    end do
  end function

  pure function version_length() result(length)
    integer :: length

    length = int(c_strlen(c_version_text()))
  end function

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
