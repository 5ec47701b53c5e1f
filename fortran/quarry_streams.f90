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

  ! Device memory of one GPU. A stream reuses memory that it freed at once. Another stream reuses
  ! that memory only after the pool has made it wait. `stream` is a cudaStream_t as type(c_ptr);
  ! c_null_ptr is the legacy default stream. The type is a handle, as quarry_pool is.
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

  ! Makes a pool of the GPU `options%device`. Fails with quarry_bad_argument if an option is out of
  ! range, if the options have red zones or backtraces, or if `pool` is already a pool. Fails with
  ! quarry_resource_failed if there is no CUDA. A failed call does not change `pool`.
  subroutine create(pool, options, status)
    class(quarry_stream_pool), intent(inout) :: pool
    type(quarry_pool_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    type(c_pool_options) :: wanted
    type(option_texts), target :: texts
    type(c_ptr) :: handle
    integer(c_int) :: code

    if (c_associated(pool%handle)) then
      call refuse('quarry_stream_pool create: this is a pool already; destroy it first', status)
      return
    end if
    if (present(options)) then
      if (.not. read_options('quarry_stream_pool create', options, wanted, texts, status)) return
      code = c_stream_pool_create(wanted, handle)
    else
      code = c_stream_pool_create(pool=handle)
    end if
    if (code == quarry_ok) pool%handle = handle
    call finish_call(code, status)
  end subroutine

  ! Waits until the streams are done, destroys the pool and returns all its memory, including
  ! allocations in use. Does nothing if `pool` is null.
  subroutine destroy(pool, status)
    class(quarry_stream_pool), intent(inout) :: pool
    integer, intent(out), optional :: status
    type(c_ptr) :: handle

    handle = pool%handle
    pool%handle = c_null_ptr
    call finish_call(c_stream_pool_destroy(handle), status)
  end subroutine

  ! Allocates memory that `stream` may use from now on. `memory` is null unless quarry_ok.
  subroutine allocate_bytes(pool, memory, size, stream, status)
    class(quarry_stream_pool), intent(in) :: pool
    type(c_ptr), intent(out) :: memory
    integer(int64), intent(in) :: size
    type(c_ptr), intent(in) :: stream
    integer, intent(out), optional :: status

    memory = c_null_ptr
    if (size < 0) then
      call refuse('quarry_stream_pool allocate: the size of ' // trim(decimal(size)) // &
        ' bytes is negative', status)
    else
      call finish_call(c_stream_pool_allocate(pool%handle, size, stream, memory), status)
    end if
  end subroutine

  ! Frees memory after the work that `stream` has now, and sets `memory` to null. If other streams
  ! used the memory, the caller must first make `stream` wait for them. Fails with quarry_not_in_use
  ! and changes nothing if `memory` is not an allocation of this pool.
  subroutine deallocate_bytes(pool, memory, stream, status)
    class(quarry_stream_pool), intent(in) :: pool
    type(c_ptr), intent(inout) :: memory
    type(c_ptr), intent(in) :: stream
    integer, intent(out), optional :: status
    integer(c_int) :: code

    code = c_stream_pool_deallocate(pool%handle, memory, stream)
    if (code == quarry_ok) memory = c_null_ptr
    call finish_call(code, status)
  end subroutine

  ! Makes the memory that `stream` freed available to all streams, by an event that is recorded now.
  subroutine share(pool, stream, status)
    class(quarry_stream_pool), intent(in) :: pool
    type(c_ptr), intent(in) :: stream
    integer, intent(out), optional :: status

    call finish_call(c_stream_pool_share(pool%handle, stream), status)
  end subroutine

  ! Tells the pool that a stream will not be used again. This call is optional.
  subroutine forget(pool, stream, status)
    class(quarry_stream_pool), intent(in) :: pool
    type(c_ptr), intent(in) :: stream
    integer, intent(out), optional :: status

    call finish_call(c_stream_pool_forget(pool%handle, stream), status)
  end subroutine

  ! Returns the blocks without allocations, after waiting for the streams that used them.
  subroutine release(pool, status)
    class(quarry_stream_pool), intent(in) :: pool
    integer, intent(out), optional :: status

    call finish_call(c_stream_pool_release(pool%handle), status)
  end subroutine

  ! The counts of the pool; zeros if the call fails.
  subroutine counts(pool, counted, status)
    class(quarry_stream_pool), intent(in) :: pool
    type(quarry_pool_counts), intent(out) :: counted
    integer, intent(out), optional :: status

    call finish_call(c_stream_pool_get_counts(pool%handle, counted), status)
  end subroutine

end module
