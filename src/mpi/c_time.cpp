// SPDX-License-Identifier: Apache-2.0
// The C library's clocks, dates and waits.
#include "c_library.hpp"

#include "format.hpp"
#include "host_calls.hpp"
#include "trace.hpp"

#ifndef __CUDACC__
#include <ctime>
#endif

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

inline constexpr std::uint64_t second_ns = 1'000'000'000;

/// The time since 1970, in nanoseconds.
QUARRY_HD std::uint64_t wall_clock_ns() {
#ifdef __CUDA_ARCH__
  std::uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
#elif !defined(__CUDACC__)
  std::timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * second_ns +
         static_cast<std::uint64_t>(now.tv_nsec);
#else
  return 0;
#endif
}

QUARRY_SLOW void wait_for(std::uint64_t nanoseconds) {
  rank_state& rank = self();
#ifndef __CUDACC__
  std::uint64_t const before = own_time();
#endif
  std::uint64_t const end = wall_clock_ns() + nanoseconds;
  while (wall_clock_ns() < end) wait_briefly(rank);
#ifndef __CUDACC__
  set_own_time(before, nanoseconds);
#endif
}

struct date {
  std::int64_t year;
  int month, day;  // from 0, from 1
};

/// The date of a day in the Gregorian calendar; day 0 is 1970-01-01. Years begin in March here, so
/// that the leap day is the last day of a year.
QUARRY_HD date date_of(std::int64_t day) {
  std::int64_t const shifted = day + 719468;  // from 0000-03-01
  std::int64_t const era = (shifted >= 0 ? shifted : shifted - 146096) / 146097;
  std::int64_t const in_era = shifted - era * 146097;
  std::int64_t const year = (in_era - in_era / 1460 + in_era / 36524 - in_era / 146096) / 365;
  std::int64_t const in_year = in_era - (365 * year + year / 4 - year / 100);
  auto const month = static_cast<int>((5 * in_year + 2) / 153);  // 0: March
  auto const month_day = static_cast<int>(in_year - (153 * month + 2) / 5 + 1);
  int const civil_month = month < 10 ? month + 2 : month - 10;
  return {year + era * 400 + (civil_month < 2 ? 1 : 0), civil_month, month_day};
}

/// The day on which a month begins.
QUARRY_HD std::int64_t first_day(std::int64_t year, int month) {
  if (month < 2) --year;
  std::int64_t const era = (year >= 0 ? year : year - 399) / 400;
  std::int64_t const in_era = year - era * 400;
  int const shifted = month >= 2 ? month - 2 : month + 10;
  std::int64_t const in_year = (153 * shifted + 2) / 5;
  return era * 146097 + in_era * 365 + in_era / 4 - in_era / 100 + in_year - 719468;
}

QUARRY_SLOW void break_down(std::int64_t time, std::int64_t offset, c_tm& result) {
  std::int64_t const local = time + offset;
  std::int64_t const day = (local >= 0 ? local : local - 86399) / 86400;
  auto const second = static_cast<int>(local - day * 86400);
  date const today = date_of(day);
  std::int64_t const week_day = (day + 4) % 7;  // 1970-01-01 was a Thursday
  result = {};
  result.second = second % 60;
  result.minute = second / 60 % 60;
  result.hour = second / 3600;
  result.day = today.day;
  result.month = today.month;
  result.year = static_cast<int>(today.year - 1900);
  result.week_day = static_cast<int>(week_day < 0 ? week_day + 7 : week_day);
  result.year_day = static_cast<int>(day - first_day(today.year, 0));
  result.offset = offset;
  result.zone = offset == 0 ? "GMT" : "local";
}

[[nodiscard]] QUARRY_HD std::int64_t local_offset(std::int64_t time) {
  return ask_host(self(), {.function = host_function::time_offset, .offset = time}).result;
}

/// The time of a local date; fields out of range count on.
[[nodiscard]] QUARRY_HD std::int64_t time_of(c_tm const& date) {
  std::int64_t year = std::int64_t{date.year} + 1900 + date.month / 12;
  int month = date.month % 12;
  if (month < 0) {
    month += 12;
    --year;
  }
  return (first_day(year, month) + date.day - 1) * 86400 + std::int64_t{date.hour} * 3600 +
         std::int64_t{date.minute} * 60 + date.second;
}

