// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/any_allocator.hpp"

#include "host/allocator_handles.hpp"
#include "quarry/host/detail/make_room.hpp"

namespace quarry::inline QUARRY_ABI {

using namespace detail;

thread_local constinit held_handle const* held_handle::innermost = nullptr;

void held_handle::refuse_to_wait(std::uint64_t handle, char const* call) {
  for (auto const* locked = innermost; locked != nullptr; locked = locked->outer_) {
    if (locked->handle_ == handle)
      throw bad_argument{
          std::string{call} +
          ": the allocator is in a call of this thread already; its heuristic's rule "
          "and its resource's functions must not call its handle"};
  }
  throw bad_argument{std::string{call} +
                     ": the allocator is younger than one that is in a call of this thread, whose "
                     "heuristic's rule and resource's functions may call older allocators only"};
}

void allocator_handles::free_each_returned(allocator_model& model) noexcept {
  auto& returned = model.returned_;
  while (returned.has_any.load(std::memory_order_acquire)) {
    void* block = nullptr;
    {
      lock_unless_lost const lock{returned.mutex};
      if (!lock) return;
      if (!returned.blocks.empty()) {
        block = returned.blocks.back();
        returned.blocks.pop_back();
      }
      returned.has_any.store(!returned.blocks.empty(), std::memory_order_release);
    }
    if (model.blocks_.erase(block) != 0) (void)model.deallocate(block);
  }
}

void* any_allocator::allocate(bytes size, bytes alignment) const {
  return with(handle_, "any_allocator::allocate",
              [&](allocator_model& model) { return model.allocate(size, alignment); });
}
void* any_allocator::allocate(bytes size, std::string name, std::source_location call_site) const {
  return with(handle_, "any_allocator::allocate", [&](allocator_model& model) {
    void* const result = model.allocate(size, 1);
    try {
      (void)model.label(result, std::move(name), call_site);
    } catch (...) {
      (void)model.deallocate(result);
      throw;
    }
    return result;
  });
}
bool any_allocator::deallocate(void* pointer) const noexcept {
  try {
    return with(handle_, "any_allocator::deallocate", [&](allocator_model& model) {
      return !model.is_block(pointer) && model.deallocate(pointer);
    });
  } catch (...) {  // the allocator was destroyed
    return pointer == nullptr;
  }
}
bool any_allocator::label(void* pointer, std::string name, std::source_location call_site) const {
  return with(handle_, "any_allocator::label", [&](allocator_model& model) {
    return !model.is_block(pointer) && model.size_of(pointer) &&
           model.label(pointer, std::move(name), call_site);
  });
}
std::optional<bytes> any_allocator::size_of(void const* pointer) const {
  return with(handle_, "any_allocator::size_of",
              [&](allocator_model& model) -> std::optional<bytes> {
                if (model.is_block(pointer)) return std::nullopt;
                return model.size_of(pointer);
              });
}
void any_allocator::release() const {
  with(handle_, "any_allocator::release", [](allocator_model& model) { model.release(); });
}
void any_allocator::coalesce(bytes wanted) const {
  with(handle_, "any_allocator::coalesce", [&](allocator_model& model) { model.coalesce(wanted); });
}
allocator_counts any_allocator::counts() const {
  return with(handle_, "any_allocator::counts",
              [](allocator_model& model) { return model.counts(); });
}
memory_location any_allocator::location() const {
  return with(handle_, "any_allocator::location",
              [](allocator_model& model) { return model.location(); });
}
allocator_id any_allocator::id() const {
  return with(handle_, "any_allocator::id", [](allocator_model& model) { return model.id(); });
}
allocator_resource any_allocator::as_resource() const { return allocator_resource{*this}; }

allocator_resource::use::use(any_allocator used) : allocator{used} {
  model = with(allocator.handle_, "any_allocator::as_resource", [](allocator_model& shared_model) {
    ++shared_model.users_;
    return &shared_model;
  });
}
allocator_resource::use::~use() {
  // From here on the model may be destroyed.
  model->users_.fetch_sub(1, std::memory_order_release);
}
void* allocator_resource::allocate(bytes size, bytes alignment) {
  return with(use_->allocator.handle_, "allocator_resource::allocate", [&](allocator_model& model) {
    void* const result = model.allocate(size, alignment);
    try {
      model.blocks_.insert(result);
      std::lock_guard const lock{model.returned_.mutex};
      make_room(model.returned_.blocks, model.blocks_.size());
    } catch (...) {
      model.blocks_.erase(result);
      (void)model.deallocate(result);
      throw;
    }
    return result;
  });
}
bool allocator_resource::deallocate(void* pointer, bytes, bytes) noexcept {
  if (held_handle::may_wait_for(use_->allocator.handle_)) {
    try {
      return with(use_->allocator.handle_, "allocator_resource::deallocate",
                  [&](allocator_model& model) {
                    return model.blocks_.erase(pointer) != 0 && model.deallocate(pointer);
                  });
    } catch (was_destroyed const&) {  // in a child that lost the allocator at the fork
      return false;
    }
  }
  auto& returned = use_->model->returned_;
  lock_unless_lost const lock{returned.mutex};
  if (!lock || returned.blocks.size() == returned.blocks.capacity()) return false;  // not a block
  returned.blocks.push_back(pointer);
  returned.has_any.store(true, std::memory_order_release);
  return true;
}

}  // namespace quarry::inline QUARRY_ABI
