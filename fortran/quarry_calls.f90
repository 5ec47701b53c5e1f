! SPDX-License-Identifier: Apache-2.0
! The code that the modules of Quarry share: ends of calls, texts and options. Programs use the
! module quarry.
module quarry_calls
  use, intrinsic :: iso_c_binding, only: c_char, c_f_pointer, c_int, c_int64_t, c_loc, &
    c_null_char, c_null_ptr, c_ptr, c_sizeof
  use, intrinsic :: iso_fortran_env, only: error_unit, int32, int64
  use quarry_c
  implicit none
  private

  public :: quarry_pool_options, quarry_pool_default_options, quarry_last_error, quarry_version_text
  public :: option_texts, read_options, finish_call, refuse, conclude, c_text, decimal, product_text

  ! The options of a pool. The initial values equal quarry_pool_default_options(). Trailing blanks
  ! of the texts are ignored.
  type :: quarry_pool_options
    integer(int64) :: first_block = 0             ! minimum bytes of the first block; 0: 64 MiB
    integer(int64) :: next_block = 0              ! minimum bytes of later blocks; 0: 8 MiB
    ! minimum of a later block, in percent of the reserved bytes
    integer(int32) :: growth_percent = 4
    integer(int64) :: alignment = 16              ! bytes; a power of two
    integer(int64) :: max_bytes = 0               ! limit on the reserved bytes; 0: no limit
    integer(c_int) :: device = 0                  ! quarry_device: the number of the GPU
    character(:), allocatable :: directory        ! quarry_file: the directory of the files
    character(:), allocatable :: name             ! for reports; not allocated: "allocator N"
    integer(int64) :: red_zone = 0  ! guard bytes after each allocation, 65536 at most; 0: none
    logical :: keeps_backtraces = .false.         ! reports show the backtrace of each allocation
  end type

  ! The texts to which the options for C point.
  type :: option_texts
    character(kind=c_char), allocatable :: directory(:), name(:)
  end type

  ! The message of this module's latest refusal, until a call of C fails. Each thread of OpenMP has
  ! its own message, as in C; other threads share one.
  character(512) :: own_error = ''
  integer :: own_length = 0
  !$omp threadprivate(own_error, own_length)

contains

  ! The default options of the library.
  function quarry_pool_default_options() result(options)
    type(quarry_pool_options) :: options
    type(c_pool_options) :: usual

    call finish_call(c_pool_fill_options(usual, c_sizeof(usual)))
    options%first_block = usual%first_block
    options%next_block = usual%next_block
    options%growth_percent = usual%growth_percent
    options%alignment = usual%alignment
    options%max_bytes = usual%max_bytes
    options%device = usual%device
    options%red_zone = usual%red_zone
    options%keeps_backtraces = usual%keeps_backtraces /= 0
  end function

  ! Sets `wanted` to the options in C's form; they point to `texts`. If an option is negative, which
  ! C would read as a huge value, ends the call and returns false.
  function read_options(call_name, options, wanted, texts, status) result(are_fine)
    character(*), intent(in) :: call_name
    type(quarry_pool_options), intent(in) :: options
    type(c_pool_options), intent(out) :: wanted
    type(option_texts), intent(out), target :: texts
    integer, intent(out), optional :: status
    logical :: are_fine

    are_fine = min(options%first_block, options%next_block, options%alignment, options%max_bytes, &
      options%red_zone) >= 0 .and. options%growth_percent >= 0
    if (.not. are_fine) then
      call refuse(call_name // ': an option is negative; 0 is the default, or no limit', status)
      return
    end if
    wanted = c_pool_options(c_sizeof(wanted), options%first_block, options%next_block, &
      options%growth_percent, options%alignment, options%max_bytes, options%device, c_null_ptr, &
      c_null_ptr, options%red_zone, merge(1_c_int64_t, 0_c_int64_t, options%keeps_backtraces))
    if (allocated(options%directory)) then
      allocate (texts%directory, source=c_text(options%directory))
      wanted%directory = c_loc(texts%directory)
    end if
    if (allocated(options%name)) then
      allocate (texts%name, source=c_text(options%name))
      wanted%name = c_loc(texts%name)
    end if
  end function

  ! The version of the library as text, such as "1.2.3"; quarry_version returns the same as a
  ! number, such as 10203.
  function quarry_version_text() result(text)
    character(version_length()) :: text
    character(kind=c_char), pointer :: chars(:)
    integer :: i

    call c_f_pointer(c_version_text(), chars, [len(text)])
    do i = 1, len(text)
      text(i:i) = chars(i)
    end do
  end function

  pure function version_length() result(length)
    integer :: length

    length = int(c_strlen(c_version_text()))
  end function

  ! The message of this thread's last failed call; empty if there was no such call. (Threads other
  ! than OpenMP's share the message of this module's own refusals.)
  function quarry_last_error() result(message)
    character(last_error_length()) :: message
    character(kind=c_char), pointer :: chars(:)
    integer :: i

    if (own_length > 0) then
      message = own_error(:own_length)
      return
    end if
    call c_f_pointer(c_last_error(), chars, [len(message)])
    do i = 1, len(message)
      message(i:i) = chars(i)
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

  ! Ends a call with the status that C returned.
  subroutine finish_call(code, status)
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

  ! The text in C's form: without trailing blanks and with a null character at the end.
  pure function c_text(text) result(chars)
    character(*), intent(in) :: text
    character(kind=c_char), allocatable :: chars(:)
    integer :: i

    allocate (chars(len_trim(text) + 1))
    do i = 1, len_trim(text)
      chars(i) = text(i:i)
    end do
    chars(size(chars)) = c_null_char
  end function

  ! The next two functions return texts of a fixed length, and quarry_last_error returns a text
  ! whose length is computed before the call. If a result is allocatable, gfortran keeps its length
  ! in a static variable of the caller, on which threads would race.
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
