! SPDX-License-Identifier: Apache-2.0
! The C API of quarry/host/c_api.h as Fortran sees it. Programs use the module quarry.
module quarry_c
  use, intrinsic :: iso_c_binding, only: c_char, c_int, c_int32_t, c_int64_t, c_null_ptr, c_ptr, &
    c_size_t
  implicit none
  public

  ! The status of a call. The C header explains the values.
  enum, bind(c)
    enumerator :: quarry_ok = 0
    enumerator :: quarry_out_of_memory = 1
    enumerator :: quarry_bad_argument = 2
    enumerator :: quarry_resource_failed = 3
    enumerator :: quarry_not_in_use = 4
    enumerator :: quarry_internal = 5
    enumerator :: quarry_destroyed = 6
  end enum

  ! The resources of pools. quarry_shared occurs in records only; no pool can be made over it.
  enum, bind(c)
    enumerator :: quarry_host = 0
    enumerator :: quarry_device = 1
    enumerator :: quarry_pinned = 2
    enumerator :: quarry_managed = 3
    enumerator :: quarry_file = 4
    enumerator :: quarry_shared = 5
  end enum

  ! The counts of a pool. All are bytes except `allocations_in_use`, the blocks and `invalid_frees`,
  ! which are numbers.
  type, bind(c) :: quarry_pool_counts
    integer(c_int64_t) :: reserved = 0
    integer(c_int64_t) :: peak_reserved = 0
    integer(c_int64_t) :: allocated = 0
    integer(c_int64_t) :: peak_allocated = 0
    integer(c_int64_t) :: allocations_in_use = 0
    integer(c_int64_t) :: blocks_allocated = 0
    integer(c_int64_t) :: blocks_returned = 0
    integer(c_int64_t) :: invalid_frees = 0
  end type

  ! The allocation that contains an address.
  type, bind(c) :: quarry_record
    integer(c_int32_t) :: allocator = 0           ! the pool's id
    integer(c_int32_t) :: resource = 0            ! for instance quarry_host
    integer(c_int32_t) :: device = 0
    type(c_ptr) :: base = c_null_ptr
    integer(c_int64_t) :: size = 0                ! requested bytes
  end type

  ! quarry_allocator_counts as C lays it out.
  type, bind(c) :: c_allocator_counts
    integer(c_int64_t) :: reserved = 0
    integer(c_int64_t) :: peak_reserved = 0
    integer(c_int64_t) :: allocated = 0
    integer(c_int64_t) :: peak_allocated = 0
    integer(c_int64_t) :: allocations_in_use = 0
    integer(c_int64_t) :: invalid_frees = 0
  end type

  ! quarry_pool_options as C lays it out.
  type, bind(c) :: c_pool_options
    integer(c_int64_t) :: size
    integer(c_int64_t) :: first_block
    integer(c_int64_t) :: next_block
    integer(c_int32_t) :: growth_percent
    integer(c_int64_t) :: alignment
    integer(c_int64_t) :: max_bytes
    integer(c_int) :: device
    type(c_ptr) :: directory
    type(c_ptr) :: name
    integer(c_int64_t) :: red_zone
    integer(c_int64_t) :: keeps_backtraces
  end type

  interface
    function c_pool_fill_options(options, size) bind(c, name='quarry_pool_fill_options') &
      result(code)
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

    function c_pool_get_overruns(pool, overruns) bind(c, name='quarry_pool_get_overruns') &
      result(code)
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

    function c_allocator_make(name, description, allocator) bind(c, name='quarry_allocator_make') &
      result(code)
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

    function c_allocator_add_alias(alias, name) bind(c, name='quarry_allocator_add_alias') &
      result(code)
      import :: c_char, c_int
      character(kind=c_char), intent(in) :: alias(*)
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int) :: code
    end function

    function c_allocator_remove_alias(alias) bind(c, name='quarry_allocator_remove_alias') &
      result(code)
      import :: c_char, c_int
      character(kind=c_char), intent(in) :: alias(*)
      integer(c_int) :: code
    end function

    function c_allocator_destroy(name, discards) bind(c, name='quarry_allocator_destroy') &
      result(code)
      import :: c_char, c_int
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int), value :: discards
      integer(c_int) :: code
    end function

    function c_allocator_allocate(allocator, size, memory) &
      bind(c, name='quarry_allocator_allocate') result(code)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: allocator
      integer(c_int64_t), value :: size
      type(c_ptr), intent(out) :: memory
      integer(c_int) :: code
    end function

    function c_allocator_deallocate(allocator, memory) &
      bind(c, name='quarry_allocator_deallocate') result(code)
      import :: c_int, c_ptr
      type(c_ptr), value :: allocator
      type(c_ptr), value :: memory
      integer(c_int) :: code
    end function

    function c_allocator_size_of(allocator, memory, size) &
      bind(c, name='quarry_allocator_size_of') result(code)
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

    function c_allocator_get_counts(allocator, counts) &
      bind(c, name='quarry_allocator_get_counts') result(code)
      import :: c_allocator_counts, c_int, c_ptr
      type(c_ptr), value :: allocator
      type(c_allocator_counts), intent(inout) :: counts
      integer(c_int) :: code
    end function

    function c_allocator_label(allocator, memory, name) bind(c, name='quarry_allocator_label') &
      result(code)
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

    function c_reallocate(memory, size, result_address) bind(c, name='quarry_reallocate') &
      result(code)
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

    function c_allocator_coalesce(allocator, wanted) bind(c, name='quarry_allocator_coalesce') &
      result(code)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: allocator
      integer(c_int64_t), value :: wanted
      integer(c_int) :: code
    end function

    function c_stream_pool_create(options, pool) bind(c, name='quarry_stream_pool_create') &
      result(code)
      import :: c_int, c_pool_options, c_ptr
      type(c_pool_options), intent(in), optional :: options
      type(c_ptr), intent(out) :: pool
      integer(c_int) :: code
    end function

    function c_stream_pool_destroy(pool) bind(c, name='quarry_stream_pool_destroy') result(code)
      import :: c_int, c_ptr
      type(c_ptr), value :: pool
      integer(c_int) :: code
    end function

    function c_stream_pool_allocate(pool, size, stream, memory) &
      bind(c, name='quarry_stream_pool_allocate') result(code)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: pool
      integer(c_int64_t), value :: size
      type(c_ptr), value :: stream
      type(c_ptr), intent(out) :: memory
      integer(c_int) :: code
    end function

    function c_stream_pool_deallocate(pool, memory, stream) &
      bind(c, name='quarry_stream_pool_deallocate') result(code)
      import :: c_int, c_ptr
      type(c_ptr), value :: pool
      type(c_ptr), value :: memory
      type(c_ptr), value :: stream
      integer(c_int) :: code
    end function

    function c_stream_pool_share(pool, stream) bind(c, name='quarry_stream_pool_share') result(code)
      import :: c_int, c_ptr
      type(c_ptr), value :: pool
      type(c_ptr), value :: stream
      integer(c_int) :: code
    end function

    function c_stream_pool_forget(pool, stream) bind(c, name='quarry_stream_pool_forget') &
      result(code)
      import :: c_int, c_ptr
      type(c_ptr), value :: pool
      type(c_ptr), value :: stream
      integer(c_int) :: code
    end function

    function c_stream_pool_release(pool) bind(c, name='quarry_stream_pool_release') result(code)
      import :: c_int, c_ptr
      type(c_ptr), value :: pool
      integer(c_int) :: code
    end function

    function c_stream_pool_get_counts(pool, counts) bind(c, name='quarry_stream_pool_get_counts') &
      result(code)
      import :: c_int, c_ptr, quarry_pool_counts
      type(c_ptr), value :: pool
      type(quarry_pool_counts), intent(inout) :: counts
      integer(c_int) :: code
    end function

    function c_segment_open(name, size, segment) bind(c, name='quarry_segment_open') result(code)
      import :: c_char, c_int, c_int64_t, c_ptr
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int64_t), value :: size
      type(c_ptr), intent(out) :: segment
      integer(c_int) :: code
    end function

    function c_segment_close(segment) bind(c, name='quarry_segment_close') result(code)
      import :: c_int, c_ptr
      type(c_ptr), value :: segment
      integer(c_int) :: code
    end function

    function c_segment_allocate(segment, name, size, memory) &
      bind(c, name='quarry_segment_allocate') result(code)
      import :: c_char, c_int, c_int64_t, c_ptr
      type(c_ptr), value :: segment
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int64_t), value :: size
      type(c_ptr), intent(out) :: memory
      integer(c_int) :: code
    end function

    function c_segment_find(segment, name, memory) bind(c, name='quarry_segment_find') result(code)
      import :: c_char, c_int, c_ptr
      type(c_ptr), value :: segment
      character(kind=c_char), intent(in) :: name(*)
      type(c_ptr), intent(out) :: memory
      integer(c_int) :: code
    end function

    function c_segment_release(segment, memory) bind(c, name='quarry_segment_release') result(code)
      import :: c_int, c_ptr
      type(c_ptr), value :: segment
      type(c_ptr), value :: memory
      integer(c_int) :: code
    end function

    function c_segment_offset_of(segment, memory, offset) &
      bind(c, name='quarry_segment_offset_of') result(code)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: segment
      type(c_ptr), value :: memory
      integer(c_int64_t), intent(inout) :: offset
      integer(c_int) :: code
    end function

    function c_segment_at(segment, offset, memory) bind(c, name='quarry_segment_at') result(code)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: segment
      integer(c_int64_t), value :: offset
      type(c_ptr), intent(out) :: memory
      integer(c_int) :: code
    end function
  end interface

end module
