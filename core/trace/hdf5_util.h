// Thin helpers over the HDF5 C library, for core/trace only. One user of HDF5 at a time: every function here
// expects the caller to hold a Hdf5Lock. (Debian's library is thread-safe, which only means that it locks
// itself; error stacks and multi-call sequences still belong to one caller.)
#pragma once

#include <hdf5.h>

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/trace/sink.h"

namespace slotscope::trace {

// Holds the process-wide HDF5 mutex and keeps HDF5 from printing its error stack.
class Hdf5Lock {
 public:
  Hdf5Lock();

 private:
  std::unique_lock<std::recursive_mutex> lock_;
};

// Owns any HDF5 identifier but a file that must report its closing.
class Handle {
 public:
  Handle() = default;
  explicit Handle(hid_t id) : id_(id) {}
  Handle(Handle&& o) noexcept : id_(o.id_) { o.id_ = -1; }
  Handle& operator=(Handle&& o) noexcept {
    if (this != &o) {
      reset();
      id_ = o.id_;
      o.id_ = -1;
    }
    return *this;
  }
  ~Handle() { reset(); }
  void reset() {
    if (id_ >= 0 && H5Iis_valid(id_) > 0) H5Idec_ref(id_);
    id_ = -1;
  }
  hid_t release() {
    const hid_t id = id_;
    id_ = -1;
    return id;
  }
  hid_t get() const { return id_; }
  operator hid_t() const { return id_; }
  explicit operator bool() const { return id_ >= 0; }

 private:
  hid_t id_ = -1;
};

// The innermost description of the current error stack ("unable to open file: ... errno = 2 ..."); never
// empty.
std::string hdf5_message();

// Throws Error{file, item, what + HDF5's reason} when `id` is negative; a full disk gets its own wording and
// advice.
hid_t checked(hid_t id, const std::string& file, const std::string& item, const char* what);
[[noreturn]] void fail_hdf5(const std::string& file, const std::string& item, const char* what);
Error disk_full(const std::string& file, const std::string& reason);

// Properties of a read of small values. HDF5 zeroes a buffer of 1 MiB for each read that converts types, however small the read is;
// with these it is kSmallTransfer. One list for the whole program, never closed.
inline constexpr int64_t kSmallTransfer = int64_t(1) << 16;
hid_t small_transfer();

// File type (little endian) of an element; the caller owns it.
Handle element_type(ElementType type);
// The element type of a stored type; `exact` says whether the bytes are ours as they stand, otherwise HDF5
// must convert (to i64 or f64). Throws nothing: returns false for types that are no numbers.
bool classify(hid_t type, ElementType& element, bool& exact);
Handle utf8_type();  // variable length
// {name: UTF-8, fixed 32 bytes, NUL padded; begin, end int64}
struct SpanRecord {
  char name[32];
  int64_t begin, end;
};
Handle span_type();
// Cuts at 32 bytes without splitting a character.
SpanRecord span_record(const Span& span);

// Text as a variable-length string can hold it: NUL becomes U+2400 and each byte that is no UTF-8 U+2426, one
// code point for one, so that offsets in code points stay right. `changed` counts the replacements; the exact
// bytes go elsewhere.
std::string storable_text(std::string_view text, int64_t& changed);

bool has_attribute(hid_t object, const char* name);
void write_attribute(hid_t object, const std::string& name, const AttributeValue& value,
                     const std::string& file);
void write_attribute_i32(hid_t object, const char* name, int32_t value, const std::string& file);
void write_attribute_u8(hid_t object, const char* name, uint8_t value, const std::string& file);
// Overwrites the value of an existing numeric attribute in place.
void rewrite_attribute(hid_t object, const char* name, int64_t value, const std::string& file);

// Reading never throws for an absent or odd attribute: it returns false.
bool read_attribute(hid_t object, const char* name, int64_t& value);
bool read_attribute(hid_t object, const char* name, std::string& value);
Attributes read_attributes(hid_t object);
// A string dataset or attribute of any kind (variable or fixed length, ASCII or UTF-8, scalar or one
// element).
bool read_string(hid_t dataset, std::string& value);

// Scalar string dataset with `axes` and `description`.
void write_text(hid_t group, const char* name, std::string_view text, const char* description,
                const std::string& file);

}  // namespace slotscope::trace
