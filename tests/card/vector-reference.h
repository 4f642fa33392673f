/* SPDX-License-Identifier: MIT */
/*
 * What VECTOR's operations are by definition, one element at a time, as far
 * from the engine's own way of computing them as can be.
 */
#ifndef VECTOR_REFERENCE_H
#define VECTOR_REFERENCE_H

#include <stdbool.h>
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

/* Is `have` as near to the exact value, of an argument x, as the table asks? */
bool reference_close(unsigned int op, unsigned int type, double x, double have,
		     long double want);

/* Casts to a floating dtype, to an integer one, and between integers. */
double reference_to_float(unsigned int dtype, double x);
int64_t reference_to_int(unsigned int dtype, double x);
int64_t reference_wrap(unsigned int dtype, int64_t x);

#endif
