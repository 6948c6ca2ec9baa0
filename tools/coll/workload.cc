#include "tools/coll/workload.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <sstream>
#include <system_error>

#include <absl/strings/numbers.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_split.h>

namespace spindrift::coll {
namespace {

constexpr std::uint64_t kFirstBucketBytes = 1ULL << 20;
constexpr std::uint64_t kMaxElements = 1ULL << 40;
constexpr std::size_t kMaxTensors = 1'000'000;

Error at_line(std::size_t line, const std::string& what) {
  return {ErrorCode::kInvalidArgument,
          absl::StrFormat("line %d: %s; a line is a name and a shape, \"conv1.weight 64x3x7x7\"",
                          line, what)};
}

Result<std::uint64_t> parse_shape(const std::string& shape, std::size_t line) {
  std::uint64_t elements = 1;
  const std::vector<std::string> sides = absl::StrSplit(shape, 'x');
  for (const std::string& text : sides) {
    std::uint64_t side = 0;
    if (!absl::SimpleAtoi(text, &side) || side == 0) {
      return at_line(line, absl::StrFormat("\"%s\" is no shape", shape));
    }
    if (side > kMaxElements / elements) {
      return at_line(line, absl::StrFormat("%s has more than 2^40 elements", shape));
    }
    elements *= side;
  }
  return elements;
}

}  // namespace

Result<std::vector<Tensor>> parse_workload(std::string_view text) {
  std::vector<Tensor> tensors;
  std::istringstream lines{std::string(text)};
  std::string line;
  for (std::size_t number = 1; std::getline(lines, line); ++number) {
    std::istringstream words(line);
    Tensor tensor;
    std::string shape;
    std::string more;
    if (!(words >> tensor.name) || tensor.name.front() == '#') continue;
    if (!(words >> shape)) return at_line(number, "no shape");
    if (words >> more) return at_line(number, absl::StrFormat("\"%s\" is too much", more));
    Result<std::uint64_t> elements = parse_shape(shape, number);
    if (!elements.ok()) return elements.error();
    tensor.elements = elements.value();
    tensors.push_back(std::move(tensor));
    if (tensors.size() > kMaxTensors) return at_line(number, "more than 1,000,000 tensors");
  }
  if (tensors.empty()) return Error(ErrorCode::kInvalidArgument, "there is no tensor in it");
  return tensors;
}

Result<std::vector<Tensor>> load_workload(const std::string& name_or_file) {
  std::string names;
  for (const ShippedWorkload& shipped : shipped_workloads()) {
    if (name_or_file == shipped.name) return parse_workload(shipped.text);
    names += (names.empty() ? "" : ", ") + std::string(shipped.name);
  }
  std::ifstream file(name_or_file);
  if (file && file.peek() == std::ifstream::traits_type::eof() && !file.bad()) {
    return Error(ErrorCode::kInvalidArgument,
                 absl::StrFormat("workload \"%s\" is empty; give a file of tensors, or one of %s",
                                 name_or_file, names));
  }
  std::stringstream text;
  if (!file || !(text << file.rdbuf())) {
    return Error(
        ErrorCode::kNotFound,
        absl::StrFormat("cannot read workload \"%s\": %s; give a file of tensors, or one of %s",
                        name_or_file, std::generic_category().message(errno == 0 ? EIO : errno),
                        names));
  }
  Result<std::vector<Tensor>> tensors = parse_workload(text.str());
  if (tensors.ok()) return tensors;
  return Error(tensors.error().code(), name_or_file + ": " + tensors.error().message());
}

std::vector<Bucket> make_buckets(const std::vector<Tensor>& tensors, std::uint64_t bucket_bytes,
                                 std::uint64_t element_bytes) {
  std::vector<Bucket> buckets;
  Bucket open;
  for (auto tensor = tensors.rbegin(); tensor != tensors.rend(); ++tensor) {
    ++open.tensors;
    open.elements += tensor->elements;
    const std::uint64_t limit =
        buckets.empty() ? std::min(bucket_bytes, kFirstBucketBytes) : bucket_bytes;
    if (open.elements * element_bytes < limit) continue;
    buckets.push_back(open);
    open = Bucket{};
  }
  if (open.tensors > 0) buckets.push_back(open);
  return buckets;
}

}  // namespace spindrift::coll
