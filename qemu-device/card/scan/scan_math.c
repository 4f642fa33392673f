// SPDX-License-Identifier: MIT
/* SCAN: arithmetic outside the kernels. */
#include <math.h>

#include "scan.h"

void openreg_scan_begin(const struct openreg_scan *scan,
			union openreg_acc *acc, int64_t *where)
{
	bool f = scan->type == OPENREG_VT_F32 || scan->type == OPENREG_VT_F64;

	*where = 0;
	switch (scan->mode) {
	case OPENREG_SCAN_PROD:
		*acc = f ? (union openreg_acc){ .f = 1 }
			 : (union openreg_acc){ .i = 1 };
		break;
	case OPENREG_SCAN_MAX:
	case OPENREG_SCAN_LOGSUMEXP:
		*acc = f ? (union openreg_acc){ .f = -INFINITY }
			 : (union openreg_acc){ .i = INT64_MIN };
		break;
	case OPENREG_SCAN_MIN:
		*acc = f ? (union openreg_acc){ .f = INFINITY }
			 : (union openreg_acc){ .i = INT64_MAX };
		break;
	default:
		*acc = f ? (union openreg_acc){ .f = 0 }
			 : (union openreg_acc){ .i = 0 };
	}
	/* The limits of i32 are inside those of i64. */
	if (scan->type == OPENREG_VT_I32 && acc->i == INT64_MIN)
		acc->i = INT32_MIN;
	if (scan->type == OPENREG_VT_I32 && acc->i == INT64_MAX)
		acc->i = INT32_MAX;
}

/*
 * Multiplies with the result that element by element would give. A product of 0 stays 0
 * unless an element is infinite or NaN; an infinite product stays so unless an element is
 * 0 or NaN. The total of the elements alone may overflow, or become 0.
 */
static double join_product(double a, const struct openreg_scan_total *total)
{
	double b = total->acc.f;

	if (a == 0 && !(total->where & OPENREG_SCAN_HAS_INFINITE))
		return copysign(a, signbit(a) == signbit(b) ? 1 : -1);
	if (isinf(a) && !isnan(b) && !(total->where & OPENREG_SCAN_HAS_ZERO))
		return copysign(a, signbit(a) == signbit(b) ? 1 : -1);
	return a * b;
}

static double join_logs(const struct openreg_scan *scan, double a, double b)
{
	double work;

	openreg_scan_log_row(scan->kernels, &a, &b, &work, 1);
	return a;
}

static bool wins_f(const struct openreg_scan *scan, double v, double r)
{
	if (isnan(v))
		return true;
	return scan->mode == OPENREG_SCAN_MAX ? v >= r : v <= r;
}

static bool wins_i(const struct openreg_scan *scan, int64_t v, int64_t r)
{
	return scan->mode == OPENREG_SCAN_MAX ? v >= r : v <= r;
}

static void join_f(const struct openreg_scan *scan,
		   struct openreg_scan_total *to,
		   const struct openreg_scan_total *total)
{
	switch (scan->mode) {
	case OPENREG_SCAN_SUM:
		to->acc.f += total->acc.f;
		break;
	case OPENREG_SCAN_PROD:
		to->acc.f = join_product(to->acc.f, total);
		break;
	case OPENREG_SCAN_LOGSUMEXP:
		to->acc.f = join_logs(scan, to->acc.f, total->acc.f);
		break;
	default:
		if (wins_f(scan, total->acc.f, to->acc.f))
			*to = *total;
	}
}

static void join_i(const struct openreg_scan *scan,
		   struct openreg_scan_total *to,
		   const struct openreg_scan_total *total)
{
	uint64_t a = (uint64_t)to->acc.i, b = (uint64_t)total->acc.i;

	switch (scan->mode) {
	case OPENREG_SCAN_SUM:
		to->acc.i = (int64_t)(a + b);
		break;
	case OPENREG_SCAN_PROD:
		to->acc.i = (int64_t)(a * b);
		break;
	default:
		if (wins_i(scan, total->acc.i, to->acc.i))
			*to = *total;
	}
}

void openreg_scan_join(const struct openreg_scan *scan,
		       struct openreg_scan_total *to,
		       const struct openreg_scan_total *total)
{
	if (scan->type == OPENREG_VT_F32 || scan->type == OPENREG_VT_F64)
		join_f(scan, to, total);
	else
		join_i(scan, to, total);
}

#define FLAGS(name, ty)                                                        \
	static int64_t flags_##name(const ty *x, size_t n)                     \
	{                                                                      \
		unsigned int zero = 0, infinite = 0;                           \
		size_t i;                                                      \
                                                                               \
		for (i = 0; i < n; i++) {                                      \
			zero |= x[i] == 0;                                     \
			infinite |= !(x[i] - x[i] == 0);                       \
		}                                                              \
		return (zero ? OPENREG_SCAN_HAS_ZERO : 0) |                    \
		       (infinite ? OPENREG_SCAN_HAS_INFINITE : 0);             \
	}
FLAGS(f32, float)
FLAGS(f64, double)

int64_t openreg_scan_flags(uint8_t type, const void *x, size_t n)
{
	switch (type) {
	case OPENREG_VT_F32:
		return flags_f32(x, n);
	case OPENREG_VT_F64:
		return flags_f64(x, n);
	default:
		return 0;
	}
}

/* exp(FAR) does not overflow, even in a sum of thousands. */
#define FAR 600.0

/* x[j] = acc + log(1 + the sum up to j of exp(x - acc)). */
static void log_run(const struct openreg_kernels *k, double *acc, double *x,
		    double *work, size_t n)
{
	double sum = 0;
	size_t i;

	for (i = 0; i < n; i++)
		work[i] = x[i] - *acc;
	k->op[OPENREG_V_EXP][OPENREG_VT_F64](work, work, work, work, n);
	for (i = 0; i < n; i++)
		work[i] = sum += work[i];
	k->op[OPENREG_V_LOG1P][OPENREG_VT_F64](work, work, work, work, n);
	for (i = 0; i < n; i++)
		x[i] = *acc + work[i];
	*acc = x[n - 1];
}

void openreg_scan_log_row(const struct openreg_kernels *kernels, double *acc,
			  double *x, double *work, size_t n)
{
	size_t i = 0, end;

	while (i < n) {
		if (isnan(*acc) || (*acc == INFINITY && !isnan(x[i]))) {
			x[i++] = *acc;
			continue;
		}
		/* x[i] is so much greater that the elements before do not count. */
		if (*acc == -INFINITY || x[i] - *acc > FAR) {
			*acc = x[i++];
			continue;
		}
		for (end = i + 1; end < n && !(x[end] - *acc > FAR); end++)
			;
		log_run(kernels, acc, x + i, work, end - i);
		i = end;
	}
}
