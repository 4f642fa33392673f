// SPDX-License-Identifier: MIT
/* Names and sentences that need no card. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <openreg.h>

static void test_version(void **state)
{
	(void)state;
	assert_int_equal(openreg_version(), OPENREG_VERSION_MAJOR << 16 |
						    OPENREG_VERSION_MINOR);
}

static void test_names(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < OPENREG_OP_END; i++)
		assert_string_not_equal(openreg_opcode_name(i), "?");
	for (unsigned int i = OPENREG_F32; i < OPENREG_DTYPE_END; i++)
		assert_string_not_equal(openreg_dtype_name(i), "?");
	for (unsigned int i = 0; i <= OPENREG_FAULT_FORMAT; i++)
		assert_string_not_equal(openreg_fault_name(i), "?");
	assert_string_equal(openreg_opcode_name(OPENREG_OP_END), "?");
	assert_string_equal(openreg_opcode_name(UINT32_MAX), "?");
	assert_string_equal(openreg_dtype_name(0), "?");
	assert_string_equal(openreg_dtype_name(OPENREG_DTYPE_END), "?");
	assert_string_equal(openreg_fault_name(OPENREG_FAULT_FORMAT + 1), "?");
}

static void test_fault_text(void **state)
{
	const struct openreg_fault_summary f = {
		.code = OPENREG_FAULT_BOUNDS,
		.operand = 2,
		.seq = 41,
		.address = OPENREG_ADDR(1, 7, 0x1000),
		.opcode = OPENREG_OP_VECTOR,
		.cookie = 0xabc,
		.detail = 5,
	};
	char text[320], few[8];

	(void)state;
	openreg_fault_text(&f, text, sizeof(text));
	assert_non_null(strstr(text, "out of bounds"));
	assert_non_null(strstr(text, "packet 41 VECTOR"));
	assert_non_null(strstr(text, "operand 2"));
	assert_non_null(strstr(text, "segment 7, offset 0x1000"));
	assert_non_null(strstr(text, "cookie 0xabc"));
	assert_int_equal(openreg_fault_text(&f, few, sizeof(few)),
			 strlen(text));
	assert_memory_equal(few, text, sizeof(few) - 1);
	assert_int_equal(few[7], 0);
}

/* A fault in a LIST names the packet of the LIST, too. */
static void test_fault_in_list(void **state)
{
	const struct openreg_fault_summary f = {
		.code = OPENREG_FAULT_BOUNDS,
		.operand = 1,
		.seq = 41,
		.opcode = OPENREG_OP_COPY,
		.in_list = 65535,
	};
	char text[320];

	(void)state;
	openreg_fault_text(&f, text, sizeof(text));
	assert_non_null(strstr(text, "packet 41 LIST, in its packet 65535 COPY, operand 1"));
}

static void test_fault_detail(void **state)
{
	struct openreg_fault_summary f = {
		.code = OPENREG_FAULT_PROGRAM,
		.operand = OPENREG_NO_OPERAND,
		.detail = 3,
	};
	char text[320];

	(void)state;
	openreg_fault_text(&f, text, sizeof(text));
	assert_non_null(strstr(text, "(instruction 3)"));
	f.code = OPENREG_FAULT_DTYPE;
	f.detail = OPENREG_BF16;
	openreg_fault_text(&f, text, sizeof(text));
	assert_non_null(strstr(text, "(bf16)"));
	f.detail = OPENREG_BF16 + (1ull << 32);
	openreg_fault_text(&f, text, sizeof(text));
	assert_non_null(strstr(text, "(not a dtype)"));
	f.code = OPENREG_FAULT_INDEX;
	f.operand = 2;
	f.detail = (uint64_t)-12;
	f.address = 10;
	openreg_fault_text(&f, text, sizeof(text));
	assert_non_null(strstr(text, "index -12 is out of bounds for a dimension of size 10"));
	assert_null(strstr(text, "address"));
}

static void test_fault_without_operand(void **state)
{
	const struct openreg_fault_summary f = {
		.code = OPENREG_FAULT_PACKET,
		.operand = OPENREG_NO_OPERAND,
		.seq = 1,
		.opcode = 200,
	};
	char text[320];

	(void)state;
	openreg_fault_text(&f, text, sizeof(text));
	assert_null(strstr(text, "operand"));
	assert_null(strstr(text, "address"));
	assert_non_null(strstr(text, "malformed packet"));
	assert_non_null(strstr(text, "packet 1 (opcode 200)"));
}

static void test_strerror(void **state)
{
	static const int known[] = { EPERM, ENOENT, EIO, ENOMEM, EACCES, EFAULT,
				     EBUSY, ENODEV, EINVAL, ENOSPC, ETIME,
				     EPROTO, EOPNOTSUPP };

	(void)state;
	assert_string_equal(openreg_strerror(0), "success");
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		assert_string_equal(openreg_strerror(known[i]),
				    openreg_strerror(-known[i]));
		assert_string_not_equal(openreg_strerror(known[i]),
					"unexpected error");
	}
	assert_string_equal(openreg_strerror(12345), "unexpected error");
}

static void test_last_error(void **state)
{
	const char *transport = getenv("OPENREG_TRANSPORT");
	const char *missing = transport ? "sim:9" : "/no/such/node";
	struct openreg_device *dev = (void *)1;

	(void)state;
	assert_int_equal(openreg_device_open_path("/dev/null", &dev), -EPROTO);
	assert_null(dev);
	assert_non_null(strstr(openreg_last_error(), "/dev/null"));
	assert_int_equal(openreg_device_open(16, &dev), -ENODEV);
	assert_non_null(strstr(openreg_last_error(), "16"));
	assert_int_equal(openreg_device_open_path(missing, &dev), -ENODEV);
	assert_non_null(strstr(openreg_last_error(), missing));
}

static void test_null(void **state)
{
	(void)state;
	openreg_device_close(NULL);
	openreg_bo_free(NULL);
	openreg_queue_destroy(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_version),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_fault_text),
		cmocka_unit_test(test_fault_in_list),
		cmocka_unit_test(test_fault_detail),
		cmocka_unit_test(test_fault_without_operand),
		cmocka_unit_test(test_strerror),
		cmocka_unit_test(test_last_error),
		cmocka_unit_test(test_null),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
