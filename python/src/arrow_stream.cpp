// SPDX-License-Identifier: Apache-2.0
#include "arrow_stream.hpp"

#include "arrow_abi.hpp"

#include <algorithm>
#include <cerrno>
#include <limits>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace quarry::python {
namespace {

using trace::event;

/// An object of Arrow, and the objects that it points to. Its `release` deletes this.
template <class Arrow>
struct parts {
  std::vector<std::unique_ptr<Arrow>> children = {};
  std::vector<Arrow*> child_pointers = {};
  std::unique_ptr<Arrow> dictionary = nullptr;
  std::vector<void const*> buffers = {};                 // of an array
  std::vector<std::shared_ptr<void const>> memory = {};  // that the buffers lie in
};

template <class Arrow>
void release(Arrow* released) {
  auto const* const owned = static_cast<parts<Arrow>*>(released->private_data);
  for (auto const& child : owned->children) {
    if (child->release != nullptr) child->release(child.get());
  }
  if (owned->dictionary != nullptr && owned->dictionary->release != nullptr)
    owned->dictionary->release(owned->dictionary.get());
  delete owned;
  released->release = nullptr;
}

/// Makes `target` the owner of its parts.
template <class Arrow>
void set_parts(Arrow& target, parts<Arrow> given) {
  auto* const owned = new parts<Arrow>{std::move(given)};
  for (auto const& child : owned->children) owned->child_pointers.push_back(child.get());
  target.n_children = static_cast<std::int64_t>(owned->children.size());
  target.children = owned->child_pointers.data();
  target.dictionary = owned->dictionary.get();
  if constexpr (requires { target.buffers; }) {
    target.n_buffers = static_cast<std::int64_t>(owned->buffers.size());
    target.buffers = owned->buffers.data();
  }
  target.private_data = owned;
  target.release = release<Arrow>;
}

// --- Names -----------------------------------------------------------------------------------

/// The names of a table as Arrow's column of texts: the characters of all names, and where each
/// begins.
struct name_column {
  explicit name_column(std::vector<std::string> const& names) {
    begins.reserve(names.size() + 1);
    for (std::string const& name : names) {
      begins.push_back(static_cast<std::int32_t>(characters.size()));
      characters += name;
      if (characters.size() > std::numeric_limits<std::int32_t>::max())
        throw std::length_error{"the names of a column exceed 2 GiB, which Arrow's text allows"};
    }
    begins.push_back(static_cast<std::int32_t>(characters.size()));
  }
  [[nodiscard]] std::size_t size() const { return begins.size() - 1; }

  std::vector<std::int32_t> begins;
  std::string characters;
};

std::unique_ptr<ArrowArray> array_of(std::shared_ptr<name_column const> const& names) {
  auto result = std::make_unique<ArrowArray>();
  result->length = static_cast<std::int64_t>(names->size());
  set_parts(*result, {.buffers = {nullptr, names->begins.data(), names->characters.data()},
                      .memory = {names}});
  return result;
}

/// Keeps the column of a table until the table has more names.
class cached_names {
 public:
  [[nodiscard]] std::shared_ptr<name_column const> const& column(
      std::vector<std::string> const& names) {
    if (column_ == nullptr || column_->size() != names.size())
      column_ = std::make_shared<name_column const>(names);
    return column_;
  }

 private:
  std::shared_ptr<name_column const> column_;
};

std::vector<std::string> kind_names() {
  return {"allocate", "deallocate", "fail", "reserve", "unreserve", "wait", "phase"};
}

// --- Columns of numbers ------------------------------------------------------------------------

/// One member of all events.
template <class Number, class Member>
std::unique_ptr<ArrowArray> array_of(std::span<event const> events, Member event::* member) {
  auto const numbers = std::make_shared<std::vector<Number>>(events.size());
  std::ranges::transform(events, numbers->begin(),
                         [&](event const& each) { return static_cast<Number>(each.*member); });
  auto result = std::make_unique<ArrowArray>();
  result->length = static_cast<std::int64_t>(events.size());
  set_parts(*result, {.buffers = {nullptr, numbers->data()}, .memory = {numbers}});
  return result;
}

/// One member of all events, which is the number of a name.
template <class Number, class Member>
std::unique_ptr<ArrowArray> array_of(std::span<event const> events, Member event::* member,
                                     std::shared_ptr<name_column const> const& names) {
  for (event const& each : events) {
    if (static_cast<std::size_t>(each.*member) >= names->size())
      throw std::out_of_range{"an event has the number " +
                              std::to_string(static_cast<std::size_t>(each.*member)) +
                              " in a column with " + std::to_string(names->size()) + " names"};
  }
  auto numbers = array_of<Number>(events, member);
  auto* const owned = static_cast<parts<ArrowArray>*>(numbers->private_data);
  owned->dictionary = array_of(names);
  numbers->dictionary = owned->dictionary.get();
  return numbers;
}

std::unique_ptr<ArrowSchema> schema_of(char const* name, char const* format, bool has_names) {
  auto result = std::make_unique<ArrowSchema>();
  result->name = name;
  result->format = format;
  parts<ArrowSchema> owned;
  if (has_names) owned.dictionary = schema_of("", "u", false);
  set_parts(*result, std::move(owned));
  return result;
}

// --- The stream --------------------------------------------------------------------------------

class event_stream {
 public:
  event_stream(std::unique_ptr<event_source> source, std::size_t batch)
      : source_{std::move(source)}, buffer_(batch) {}

