! SPDX-License-Identifier: Apache-2.0
! Pools of device memory in the order of CUDA's streams. Programs use the module quarry.
module quarry_streams
  use, intrinsic :: iso_c_binding, only: c_associated, c_int, c_null_ptr, c_ptr
  use, intrinsic :: iso_fortran_env, only: int64
  use quarry_c
  use quarry_calls
  implicit none
  private

  public :: quarry_stream_pool

  ! Device memory of one GPU. What a stream freed serves that stream again at once, and other streams after they were made to wait.
  ! `stream` is a cudaStream_t as type(c_ptr); c_null_ptr is the legacy default stream. It is a handle, as a quarry_pool is.
  type :: quarry_stream_pool
    private
    type(c_ptr) :: handle = c_null_ptr
  contains
    procedure, public :: create
    procedure, public :: destroy
    procedure, public :: allocate => allocate_bytes
    procedure, public :: deallocate => deallocate_bytes
    procedure, public :: share
    procedure, public :: forget
    procedure, public :: release
    procedure, public :: counts
  end type

contains

  ! Makes a pool of the GPU `options%device`. quarry_bad_argument: an option is out of range, red zones or backtraces are wanted, or
  ! this is a pool already. quarry_resource_failed: there is no CUDA. The pool is then as it was.
  subroutine create(pool, options, status)
    class(quarry_stream_pool), intent(inout) :: pool
    type(quarry_pool_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    type(c_pool_options) :: wanted
    type(option_texts), target :: texts
    type(c_ptr) :: handle
    integer(c_int) :: code

    if (c_associated(pool%handle)) then
      call refuse('quarry_stream_pool create: this is a pool already; destroy it before', status)
      return
    end if
    if (present(options)) then
      if (.not. read_options('quarry_stream_pool create', options, wanted, texts, status)) return
      code = c_stream_pool_create(wanted, handle)
    else
      code = c_stream_pool_create(pool=handle)
    end if
    if (code == quarry_ok) pool%handle = handle
    call settle(code, status)
  end subroutine

  ! Waits until the streams are done, and returns all memory of the pool, also what is in use. Nothing happens if it is no pool.
  subroutine destroy(pool, status)
    class(quarry_stream_pool), intent(inout) :: pool
    integer, intent(out), optional :: status
    type(c_ptr) :: handle

    handle = pool%handle
    pool%handle = c_null_ptr
    call settle(c_stream_pool_destroy(handle), status)
  end subroutine

  ! `memory` is null unless quarry_ok; `stream` may use it from now on.
  subroutine allocate_bytes(pool, memory, size, stream, status)
    class(quarry_stream_pool), intent(in) :: pool
    type(c_ptr), intent(out) :: memory
    integer(int64), intent(in) :: size
    type(c_ptr), intent(in) :: stream
    integer, intent(out), optional :: status

    memory = c_null_ptr
    if (size < 0) then
      call refuse('quarry_stream_pool allocate: the size of ' // trim(decimal(size)) // ' bytes is negative', status)
    else
      call settle(c_stream_pool_allocate(pool%handle, size, stream, memory), status)
    end if
  end subroutine

  ! Returns memory once the work that `stream` has now is done, and makes `memory` null. A caller who used it on other streams makes
  ! `stream` wait for them. quarry_not_in_use, and nothing changes: no allocation of this pool begins there.
  subroutine deallocate_bytes(pool, memory, stream, status)
    class(quarry_stream_pool), intent(in) :: pool
    type(c_ptr), intent(inout) :: memory
    type(c_ptr), intent(in) :: stream
    integer, intent(out), optional :: status
    integer(c_int) :: code

    code = c_stream_pool_deallocate(pool%handle, memory, stream)
    if (code == quarry_ok) memory = c_null_ptr
    call settle(code, status)
  end subroutine

  ! Makes what `stream` freed available to all streams, by an event that is recorded now.
  subroutine share(pool, stream, status)
    class(quarry_stream_pool), intent(in) :: pool
    type(c_ptr), intent(in) :: stream
    integer, intent(out), optional :: status

    call settle(c_stream_pool_share(pool%handle, stream), status)
  end subroutine

  ! Says that a stream will not come again. No program needs to.
  subroutine forget(pool, stream, status)
    class(quarry_stream_pool), intent(in) :: pool
    type(c_ptr), intent(in) :: stream
    integer, intent(out), optional :: status

    call settle(c_stream_pool_forget(pool%handle, stream), status)
  end subroutine

  ! Returns the blocks in which nothing is in use, after waiting for the streams that used them.
  subroutine release(pool, status)
    class(quarry_stream_pool), intent(in) :: pool
    integer, intent(out), optional :: status

    call settle(c_stream_pool_release(pool%handle), status)
  end subroutine

  ! What the pool counts; zeros if that fails.
  subroutine counts(pool, all, status)
    class(quarry_stream_pool), intent(in) :: pool
    type(quarry_pool_counts), intent(out) :: all
    integer, intent(out), optional :: status

    call settle(c_stream_pool_get_counts(pool%handle, all), status)
  end subroutine

end module
