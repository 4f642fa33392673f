// SPDX-License-Identifier: MIT
#include <stdarg.h>
#include <stdio.h>

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

int comm_fail_card(int error, const char *what)
{
	return comm_fail(error, "%s: %s", what, openreg_last_error());
}