  static void set_schema(ArrowSchema& target) {
    target = {};
    target.name = "";
    target.format = "+s";
    parts<ArrowSchema> columns;
    for (auto const& [name, format, has_names] : {std::tuple{"time", "L", false},
                                                  {"kind", "c", true},
                                                  {"address", "L", false},
                                                  {"size", "L", false},
                                                  {"granted", "L", false},
                                                  {"thread", "i", true},
                                                  {"stream", "i", true},
                                                  {"allocator", "i", true},
                                                  {"call_site", "i", true}}) {
      columns.children.push_back(schema_of(name, format, has_names));
    }
    set_parts(target, std::move(columns));
  }
  void set_next(ArrowArray& target) {
    target = {};
    std::size_t const count = source_->read(buffer_);
    if (count == 0) return;  // a released array is the end
    auto const events = std::span<event const>{buffer_}.first(count);
    trace::name_tables const& names = source_->names();
    using number = std::int32_t;
    parts<ArrowArray> columns{.buffers = {nullptr}};
    auto& all = columns.children;
    all.push_back(array_of<std::uint64_t>(events, &event::time));
    all.push_back(array_of<std::int8_t>(events, &event::kind, kinds_));
    all.push_back(array_of<std::uint64_t>(events, &event::address));
    all.push_back(array_of<std::uint64_t>(events, &event::size));
    all.push_back(array_of<std::uint64_t>(events, &event::granted));
    all.push_back(array_of<number>(events, &event::thread, threads_.column(names.threads.names())));
    all.push_back(array_of<number>(events, &event::stream, streams_.column(names.streams.names())));
    all.push_back(
        array_of<number>(events, &event::allocator, allocators_.column(names.allocators.names())));
    all.push_back(
        array_of<number>(events, &event::call_site, call_sites_.column(names.call_sites.names())));
    target.length = static_cast<std::int64_t>(count);
    set_parts(target, std::move(columns));
  }
  std::string failure;

 private:
  std::unique_ptr<event_source> source_;
  std::vector<event> buffer_;
  std::shared_ptr<name_column const> kinds_ = std::make_shared<name_column const>(kind_names());
  cached_names threads_, streams_, allocators_, call_sites_;
};

event_stream& stream_of(ArrowArrayStream* stream) {
  return *static_cast<event_stream*>(stream->private_data);
}

/// Calls a function of the stream. Returns 0, or an error number.
template <class Call>
int result_of(ArrowArrayStream* stream, Call const& call) {
  try {
    call(stream_of(stream));
    return 0;
  } catch (std::bad_alloc const&) {
    stream_of(stream).failure = "no memory";
    return ENOMEM;
  } catch (std::exception const& failed) {
    stream_of(stream).failure = failed.what();
    return EINVAL;
  }
}

void delete_stream(ArrowArrayStream* stream) {
  delete static_cast<event_stream*>(stream->private_data);
  stream->release = nullptr;
}

}  // namespace

nb::object arrow_stream_of(std::unique_ptr<event_source> source, std::size_t batch) {
  auto stream = std::make_unique<ArrowArrayStream>();
  stream->get_schema = [](ArrowArrayStream* self, ArrowSchema* target) {
    return result_of(self, [&](event_stream&) { event_stream::set_schema(*target); });
  };
  stream->get_next = [](ArrowArrayStream* self, ArrowArray* target) {
    return result_of(self, [&](event_stream& events) { events.set_next(*target); });
  };
  stream->get_last_error = [](ArrowArrayStream* self) { return stream_of(self).failure.c_str(); };
  stream->private_data = new event_stream{std::move(source), batch};
  stream->release = delete_stream;
  return nb::capsule{stream.release(), "arrow_array_stream", [](void* deleted) noexcept {
                       auto* const owned = static_cast<ArrowArrayStream*>(deleted);
                       if (owned->release != nullptr) owned->release(owned);  // not consumed
                       delete owned;
                     }};
}

}  // namespace quarry::python
