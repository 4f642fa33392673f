// SPDX-License-Identifier: MIT
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"

#define WEDGED "wedged (reset it through the bus, or unbind and bind it; see dmesg)"
#define CARD_EIO "the card was reset (open the device again) or is " WEDGED

static _Thread_local char last_error[512];

int openreg_fail(int error, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vsnprintf(last_error, sizeof(last_error), format, ap);
	va_end(ap);
	return error;
}

API const char *openreg_last_error(void)
{
	return last_error;
}

API const char *openreg_strerror(int error)
{
	switch (error < 0 ? -error : error) {
	case 0:
		return "success";
	case EPERM:
		return "the device was opened before fork(); open it again in the child";
	case ENOENT:
		return "no such object on this device";
	case EIO:
		return "the queue has faulted (reset it), or " CARD_EIO;
	case ENOMEM:
		return "out of memory, or over RLIMIT_MEMLOCK for registered memory";
	case EACCES:
		return "permission denied";
	case EFAULT:
		return "memory of the process is not mapped, or not with the access that the call needs";
	case EBUSY:
		return "in use";
	case ENODEV:
		return "no such card, or it was removed";
	case EINVAL:
		return "invalid argument";
	case ENOSPC:
		return "no free device memory, segment, queue or context";
	case ETIME:
		return "timed out";
	case EPROTO:
		return "driver and library do not match";
	case EOPNOTSUPP:
		return "not supported for this kind of memory";
	default:
		return "unexpected error";
	}
}

const char *openreg_card_strerror(int error)
{
	return error == -EIO ? CARD_EIO : openreg_strerror(error);
}

const char *openreg_query_strerror(int error)
{
	return error == -EIO ? "the card is " WEDGED : strerror(-error);
}

API uint32_t openreg_version(void)
{
	return OPENREG_VERSION_MAJOR << 16 | OPENREG_VERSION_MINOR;
}
