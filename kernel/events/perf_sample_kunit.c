// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests for what the samples of an event show of the kernel. The events
 * are not opened, so no PMU is needed.
 */

#include <kunit/test.h>
#include <linux/perf_event.h>
#include <linux/perf_regs.h>

#define SAMPLE_TYPE	(PERF_SAMPLE_IP | PERF_SAMPLE_REGS_INTR |	\
			 PERF_SAMPLE_CODE_PAGE_SIZE)
#define SAMPLE_REGS	(BIT_ULL(PERF_REG_X86_IP) | BIT_ULL(PERF_REG_X86_SP))

#define USER_IP		0x401000

struct sample {
	struct perf_sample_data data;
	struct perf_event_header header;
	struct pt_regs regs;
};

/* What an event of a CPU's PMU, or a software event, samples at @ip. */
static struct sample *take_sample(struct kunit *test, bool exclude_kernel,
				  bool software, unsigned long ip)
{
	struct perf_event *event;
	struct sample *sample;

	event = kunit_kzalloc(test, sizeof(*event), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, event);
	sample = kunit_kzalloc(test, sizeof(*sample), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, sample);

	event->attr.sample_type = SAMPLE_TYPE;
	event->attr.sample_regs_intr = SAMPLE_REGS;
	event->attr.exclude_kernel = exclude_kernel;
	event->event_caps = software ? PERF_EV_CAP_SOFTWARE : 0;

	sample->regs.ip = ip;
	sample->regs.cs = ip == USER_IP ? __USER_CS : __KERNEL_CS;

	perf_sample_data_init(&sample->data, 0, 0);
	perf_prepare_sample(&sample->data, event, &sample->regs);
	perf_prepare_header(&sample->header, &sample->data, event, &sample->regs);

	return sample;
}

static void expect_shown(struct kunit *test, const struct sample *sample, u16 misc)
{
	KUNIT_EXPECT_EQ(test, sample->data.ip, sample->regs.ip);
	KUNIT_EXPECT_PTR_EQ(test, sample->data.regs_intr.regs, &sample->regs);
	KUNIT_EXPECT_NE(test, sample->data.regs_intr.abi, PERF_SAMPLE_REGS_ABI_NONE);
	/* The ABI and two registers */
	KUNIT_EXPECT_EQ(test, sample->data.dyn_size, 3 * sizeof(u64));
	KUNIT_EXPECT_EQ(test, sample->header.misc, misc);
}

static void hardware_event_that_skids_into_the_kernel_hides_it(struct kunit *test)
{
	struct sample *sample;

	sample = take_sample(test, true, false, _THIS_IP_);

	KUNIT_EXPECT_EQ(test, sample->data.ip, 0);
	KUNIT_EXPECT_EQ(test, sample->data.code_page_size, 0);
	KUNIT_EXPECT_NULL(test, sample->data.regs_intr.regs);
	KUNIT_EXPECT_EQ(test, sample->data.regs_intr.abi, PERF_SAMPLE_REGS_ABI_NONE);
	/* The ABI alone */
	KUNIT_EXPECT_EQ(test, sample->data.dyn_size, sizeof(u64));
	KUNIT_EXPECT_EQ(test, sample->header.misc, PERF_RECORD_MISC_KERNEL);
}

static void hardware_event_that_hits_user_mode_shows_it(struct kunit *test)
{
	expect_shown(test, take_sample(test, true, false, USER_IP),
		     PERF_RECORD_MISC_USER);
}

static void hardware_event_with_the_kernel_shows_it(struct kunit *test)
{
	struct sample *sample;

	sample = take_sample(test, false, false, _THIS_IP_);

	expect_shown(test, sample, PERF_RECORD_MISC_KERNEL);
	KUNIT_EXPECT_NE(test, sample->data.code_page_size, 0);
}

/* One that is not dropped is there for the kernel's sake (bpf-output). */
static void software_event_shows_the_kernel(struct kunit *test)
{
	expect_shown(test, take_sample(test, true, true, _THIS_IP_),
		     PERF_RECORD_MISC_KERNEL);
}

static struct kunit_case perf_sample_cases[] = {
	KUNIT_CASE(hardware_event_that_skids_into_the_kernel_hides_it),
	KUNIT_CASE(hardware_event_that_hits_user_mode_shows_it),
	KUNIT_CASE(hardware_event_with_the_kernel_shows_it),
	KUNIT_CASE(software_event_shows_the_kernel),
	{ }
};

static struct kunit_suite perf_sample_suite = {
	.name = "perf_sample",
	.test_cases = perf_sample_cases,
};

kunit_test_suites(&perf_sample_suite);

MODULE_DESCRIPTION("KUnit tests for what samples of perf events show");
MODULE_LICENSE("GPL");
