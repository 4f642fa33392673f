// SPDX-License-Identifier: MIT
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "comm.h"

static __thread char text[TEXT_MAX];

API const char *openreg_comm_last_error(void)
{
	return text;
}

int comm_fail(int error, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return error;
}

int comm_fail_card(int error, const char *format, ...)
{
	char what[TEXT_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	return comm_fail(error, "%s: %s", what, openreg_last_error());
}

const char *comm_strerror(int error)
{
	return error == -EMFILE ? "too many open files, raise its limit (ulimit -n)" :
				  strerror(-error);
}
