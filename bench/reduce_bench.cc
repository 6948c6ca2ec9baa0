// The reduction kernels beside the triad loop, which reads two arrays and writes a third one as
// they do: what memory allows at each size.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "collectives/reduce.h"

namespace {

using namespace spindrift;
using namespace spindrift::collectives;

struct Arrays {
  explicit Arrays(std::size_t bytes) : a(bytes / 4, 1.0F), b(bytes / 4, 0.5F), c(bytes / 4) {}
  std::vector<float> a;
  std::vector<float> b;
  std::vector<float> c;
};

// c[i] = a[i] + s b[i]: McCalpin's STREAM (1995).
void triad(benchmark::State& state) {
  Arrays arrays(static_cast<std::size_t>(state.range(0)));
  const float factor = 0.5F;
  for (auto _ : state) {
    const float* const a = arrays.a.data();
    const float* const b = arrays.b.data();
    float* const c = arrays.c.data();
    const std::size_t count = arrays.c.size();
    for (std::size_t i = 0; i < count; ++i)
      c[i] = a[i] + factor * b[i];
    benchmark::DoNotOptimize(c);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void reduce(benchmark::State& state, DataType type, ReduceOp op) {
  Arrays arrays(static_cast<std::size_t>(state.range(0)));
  const ReduceKernel kernel = find_reduce_kernel(type, op);
  const std::size_t count = static_cast<std::size_t>(state.range(0)) / bytes_of(type);
  for (auto _ : state) {
    kernel.run(arrays.c.data(), arrays.a.data(), arrays.b.data(), count);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

// In the nearest cache, in the next one, and in memory.
void sizes(benchmark::internal::Benchmark* one) {
  one->Arg(8 << 10)->Arg(256 << 10)->Arg(64 << 20);
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::RegisterBenchmark("triad", triad)->Apply(sizes);
  for (const DataType type : {DataType::kFloat32, DataType::kFloat64, DataType::kFloat16,
                              DataType::kBfloat16, DataType::kInt8, DataType::kInt32}) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax}) {
      const std::string name =
          "reduce/" + std::string(to_string(type)) + "/" + std::string(to_string(op));
      benchmark::RegisterBenchmark(name.c_str(), reduce, type, op)->Apply(sizes);
    }
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