QUARRY_HD char const* week_day_name(int day) {
  return "Sunday\0   Monday\0   Tuesday\0  Wednesday\0Thursday\0 Friday\0   Saturday\0" + 10 * day;
}
QUARRY_HD char const* month_name(int month) {
  return "January\0  February\0 March\0    April\0    May\0      June\0     "
         "July\0     August\0   September\0October\0  November\0 December\0" +
         10 * month;
}

QUARRY_SLOW void add_padded(text_buffer& text, int value, int width, char fill = '0') {
  int limit = 10;
  for (int i = 1; i < width; ++i, limit *= 10)
    if (value < limit) text.add_char(fill);
  text.add_number(value);
}
QUARRY_HD void add_short(text_buffer& text, char const* name) {
  for (int i = 0; i < 3; ++i) text.add_char(name[i]);
}
QUARRY_HD void add_clock(text_buffer& text, c_tm const& date, bool has_seconds) {
  add_padded(text, date.hour, 2);
  text.add_char(':');
  add_padded(text, date.minute, 2);
  if (!has_seconds) return;
  text.add_char(':');
  add_padded(text, date.second, 2);
}

/// One conversion of strftime.
QUARRY_SLOW void add_part(text_buffer& text, char letter, c_tm const& date) {
  int const hour12 = date.hour % 12 == 0 ? 12 : date.hour % 12;
  switch (letter) {
    case 'a':
      return add_short(text, week_day_name(date.week_day));
    case 'A':
      return text.add(week_day_name(date.week_day));
    case 'b':
    case 'h':
      return add_short(text, month_name(date.month));
    case 'B':
      return text.add(month_name(date.month));
    case 'd':
      return add_padded(text, date.day, 2);
    case 'e':
      return add_padded(text, date.day, 2, ' ');
    case 'H':
      return add_padded(text, date.hour, 2);
    case 'I':
      return add_padded(text, hour12, 2);
    case 'j':
      return add_padded(text, date.year_day + 1, 3);
    case 'm':
      return add_padded(text, date.month + 1, 2);
    case 'M':
      return add_padded(text, date.minute, 2);
    case 'n':
      return text.add_char('\n');
    case 'p':
      return text.add(date.hour < 12 ? "AM" : "PM");
    case 'R':
      return add_clock(text, date, false);
    case 'S':
      return add_padded(text, date.second, 2);
    case 't':
      return text.add_char('\t');
    case 'T':
    case 'X':
      return add_clock(text, date, true);
    case 'w':
      return text.add_number(date.week_day);
    case 'y':
      return add_padded(text, (date.year + 1900) % 100, 2);
    case 'Y':
      return text.add_number(date.year + 1900);
    case 'Z':
      return text.add(date.zone != nullptr ? date.zone : "");
    default:
      return text.add_char(letter);
  }
}

QUARRY_SLOW void add_date(text_buffer& text, char const* format, c_tm const& date) {
  for (; *format != 0; ++format) {
    if (*format != '%' || format[1] == 0) {
      text.add_char(*format);
      continue;
    }
    switch (*++format) {
      case 'c':
        for (char const* part = "a b e T Y"; *part != 0; ++part)
          *part == ' ' ? text.add_char(' ') : add_part(text, *part, date);
        break;
      case 'D':
      case 'x':
        for (char const* part = "m/d/y"; *part != 0; ++part)
          *part == '/' ? text.add_char('/') : add_part(text, *part, date);
        break;
      case 'F':
        for (char const* part = "Y-m-d"; *part != 0; ++part)
          *part == '-' ? text.add_char('-') : add_part(text, *part, date);
        break;
      default:
        add_part(text, *format, date);
    }
  }
}

}  // namespace
}  // namespace quarry::inline QUARRY_ABI::mpi

using namespace quarry::mpi;

