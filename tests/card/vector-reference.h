/* SPDX-License-Identifier: MIT */
/*
 * What VECTOR's operations are by definition, one element at a time, as far
 * from the engine's own way of computing them as can be.
 */
#ifndef VECTOR_REFERENCE_H
#define VECTOR_REFERENCE_H

#include <stdint.h>

/* Units in the last place that the table allows; 0: correctly rounded. */
double reference_ulps(unsigned int op);

/* The exact value, or the correctly rounded one where that is what is asked. */
long double reference_float(unsigned int op, unsigned int type, double x,
			    double y, double z);

/* Floor of the quotient where it can be told exactly; NaN otherwise. */
long double reference_floor_div(double x, double y);

/* Comparisons and predicates of floats. */
int64_t reference_test(unsigned int op, double x, double y);

/* Integers of either type, sign-extended; the lower bits count. */
uint64_t reference_int(unsigned int op, unsigned int type, int64_t a,
		       int64_t b, int64_t c);

#endif
