// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/format_file.h"

#include <sstream>
#include <string_view>

#include "runtime/format.h"

namespace openreg {
namespace {

constexpr std::string_view kFormatKeyOfFile = "openreg.format=";
constexpr std::string_view kVersionKey = "openreg.format_version=";
constexpr std::string_view kMatrixKey = "openreg.format_matrix="; // rows columns type
constexpr const char* kVersion = "1";

constexpr const char* kAdvice =
    " Install a newer torch_openreg, or load the plain values with "
    "torch.load(..., map_location='cpu').";

PackedMatrix parse_matrix(const std::string& text) {
  PackedMatrix m{0, 0, at::kFloat};
  std::string type;
  std::istringstream(text) >> m.rows >> m.columns >> type;
  for (const auto t : {at::kFloat, at::kHalf, at::kBFloat16})
    if (type == c10::toString(t))
      m.type = t;
  int64_t elements = 0, bytes = 0;
  TORCH_CHECK(
      m.rows > 0 && m.columns > 0 && type == c10::toString(m.type) &&
          !__builtin_mul_overflow(m.rows, m.columns, &elements) &&
          !__builtin_mul_overflow(elements, 4, &bytes),
      "the file describes a packed tensor as '",
      text,
      "', which is no matrix: the file is damaged");
  return m;
}

} // namespace

std::string field_value(const FileFields& fields, std::string_view key) {
  for (const auto& [field, set] : fields)
    if (set && field.starts_with(key))
      return field.substr(key.size());
  return "";
}

void write_format(const at::Tensor& tensor, FileFields& fields) {
  if (!is_packed(tensor))
    return;
  const auto found = packed_matrix(*tensor.storage().unsafeGetStorageImpl());
  if (!found)
    return;
  const PackedMatrix& m = *found;
  fields[std::string(kFormatKeyOfFile) + "packed"] = true;
  fields[std::string(kVersionKey) + kVersion] = true;
  fields[c10::str(kMatrixKey, m.rows, " ", m.columns, " ", c10::toString(m.type))] = true;
}

void read_format(const at::Tensor& tensor, const FileFields& fields) {
  const std::string format = field_value(fields, kFormatKeyOfFile);
  if (format.empty())
    return;
  const std::string version = field_value(fields, kVersionKey);
  TORCH_CHECK(
      format == "packed",
      "this file has a tensor in the format '",
      format,
      "', which this torch_openreg does not know; it knows 'packed'.",
      kAdvice);
  TORCH_CHECK(
      version == kVersion,
      "this file has a tensor in version '",
      version,
      "' of the format 'packed', but this torch_openreg reads version ",
      kVersion,
      ".",
      kAdvice);
  const PackedMatrix m = parse_matrix(field_value(fields, kMatrixKey));
  if (!can_pack(tensor.get_device()))
    return; // the values are the same
  TORCH_CHECK(
      make_packed(tensor, m),
      "the file describes a packed tensor of ",
      m.rows,
      " x ",
      m.columns,
      " elements, but its storage has ",
      tensor.storage().nbytes(),
      " bytes, or holds another matrix: the file is damaged");
}

} // namespace openreg