extern "C" {

QUARRY_HD long quarry_c_time(long* result) {
  auto const now = static_cast<long>(wall_clock_ns() / second_ns);
  if (result != nullptr) *result = now;
  return now;
}
QUARRY_HD int quarry_c_gettimeofday(c_timeval* result, void*) {
  std::uint64_t const now = wall_clock_ns();
  *result = {static_cast<long>(now / second_ns), static_cast<long>(now % second_ns / 1000)};
  return 0;
}
/// All clocks have the wall clock's time: programs take differences.
QUARRY_HD int quarry_c_clock_gettime(int, c_timespec* result) {
  std::uint64_t const now = wall_clock_ns();
  *result = {static_cast<long>(now / second_ns), static_cast<long>(now % second_ns)};
  return 0;
}
QUARRY_HD int quarry_c_timespec_get(c_timespec* result, int base) {
  quarry_c_clock_gettime(0, result);
  return base;
}
QUARRY_HD int quarry_c_clock_getres(int, c_timespec* result) {
  if (result != nullptr) *result = {0, 1};
  return 0;
}
/// The time since the rank's first call, in microseconds: a rank has a thread of its own.
QUARRY_HD long quarry_c_clock() {
  c_library& library = own_library();
  std::uint64_t const now = wall_clock_ns();
  if (library.clock_start_ns == 0) library.clock_start_ns = now;
  return static_cast<long>((now - library.clock_start_ns) / 1000);
}
QUARRY_HD double quarry_c_difftime(long end, long begin) {
  return static_cast<double>(end - begin);
}

QUARRY_HD unsigned quarry_c_sleep(unsigned seconds) {
  wait_for(seconds * second_ns);
  return 0;
}
QUARRY_HD int quarry_c_usleep(unsigned microseconds) {
  wait_for(std::uint64_t{microseconds} * 1000);
  return 0;
}
QUARRY_HD int quarry_c_nanosleep(c_timespec const* time, c_timespec* rest) {
  wait_for(static_cast<std::uint64_t>(time->seconds) * second_ns +
           static_cast<std::uint64_t>(time->nanoseconds));
  if (rest != nullptr) *rest = {0, 0};
  return 0;
}
QUARRY_HD int quarry_c_sched_yield() {
  wait_briefly(self());
  return 0;
}

QUARRY_HD c_tm* quarry_c_gmtime_r(long const* time, c_tm* result) {
  break_down(*time, 0, *result);
  return result;
}
QUARRY_SLOW c_tm* quarry_c_localtime_r(long const* time, c_tm* result) {
  break_down(*time, local_offset(*time), *result);
  return result;
}
QUARRY_HD c_tm* quarry_c_gmtime(long const* time) {
  return quarry_c_gmtime_r(time, &own_library().broken_time);
}
QUARRY_HD c_tm* quarry_c_localtime(long const* time) {
  return quarry_c_localtime_r(time, &own_library().broken_time);
}
QUARRY_HD long quarry_c_timegm(c_tm* date) {
  std::int64_t const time = time_of(*date);
  break_down(time, 0, *date);
  return time;
}
QUARRY_HD long quarry_c_mktime(c_tm* date) {
  std::int64_t const as_utc = time_of(*date);
  std::int64_t const time = as_utc - local_offset(as_utc - local_offset(as_utc));
  break_down(time, local_offset(time), *date);
  return time;
}
QUARRY_HD unsigned long quarry_c_strftime(char* buffer, unsigned long size, char const* format,
                                          c_tm const* date) {
  text_buffer text{buffer, size};
  add_date(text, format, *date);
  text.terminate();
  return text.wanted() < size ? text.wanted() : 0;
}
QUARRY_HD char* quarry_c_asctime_r(c_tm const* date, char* buffer) {
  text_buffer text{buffer, 32};
  add_date(text, "%c\n", *date);
  text.terminate();
  return buffer;
}
QUARRY_HD char* quarry_c_asctime(c_tm const* date) {
  return quarry_c_asctime_r(date, own_library().time_text);
}
QUARRY_HD char* quarry_c_ctime_r(long const* time, char* buffer) {
  c_tm date;
  return quarry_c_asctime_r(quarry_c_localtime_r(time, &date), buffer);
}
QUARRY_HD char* quarry_c_ctime(long const* time) {
  return quarry_c_ctime_r(time, own_library().time_text);
}

}  // extern "C"
