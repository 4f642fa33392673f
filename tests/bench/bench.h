/* SPDX-License-Identifier: MIT */
/* Benchmarks print their figures for report.py, one JSON object a line. */
#ifndef BENCH_H
#define BENCH_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static inline double seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

static inline void figure(const char *bench, const char *what, double value,
			  const char *unit)
{
	printf("{\"bench\": \"%s\", \"what\": \"%s\", \"value\": %.6g, \"unit\": \"%s\"}\n",
	       bench, what, value, unit);
	fflush(stdout);
}

static inline int bench_compare(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Also sorts values. */
static inline double median(double *values, size_t n)
{
	qsort(values, n, sizeof(*values), bench_compare);
	return n % 2 ? values[n / 2] :
		       (values[n / 2 - 1] + values[n / 2]) / 2;
}

#endif
