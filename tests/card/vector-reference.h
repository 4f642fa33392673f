/* SPDX-License-Identifier: MIT */
/*
 * Reference for VECTOR's operations: computes one element at a time, from the definition.
 * The code must differ as much as possible from the engine's code.
 */
#ifndef VECTOR_REFERENCE_H
#define VECTOR_REFERENCE_H

#include <stdbool.h>
#include <stdint.h>

/* Error that the manual's table allows, in units of the last place; 0: none. */
double reference_ulps(unsigned int op);

/* The exact value, or the correctly rounded value where the table asks for it. */
long double reference_float(unsigned int op, unsigned int type, double x,
			    double y, double z);

/* Floor of the quotient if it can be computed exactly, else NaN. */
long double reference_floor_div(double x, double y);

/* Comparisons and predicates of floats. */
int64_t reference_test(unsigned int op, double x, double y);

/* Integers of either type, sign-extended; only the lower bits of the result count. */
uint64_t reference_int(unsigned int op, unsigned int type, int64_t a,
		       int64_t b, int64_t c);

/* True if have is as near to want, the exact value for x, as the table asks. */
bool reference_close(unsigned int op, unsigned int type, double x, double have,
		     long double want);

/* Casts to a floating dtype, to an integer one, and between integers. */
double reference_to_float(unsigned int dtype, double x);
int64_t reference_to_int(unsigned int dtype, double x);
int64_t reference_wrap(unsigned int dtype, int64_t x);

#endif
