// SPDX-License-Identifier: MIT
// The speed of the host itself, for comparison: oneDNN's matmul and memcpy.
// usage: helper-native THREADS
#include <omp.h>
#include <oneapi/dnnl/dnnl.hpp>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "bench.h"

namespace {

constexpr int64_t N = 1024;
constexpr int RUNS = 15;

void bench_matmul(int threads)
{
	omp_set_num_threads(threads);
	dnnl::engine engine(dnnl::engine::kind::cpu, 0);
	dnnl::stream stream(engine);
	const dnnl::memory::desc md({N, N}, dnnl::memory::data_type::f32,
				    dnnl::memory::format_tag::ab);
	dnnl::memory a(md, engine), b(md, engine), d(md, engine);
	for (auto* m : {&a, &b, &d})
		for (int64_t i = 0; i < N * N; i++)
			static_cast<float*>(m->get_data_handle())[i] = 0.5f;
	const dnnl::matmul matmul({engine, md, md, md});
	std::vector<double> times;

	for (int i = -3; i < RUNS; i++) {
		const double begin = seconds();
		matmul.execute(stream, {{DNNL_ARG_SRC, a},
					{DNNL_ARG_WEIGHTS, b},
					{DNNL_ARG_DST, d}});
		stream.wait();
		if (i >= 0)
			times.push_back(seconds() - begin);
	}
	const std::string what = "matmul 1024^3 f32, oneDNN, threads: " +
				 std::to_string(threads);
	figure("a", what.c_str(), 2e-9 * N * N * N /
	       median(times.data(), times.size()), "GFLOP/s");
}

void bench_memcpy(size_t bytes, const char* size)
{
	std::vector<char> from(bytes, 1), to(bytes, 2);
	std::vector<double> times;
	const int repeat = static_cast<int>(std::max<size_t>(1, (4 << 20) / bytes));

	for (int i = -3; i < RUNS; i++) {
		const double begin = seconds();
		for (int k = 0; k < repeat; k++) {
			std::memcpy(to.data(), from.data(), bytes);
			__asm__ volatile("" ::: "memory");
		}
		if (i >= 0)
			times.push_back((seconds() - begin) / repeat);
	}
	figure("b", (std::string("memcpy ") + size).c_str(),
	       1e-9 * static_cast<double>(bytes) /
	       median(times.data(), times.size()), "GB/s");
}

}  // namespace

int main(int argc, char** argv)
{
	const int threads = argc > 1 ? std::atoi(argv[1]) : 0;

	if (threads < 1) {
		std::fprintf(stderr, "usage: %s THREADS\n", argv[0]);
		return 2;
	}
	bench_matmul(threads);
	bench_memcpy(64 << 10, "64 KiB");
	bench_memcpy(1 << 20, "1 MiB");
	bench_memcpy(64 << 20, "64 MiB");
	return 0;
}
